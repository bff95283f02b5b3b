"""Reports in one SQLite file: the embedded default, durable and atomic without a server.

Every thread that uses it has a connection of its own, and any number of processes may share the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock, local

from hubbub_service_common.sqlite import as_storage_error, connect, transaction
from hubbub_service_common.storage import StorageKind
from hubbub_shuffler.permute import Entropy
from hubbub_shuffler.storage import _sqlite_leases as leases
from hubbub_shuffler.storage import _sqlite_slots as slots
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

    kind: StorageKind = "sqlite"
    durable = True

    def __init__(
        self, path: Path, *, clock: Callable[[], float], entropy: Entropy, forget_after: float = 30 * 86_400
    ) -> None:
        self._clock, self._entropy, self._forget_after = clock, entropy, forget_after
        self._connections = _Connections(path)
        with as_storage_error(), closing(connect(path)) as db:
            create(db)

    def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        refused: dict[Bucket, Reason] = {}
        with self._transaction() as db:
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

    def close(self, revoked: Collection[int], off: Collection[bytes] = ()) -> list[Closed]:
        with self._transaction() as db:
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

    def read(self, bucket: Bucket) -> Iterator[bytes]:
        page = self._page(bucket, (0, 0))
        while page is not None:
            piece, start = page
            yield piece
            page = self._page(bucket, start)

    def _page(self, bucket: Bucket, start: tuple[int, int]) -> tuple[bytes, tuple[int, int]] | None:
        """The reports of the slots from `start` on, and where the next page starts; None behind the end.

        One short look at the file for each page: a reader that stays would keep the log from being cut.
        """
        with self._snapshot() as db:
            row = db.execute(
                f"SELECT waiting, filled FROM buckets WHERE {THIS} AND state IN ('closed', 'planned')",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                raise BucketGone("the bucket is not closed, or it was settled or discarded by another worker")
            waiting, filled = row
            return slots.page(db, waiting, filled, start)

    def seed(self, bucket: Bucket) -> bytes | None:
        with self._snapshot() as db:
            row = db.execute(f"SELECT waiting FROM buckets WHERE {THIS} AND state = 'planned'", bucket).fetchone()  # noqa: S608  constant
            if row is None:
                return None
            (seed,) = db.execute(f"SELECT seed FROM {row[0]}_seed").fetchone()  # noqa: S608  our own name
            return bytes(seed)

    def plan(self, bucket: Bucket, plan: Plan) -> bool:
        with self._transaction() as db:
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

    def halved(self, name: str, period: int, reports: int) -> bool:
        with self._transaction() as db:
            row = db.execute("SELECT period, reports FROM crowds WHERE name = ?", (name,)).fetchone()
            if row is not None and period <= row[0]:
                return False
            db.execute("INSERT OR REPLACE INTO crowds VALUES (?, ?, ?)", (name, period, reports))
            fell = row is not None and 2 * reports < row[1]
            if fell:
                count(db, name, "halved", reports=0, batches=1)
        return fell

    def held_periods(self) -> bytes:
        with self._snapshot() as db:
            return bytes(db.execute("SELECT body FROM held").fetchone()[0])

    def hold_periods(self, before: bytes, after: bytes) -> bool:
        with self._transaction() as db:
            return db.execute("UPDATE held SET body = ? WHERE body IN (?, ?)", (after, before, after)).rowcount == 1

    def claim(self, lease: float) -> Claim | None:
        token = self._entropy(16)
        with self._transaction() as db:
            return leases.claim(db, token, self._clock(), lease)

    def extend(self, claim: Claim, lease: float) -> bool:
        with self._transaction() as db:
            return leases.extend(db, claim, self._clock() + lease)

    def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        with self._transaction() as db:
            return leases.postpone(db, claim, self._clock() + seconds, sent=sent)

    def settle(self, claim: Claim, verdict: str) -> bool:
        with self._transaction() as db:
            return leases.settle(db, claim, verdict)

    def overview(self) -> Overview:
        with self._snapshot() as db:
            return _overview(db)

    def inspect(self) -> None:
        """Nobody can change how our connections write."""

    def check(self) -> None:
        with self._transaction() as db:
            db.execute("INSERT INTO probe VALUES (zeroblob(65536))")  # a full disk can still be read
            db.execute("DELETE FROM probe")

    def forget(self) -> bool:
        with as_storage_error():
            return erase(self._connections.of_this_thread(), self._clock() - self._forget_after)

    def disconnect(self) -> None:
        self._connections.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with as_storage_error(), transaction(self._connections.of_this_thread()) as db:
            yield db

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """The file as it is now, for several reads."""
        with as_storage_error(), transaction(self._connections.of_this_thread(), "BEGIN") as db:
            yield db


class _Connections:
    """One connection for each thread that asks."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock, self._local = path, Lock(), local()
        self._all: list[sqlite3.Connection] = []

    def of_this_thread(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = connect(self._path)
            with self._lock:
                self._all.append(found)
        return found

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()


def _overview(db: sqlite3.Connection) -> Overview:
    return Overview(
        waiting=[
            Waiting(*row)
            for row in db.execute(
                "SELECT name, state, reports FROM buckets WHERE state IN ('open', 'closed', 'planned') ORDER BY name"
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
