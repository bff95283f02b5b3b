"""SQLite backend: reports in one file. The default, durable and atomic without a server.

Every thread has its own connection, and any number of processes may share the file.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from hubbub_service_common.storage.free_space import Room
from hubbub_service_common.storage.kinds_and_errors import StorageKind
from hubbub_service_common.storage.sqlite import as_storage_error, connect, transaction
from hubbub_service_common.storage.sqlite_disk_space import Reserve, bound_log, free_of, room_of
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.storage.protocol import (
    CLOSED_FOR,
    Arrivals,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    Count,
    HeldBatch,
    Overview,
    Plan,
    Reason,
    StorageError,
    Terms,
    Waiting,
)
from hubbub_shuffler.storage.repair_schedule import Repair
from hubbub_shuffler.storage.sqlite import batches, slots
from hubbub_shuffler.storage.sqlite.connections import Connections
from hubbub_shuffler.storage.sqlite.erase import erase
from hubbub_shuffler.storage.sqlite.mender import SqliteMender, blaming, missing
from hubbub_shuffler.storage.sqlite.open_close_lock import Users
from hubbub_shuffler.storage.sqlite.salvage import is_damage
from hubbub_shuffler.storage.sqlite.schema import THIS, count, create
from hubbub_shuffler.storage.sqlite.witness import Witness

__all__ = ["SqliteStorage"]


class SqliteStorage:
    """A `Storage` in one file. `clock`: for leases, and to refuse late reports; nothing is closed or forgotten by it.

    `forget_after`: seconds for which a closed bucket is remembered as closed. `quota`: most bytes that the file may
    take; without it, the disk sets the limit. `salvage_after`: seconds after which a bucket that can't be read is
    looked at again; it then goes on without the reports that still can't be read.
    """

    kind: StorageKind = "sqlite"
    durable = True

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float],
        entropy: Entropy,
        forget_after: float = 30 * 86_400,
        quota: int | None = None,
        salvage_after: float = 10.0,
    ) -> None:
        self._clock, self._entropy, self._forget_after = clock, entropy, forget_after
        self._path, self._quota = path, quota
        self._reserve = Reserve(path)
        self.repair = Repair(SqliteMender(path, self._reserve), salvage_after, is_damage=is_damage)
        self._reserve.give_up_if_needed()
        self._connections = Connections(path, lambda db: bound_log(db, self._reserve))
        self._users = Users(path)
        with self._users.one_at_a_time():
            self._witness = Witness(path)  # before anything opens the file
            with as_storage_error(), closing(connect(path)) as db:
                create(db)
                self._witness.begin(db)
            self._witness.rest()
        self._reserve.keep()

    def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        refused: dict[Bucket, Reason] = {}
        with self.repair.watching([arrival.bucket for arrival in arrivals]), self._transaction(needed=False) as db:
            now, taken_in_all = self._clock(), 0  # the clock is read under the write lock: closing can't overlap
            for arrival in arrivals:
                waiting, filled, reason = self._open(db, arrival, now)
                if reason is not None:
                    refused[arrival.bucket] = reason
                    continue
                with blaming(arrival.bucket):
                    filled = slots.put(db, waiting, filled, arrival, self._entropy)
                taken = len(arrival.sealed)
                db.execute(
                    f"UPDATE buckets SET reports = reports + ?, filled = ? WHERE {THIS}",  # noqa: S608  constant
                    (taken, filled, *arrival.bucket),
                )
                count(db, arrival.terms.name, "ingested", reports=taken)
                taken_in_all += taken
            total = self._witness.total(db, taken_in_all)
        self._witness.saw(total)
        return refused

    def _open(self, db: sqlite3.Connection, arrival: Arrivals, now: float) -> tuple[str, bytes, Reason | None]:
        """The table name and filled slots of this bucket, or why it takes nothing."""
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

    def close(self, revoked: Collection[int], off: Collection[bytes] = (), *, due: float = -math.inf) -> list[Closed]:
        with self._transaction() as db:
            db.execute("UPDATE buckets SET state = 'closed' WHERE state = 'open' AND closes_at <= ?", (due,))
            for key in revoked:
                db.execute("UPDATE buckets SET state = 'closed', revoked = 1 WHERE state = 'open' AND key = ?", (key,))
            if off:  # there may be thousands, and few have buckets
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
        start: tuple[int, int] | None = (0, 0)
        found = 0
        while start is not None:
            with self.repair.watching([bucket]):
                page, whole = self._page(bucket, start)
                if page is None and found != whole:
                    raise missing()
            if page is None:
                return
            piece, start = page
            found += len(piece)
            yield piece

    def _page(self, bucket: Bucket, start: tuple[int, int]) -> tuple[tuple[bytes, tuple[int, int]] | None, int]:
        """The reports of the slots from `start` on, and where the next page starts; None after the end. Also the number
        of bytes of all pages together.

        Each page is read in its own short transaction: a longer one would keep the log from being cut.
        """
        with self._snapshot() as db:
            row = db.execute(
                f"SELECT waiting, filled, reports, size FROM buckets WHERE {THIS} AND state IN ('closed', 'planned')",  # noqa: S608  constant
                bucket,
            ).fetchone()
            if row is None:
                raise BucketGone("the bucket is not closed, or it was settled or discarded by another worker")
            waiting, filled, reports, size = row
            return slots.page(db, waiting, filled, start), reports * size

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
                # In a table of this bucket, so that the seed is deleted with the bucket.
                db.execute(f"CREATE TABLE {waiting}_seed (seed BLOB NOT NULL)")
                db.execute(f"INSERT INTO {waiting}_seed VALUES (?)", (plan.seed,))  # noqa: S608  our own name
            batches.insert(db, bucket, plan)
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
            return batches.claim(db, token, self._clock(), lease)

    def extend(self, claim: Claim, lease: float) -> bool:
        with self._transaction() as db:
            return batches.extend(db, claim, self._clock() + lease)

    def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        with self._transaction() as db:
            return batches.postpone(db, claim, self._clock() + seconds, sent=sent)

    def settle(self, claim: Claim, verdict: str) -> bool:
        with self._transaction() as db:
            return batches.settle(db, claim, verdict)

    def hold_back(self, claim: Claim, why: str, *, since: int, until: int, seconds: float) -> bool:
        with self._transaction() as db:
            return batches.hold_back(db, claim, why, since, until, self._clock() + seconds)

    def held_batches(self) -> list[HeldBatch]:
        with self._snapshot() as db:
            return batches.held(db)

    def offer(self, ids: Collection[bytes] | None = None) -> int:
        with self._transaction() as db:
            return batches.offer(db, ids, self._clock())

    def claim_held(self, id: bytes, lease: float) -> Claim | None:  # noqa: A002  it is an id
        token = self._entropy(16)
        with self._transaction() as db:
            return batches.claim_held(db, id, token, self._clock(), lease)

    def overview(self) -> Overview:
        with self._snapshot() as db:
            return _overview(db)

    def inspect(self) -> None:
        """Nothing to check: no setting outside this process changes how its connections write."""

    def room(self) -> Room:
        with self._snapshot() as db:
            _read_records(db)  # if these are damaged, nothing could leave again
        with as_storage_error():
            return room_of(self._connections.of_this_thread(), self._path, self._quota)

    def check(self) -> None:
        with self._transaction(needed=False) as db:
            _read_records(db)
            db.execute("INSERT INTO probe VALUES (zeroblob(65536))")  # reading works on a full disk too
            db.execute("DELETE FROM probe")

    def forget(self, past: float = -math.inf) -> bool:
        self._reserve.give_up_if_needed()
        try:  # deletion first: it makes room, and damage must not hold it up
            with as_storage_error():
                db = self._connections.of_this_thread()
                clean = erase(db, past - self._forget_after, lambda: free_of(self._path))
        finally:
            self.repair.salvage()
        self._reserve.keep()
        return clean

    def disconnect(self) -> None:
        with self._users.one_at_a_time():
            self._connections.close()  # the reserve is kept: the disk may be full at the next start
            self._witness.end()

    @contextmanager
    def _transaction(self, *, needed: bool = True) -> Iterator[sqlite3.Connection]:
        """`needed`: this step makes room in the end, so on a full disk the reserve is given up for it."""
        if needed:
            self._reserve.give_up_if_needed()
        try:
            with as_storage_error(), transaction(self._connections.of_this_thread()) as db:
                yield db
        except StorageError:
            if needed:
                self._reserve.give_up_if_needed()  # this step may have needed more room than most
            raise

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """One view of the file, for several reads."""
        with as_storage_error(), transaction(self._connections.of_this_thread(), "BEGIN") as db:
            yield db


def _read_records(db: sqlite3.Connection) -> None:
    """Read every record that is not a report. sqlite3.DatabaseError if one can't be read."""
    for table in ("buckets", "batches", "counts", "crowds", "held"):
        for _ in db.execute(f"SELECT * FROM {table}"):  # noqa: S608  constant
            pass


def _overview(db: sqlite3.Connection) -> Overview:
    return Overview(
        waiting=[
            Waiting(name, state, reports, closes_at, bool(held))
            for name, state, reports, closes_at, held in db.execute(
                "SELECT name, state, reports, closes_at, "
                "(SELECT min(held != '') FROM batches AS b WHERE (b.metric, b.period, b.key) = "
                "(buckets.metric, buckets.period, buckets.key)) "
                "FROM buckets WHERE state IN ('open', 'closed', 'planned') ORDER BY name"
            )
        ],
        batches={
            "planned": db.execute("SELECT count(*) FROM batches WHERE NOT sent AND held = ''").fetchone()[0],
            "sent": db.execute("SELECT count(*) FROM batches WHERE sent AND held = ''").fetchone()[0],
        },
        held={
            why: Count(reports, batches)
            for why, reports, batches in db.execute(
                "SELECT held, sum(reports), count(*) FROM batches WHERE held != '' GROUP BY held ORDER BY held"
            )
        },
        counts={
            (name, what): Count(reports, batches)
            for name, what, reports, batches in db.execute("SELECT * FROM counts ORDER BY name, what")
        },
    )
