"""Reports in one SQLite file: the embedded default, durable and atomic without a server.

Two connections, each in a thread of its own: one for ingest and what it needs, one for everything else, so that reading
a large bucket never keeps an upload waiting. Any number of processes may share the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path

from hubbub_shuffler.permute import Entropy
from hubbub_shuffler.storage import _sqlite_leases as leases
from hubbub_shuffler.storage import _sqlite_slots as slots
from hubbub_shuffler.storage._lane import Lane, as_storage_error
from hubbub_shuffler.storage._schema import THIS, count, create
from hubbub_shuffler.storage._sqlite_erase import erase
from hubbub_shuffler.storage.protocol import (
    CLOSED_FOR,
    Arrivals,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    Count,
    Overview,
    Plan,
    Reason,
    Terms,
    Waiting,
)

__all__ = ["SqliteStorage"]


class SqliteStorage:
    """A `Storage` in one file. `forget_after`: seconds for which a closed bucket is remembered as closed."""

    durable = True

    def __init__(
        self, path: Path, *, clock: Callable[[], float], entropy: Entropy, forget_after: float = 30 * 86_400
    ) -> None:
        self._clock, self._entropy, self._forget_after = clock, entropy, forget_after
        self._ingest, self._rest = Lane(path), Lane(path)
        try:
            with as_storage_error():
                create(self._rest.db)
        except BaseException:
            self._ingest.close()
            self._rest.close()
            raise

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        return await self._ingest.run(self._add, arrivals)

    async def close(self, revoked: Collection[int], off: Collection[bytes] = ()) -> list[Closed]:
        return await self._rest.run(self._close, revoked, off)

    async def read(self, bucket: Bucket) -> AsyncIterator[bytes]:
        page = await self._rest.run(self._page, bucket, (0, 0))
        while page is not None:
            piece, start = page
            yield piece
            page = await self._rest.run(self._page, bucket, start)

    async def seed(self, bucket: Bucket) -> bytes | None:
        return await self._rest.run(self._seed, bucket)

    async def plan(self, bucket: Bucket, plan: Plan) -> bool:
        return await self._rest.run(self._plan, bucket, plan)

    async def halved(self, name: str, period: int, reports: int) -> bool:
        return await self._rest.run(self._halved, name, period, reports)

    async def held_periods(self) -> bytes:
        return await self._ingest.run(self._held_periods)

    async def hold_periods(self, before: bytes, after: bytes) -> bool:
        return await self._ingest.run(self._hold_periods, before, after)

    async def claim(self, lease: float) -> Claim | None:
        return await self._rest.run(self._claim, lease)

    async def extend(self, claim: Claim, lease: float) -> bool:
        return await self._rest.run(self._extend, claim, lease)

    async def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        return await self._rest.run(self._postpone, claim, seconds, sent)

    async def settle(self, claim: Claim, verdict: str) -> bool:
        return await self._rest.run(self._settle, claim, verdict)

    async def forget(self) -> bool:
        return await self._rest.run(lambda: erase(self._rest, self._clock() - self._forget_after))

    async def overview(self) -> Overview:
        return await self._rest.run(self._overview)

    async def inspect(self) -> None:
        """Nobody can change how our connections write."""

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
                waiting, filled, reason = self._open(db, arrival, now)
                if reason is not None:
                    refused[arrival.bucket] = reason
                    continue
                filled = slots.put(db, waiting, filled, arrival, self._entropy)
                taken = len(arrival.sealed)
                db.execute(
                    f"UPDATE buckets SET reports = reports + ?, filled = ? WHERE {THIS}",  # noqa: S608  constant
                    (taken, filled, *arrival.bucket),
                )
                count(db, arrival.terms.name, "ingested", reports=taken)
        return refused

    def _open(self, db: sqlite3.Connection, arrival: Arrivals, now: float) -> tuple[str, bytes, Reason | None]:
        """Where reports of this bucket wait, or why none may."""
        row = db.execute(
            f"SELECT state, closes_at, revoked, waiting, filled FROM buckets WHERE {THIS}",  # noqa: S608  constant
            arrival.bucket,
        ).fetchone()
        terms = arrival.terms
        new = ("open", terms.closes_at, 0, f"waiting_{self._entropy(16).hex()}", slots.EMPTY)
        state, closes_at, revoked, waiting, filled = row or new
        if state != "open" or now >= closes_at:
            return "", b"", CLOSED_FOR[revoked]
        if row is None:
            db.execute(
                "INSERT INTO buckets VALUES (?, ?, ?, ?, ?, ?, ?, 'open', 0, 0, ?, ?)",
                (*arrival.bucket, terms.name, terms.size, terms.closes_at, terms.minimum, waiting, filled),
            )
        return waiting, filled, None

    def _close(self, revoked: Collection[int], off: Collection[bytes]) -> list[Closed]:
        with self._rest.transaction() as db:
            now = self._clock()
            db.execute("UPDATE buckets SET state = 'closed' WHERE state = 'open' AND closes_at <= ?", (now,))
            for key in revoked:
                db.execute("UPDATE buckets SET state = 'closed', revoked = 1 WHERE state = 'open' AND key = ?", (key,))
            if off:  # may be thousands, of which few have buckets
                here = {row[0] for row in db.execute("SELECT metric FROM buckets WHERE state = 'open'")}
                db.executemany(
                    "UPDATE buckets SET state = 'closed', revoked = 2 WHERE state = 'open' AND metric = ?",
                    [(metric,) for metric in here.intersection(off)],
                )
            rows = db.execute(
                "SELECT metric, period, key, name, size, closes_at, minimum, revoked "
                "FROM buckets WHERE state = 'closed'"
            ).fetchall()
        return [Closed(Bucket(*row[:3]), Terms(*row[3:7]), early=bool(row[7])) for row in rows]

    def _page(self, bucket: Bucket, start: tuple[int, int]) -> tuple[bytes, tuple[int, int]] | None:
        """The reports of the slots from `start` on, and where the next page starts; None behind the end.

        One short look at the file for each page: a reader that stays would keep the log from being cut.
        """
        with self._rest.snapshot() as db:
            row = db.execute(
                f"SELECT waiting, filled FROM buckets WHERE {THIS} AND state IN ('closed', 'planned')",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                raise BucketGone("the bucket is not closed, or it was settled or discarded by another worker")
            waiting, filled = row
            return slots.page(db, waiting, filled, start)

    def _seed(self, bucket: Bucket) -> bytes | None:
        with self._rest.snapshot() as db:
            row = db.execute(f"SELECT waiting FROM buckets WHERE {THIS} AND state = 'planned'", bucket).fetchone()  # noqa: S608  constant
            if row is None:
                return None
            (seed,) = db.execute(f"SELECT seed FROM {row[0]}_seed").fetchone()  # noqa: S608  our own name
            return bytes(seed)

    def _plan(self, bucket: Bucket, plan: Plan) -> bool:
        with self._rest.transaction() as db:
            row = db.execute(
                f"SELECT name, waiting FROM buckets WHERE {THIS} AND state = 'closed'",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                return False
            name, waiting = row
            state = "spent" if plan.discard else "planned"
            db.execute(f"UPDATE buckets SET state = ? WHERE {THIS}", (state, *bucket))  # noqa: S608  constant
            if not plan.discard:
                # In a table of the bucket's own, so that the seed goes with it.
                db.execute(f"CREATE TABLE {waiting}_seed (seed BLOB NOT NULL)")
                db.execute(f"INSERT INTO {waiting}_seed VALUES (?)", (plan.seed,))  # noqa: S608  our own name
            leases.insert(db, bucket, plan)
            count(db, name, "duplicate", reports=plan.duplicates)
            if plan.discard:
                count(db, name, "discarded", reports=plan.distinct, batches=1)
        return True

    def _halved(self, name: str, period: int, reports: int) -> bool:
        with self._rest.transaction() as db:
            row = db.execute("SELECT period, reports FROM crowds WHERE name = ?", (name,)).fetchone()
            if row is not None and period <= row[0]:
                return False
            db.execute("INSERT OR REPLACE INTO crowds VALUES (?, ?, ?)", (name, period, reports))
            fell = row is not None and 2 * reports < row[1]
            if fell:
                count(db, name, "halved", reports=0, batches=1)
        return fell

    def _held_periods(self) -> bytes:
        return bytes(self._ingest.db.execute("SELECT body FROM held").fetchone()[0])

    def _hold_periods(self, before: bytes, after: bytes) -> bool:
        with self._ingest.transaction() as db:
            return db.execute("UPDATE held SET body = ? WHERE body IN (?, ?)", (after, before, after)).rowcount == 1

    def _claim(self, lease: float) -> Claim | None:
        token = self._entropy(16)
        with self._rest.transaction() as db:
            return leases.claim(db, token, self._clock(), lease)

    def _extend(self, claim: Claim, lease: float) -> bool:
        with self._rest.transaction() as db:
            return leases.extend(db, claim, self._clock() + lease)

    def _postpone(self, claim: Claim, seconds: float, sent: bool) -> bool:
        with self._rest.transaction() as db:
            return leases.postpone(db, claim, self._clock() + seconds, sent=sent)

    def _settle(self, claim: Claim, verdict: str) -> bool:
        with self._rest.transaction() as db:
            return leases.settle(db, claim, verdict)

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
            db.execute("INSERT INTO probe VALUES (zeroblob(65536))")  # a full disk can still be read
            db.execute("DELETE FROM probe")
