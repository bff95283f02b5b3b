"""Reports in one SQLite file: the embedded default, durable and atomic without a server.

Two connections, each in a thread of its own: one for ingest, one for everything else, so that reading a large
bucket never keeps an upload waiting. Any number of processes may share the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hubbub_shuffler.permute import Entropy, shuffled
from hubbub_shuffler.storage._lane import Lane, as_storage_error
from hubbub_shuffler.storage._schema import create
from hubbub_shuffler.storage.protocol import (
    LONGEST_PAUSE,
    Arrivals,
    Batch,
    Bucket,
    Claim,
    Closed,
    Contents,
    Count,
    Overview,
    Plan,
    Reason,
    Terms,
    Waiting,
)

__all__ = ["SqliteStorage"]

_SEED = b""
"""The id of the one row of a waiting table that is not a group commit."""
_AT_ONCE = 256
"""Group commits deleted in one transaction, so that uploads never wait long for the file."""
_THIS = "metric = ? AND period = ? AND key = ?"


class SqliteStorage:
    """A `Storage` in one file. `forget_after`: seconds for which a closed bucket is remembered as closed."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float], entropy: Entropy, forget_after: float = 30 * 86_400
    ) -> None:
        self._clock, self._entropy, self._forget_after = clock, entropy, forget_after
        self._ingest, self._rest = Lane(path), Lane(path)
        with as_storage_error():
            create(self._rest.db)

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        return await self._ingest.run(self._add, arrivals)

    async def close(self, revoked: Collection[int]) -> list[Closed]:
        return await self._rest.run(self._close, revoked)

    async def read(self, bucket: Bucket) -> Contents:
        return await self._rest.run(self._read, bucket)

    async def plan(self, bucket: Bucket, plan: Plan) -> bool:
        return await self._rest.run(self._plan, bucket, plan)

    async def claim(self, lease: float) -> Claim | None:
        return await self._rest.run(self._claim, lease)

    async def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        return await self._rest.run(self._postpone, claim, seconds, sent)

    async def settle(self, claim: Claim, verdict: str) -> bool:
        return await self._rest.run(self._settle, claim, verdict)

    async def forget(self) -> bool:
        return await self._rest.run(self._forget)

    async def overview(self) -> Overview:
        return await self._rest.run(self._overview)

    async def check(self) -> None:
        await self._ingest.run(self._check)

    async def aclose(self) -> None:
        await self._ingest.aclose()
        await self._rest.aclose()

    def _add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        refused: dict[Bucket, Reason] = {}
        with self._ingest.transaction() as db:
            now = self._clock()  # read under the write lock: closing and adding cannot overlap
            for arrival in arrivals:
                table, reason = self._open_table(db, arrival, now)
                if reason is not None:
                    refused[arrival.bucket] = reason
                    continue
                body = b"".join(shuffled(arrival.sealed, self._entropy))
                db.execute(f"INSERT INTO {table} VALUES (?, ?)", (self._entropy(16), body))  # noqa: S608  our own name
                count = len(arrival.sealed)
                db.execute(f"UPDATE buckets SET reports = reports + ? WHERE {_THIS}", (count, *arrival.bucket))  # noqa: S608  constant
                _count(db, arrival.terms.name, "ingested", reports=count)
        return refused

    def _open_table(self, db: sqlite3.Connection, arrival: Arrivals, now: float) -> tuple[str, Reason | None]:
        """Where reports of this bucket wait, or why none may."""
        row = db.execute(
            f"SELECT state, closes_at, revoked, waiting FROM buckets WHERE {_THIS}",  # noqa: S608  constant
            arrival.bucket,
        ).fetchone()
        terms = arrival.terms
        state, closes_at, revoked, table = row or ("open", terms.closes_at, 0, f"waiting_{self._entropy(16).hex()}")
        if state != "open" or now >= closes_at:
            return "", "revoked-key" if revoked else "period-closed"
        if row is None:
            db.execute(
                "INSERT INTO buckets VALUES (?, ?, ?, ?, ?, ?, ?, 'open', 0, 0, ?)",
                (*arrival.bucket, terms.name, terms.size, terms.closes_at, terms.minimum, table),
            )
            db.execute(f"CREATE TABLE {table} (id BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID")
        return table, None

    def _close(self, revoked: Collection[int]) -> list[Closed]:
        with self._rest.transaction() as db:
            now = self._clock()
            db.execute("UPDATE buckets SET state = 'closed' WHERE state = 'open' AND closes_at <= ?", (now,))
            for key in revoked:
                db.execute("UPDATE buckets SET state = 'closed', revoked = 1 WHERE state = 'open' AND key = ?", (key,))
            rows = db.execute(
                "SELECT metric, period, key, name, size, closes_at, minimum, revoked "
                "FROM buckets WHERE state = 'closed'"
            ).fetchall()
        return [Closed(Bucket(*row[:3]), Terms(*row[3:7]), bool(row[7])) for row in rows]

    def _read(self, bucket: Bucket) -> Contents:
        with self._rest.snapshot() as db:
            row = db.execute(
                f"SELECT size, waiting FROM buckets WHERE {_THIS} AND state IN ('closed', 'planned')",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                return Contents([], None)
            size, table = row
            reports: list[bytes] = []
            seed = None
            for id_, body in db.execute(f"SELECT id, body FROM {table}"):  # noqa: S608  our own name
                if id_ == _SEED:
                    seed = body
                else:
                    reports += [body[at : at + size] for at in range(0, len(body), size)]
            return Contents(reports, seed)

    def _plan(self, bucket: Bucket, plan: Plan) -> bool:
        with self._rest.transaction() as db:
            row = db.execute(
                f"SELECT name, waiting FROM buckets WHERE {_THIS} AND state = 'closed'",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                return False
            name, table = row
            state, kind = ("spent", "discard") if plan.discard else ("planned", "batch")
            db.execute(f"UPDATE buckets SET state = ? WHERE {_THIS}", (state, *bucket))  # noqa: S608  constant
            if not plan.discard:
                # In the bucket's own table, so that the seed goes with it.
                db.execute(f"INSERT INTO {table} VALUES (?, ?)", (_SEED, plan.seed))  # noqa: S608  our own name
            parts, total = len(plan.ids), plan.distinct
            for part, id_ in enumerate(plan.ids):
                reports = 0 if plan.discard else total * (part + 1) // parts - total * part // parts
                db.execute(
                    "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, NULL, 0)",
                    (id_, *bucket, kind, part, parts, reports),
                )
            _count(db, name, "duplicate", reports=plan.duplicates)
            if plan.discard:
                _count(db, name, "discarded", reports=total, batches=1)
        return True

    def _claim(self, lease: float) -> Claim | None:
        token = self._entropy(16)
        with self._rest.transaction() as db:
            now = self._clock()
            row = db.execute(
                "SELECT id, metric, period, key, kind, part, parts, sent, attempts FROM batches "
                "WHERE due <= ? OR due > ? ORDER BY due LIMIT 1",
                (now, now + LONGEST_PAUSE),
            ).fetchone()
            if row is None:
                return None
            id_, *bucket, kind, part, parts, sent, attempts = row
            terms = db.execute(f"SELECT name, size, closes_at, minimum FROM buckets WHERE {_THIS}", bucket).fetchone()  # noqa: S608  constant
            db.execute("UPDATE batches SET lease = ?, due = ? WHERE id = ?", (token, now + lease, id_))
        return Claim(Batch(id_, Bucket(*bucket), Terms(*terms), kind, part, parts, bool(sent), attempts), token)

    def _postpone(self, claim: Claim, seconds: float, sent: bool) -> bool:
        with self._rest.transaction() as db:
            changed = db.execute(
                "UPDATE batches SET lease = NULL, due = ?, sent = ?, attempts = attempts + 1 "
                "WHERE id = ? AND lease = ?",
                (self._clock() + seconds, int(sent), claim.batch.id, claim.token),
            )
            return changed.rowcount == 1

    def _settle(self, claim: Claim, verdict: str) -> bool:
        batch = claim.batch
        with self._rest.transaction() as db:
            held = db.execute(
                "SELECT reports FROM batches WHERE id = ? AND lease = ?", (batch.id, claim.token)
            ).fetchone()
            if held is None:
                return False
            db.execute("DELETE FROM batches WHERE id = ?", (batch.id,))
            what = verdict if batch.kind == "batch" else f"discard-{verdict}"
            _count(db, batch.terms.name, what, reports=held[0], batches=1)
            left = db.execute(f"SELECT 1 FROM batches WHERE {_THIS} LIMIT 1", batch.bucket).fetchone()  # noqa: S608  constant
            if left is None:
                db.execute(
                    f"UPDATE buckets SET state = 'spent' WHERE {_THIS} AND state = 'planned'",  # noqa: S608  constant
                    batch.bucket,
                )
        return True

    def _forget(self) -> bool:
        db = self._rest.db
        for *bucket, table in db.execute(
            "SELECT metric, period, key, waiting FROM buckets WHERE state = 'spent'"
        ).fetchall():
            self._empty(table)
            with self._rest.transaction():
                db.execute(f"DROP TABLE IF EXISTS {table}")
                db.execute(f"UPDATE buckets SET state = 'gone' WHERE {_THIS} AND state = 'spent'", bucket)  # noqa: S608  constant
        clean = self._cut_log()
        with self._rest.transaction():
            db.execute(
                "DELETE FROM buckets WHERE state = 'gone' AND waiting = '' AND closes_at <= ? AND NOT EXISTS "
                "(SELECT 1 FROM batches AS b WHERE (b.metric, b.period, b.key) = "
                "(buckets.metric, buckets.period, buckets.key))",
                (self._clock() - self._forget_after,),
            )
        return clean

    def _cut_log(self) -> bool:
        """Overwritten in the file is not enough: the log still holds the pages as they were, until it is cut.

        A bucket that is gone keeps the name of its table until then, so that any process can finish this.
        """
        db = self._rest.db
        traces = db.execute("SELECT metric, period, key FROM buckets WHERE state = 'gone' AND waiting != ''").fetchall()
        if not traces:
            return True
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            return False
        with self._rest.transaction():
            # only those from before the cut: another process may have deleted since
            db.executemany(f"UPDATE buckets SET waiting = '' WHERE {_THIS} AND state = 'gone'", traces)  # noqa: S608  constant
        return True

    def _empty(self, table: str) -> None:
        """Delete in steps: one large deletion would keep uploads waiting for the file."""
        deleted = 1
        while deleted:
            with self._rest.transaction() as db:
                try:
                    deleted = db.execute(
                        f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} LIMIT {_AT_ONCE})"  # noqa: S608  our own name
                    ).rowcount
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):
                        raise
                    deleted = 0  # another process was faster

    def _overview(self) -> Overview:
        db = self._rest.db
        return Overview(
            waiting=[
                Waiting(*row)
                for row in db.execute(
                    "SELECT name, state, reports FROM buckets "
                    "WHERE state IN ('open', 'closed', 'planned') ORDER BY name"
                )
            ],
            batches={
                "planned": db.execute("SELECT count(*) FROM batches WHERE NOT sent").fetchone()[0],
                "sent": db.execute("SELECT count(*) FROM batches WHERE sent").fetchone()[0],
            },
            counts={
                (name, what): Count(reports, batches)
                for name, what, reports, batches in db.execute("SELECT * FROM counts ORDER BY name, what")
            },
        )

    def _check(self) -> None:
        with self._ingest.transaction() as db:
            db.execute("SELECT count(*) FROM buckets").fetchone()


def _count(db: sqlite3.Connection, name: str, what: str, *, reports: int, batches: int = 0) -> None:
    if reports or batches:
        db.execute(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT (name, what) "
            "DO UPDATE SET reports = reports + excluded.reports, batches = batches + excluded.batches",
            (name, what, reports, batches),
        )
