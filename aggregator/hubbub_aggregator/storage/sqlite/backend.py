"""SQLite in WAL mode with synchronous=FULL: the embedded backend, for one aggregator on one machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from hubbub.wire import BatchHeader
from hubbub_aggregator.storage.protocol import (
    Accepted,
    Batch,
    Bodies,
    KeyTaken,
    Outcome,
    Release,
    SignedBundle,
    State,
    StoredCodebook,
    StoredKey,
)
from hubbub_aggregator.storage.sqlite import nonces as sqlite_nonces
from hubbub_aggregator.storage.sqlite.schema import OTHERWISE, SCHEMA, UPGRADES, VERSION
from hubbub_service_common.storage.kinds_and_errors import StorageError, StorageKind
from hubbub_service_common.storage.sqlite import as_storage_error, connect, cut_log, make_tables, transaction
from hubbub_service_common.storage.sqlite_disk_space import Reserve, bound_log, free_of

__all__ = ["SqliteStorage"]

_BATCH = "id, header, digest, state, spool, reason, valid, invalid"
_RELEASE = "id, metric, period, tally, record"
_RESERVE = 32 * 2**20
"""Most bytes of the reserve: the verdict on a batch of 64 MiB may need them all, for the log and for the file."""
_PROBE = 64 * 2**10
_REVOKE = "UPDATE keys SET revoked = 1, private_key = NULL WHERE id = ?"


class SqliteStorage:
    """One file, readable by its owner only: it holds the private halves of the sealing keys."""

    kind: StorageKind = "sqlite"
    bodies: Bodies | None = None
    durable = True

    def __init__(self, path: Path) -> None:
        self._lock, self._path = RLock(), path
        self._reserve = Reserve(path, _RESERVE)
        self._reserve.give_up_if_needed()
        with as_storage_error():
            self._connection = connect(path)
        self._traces = True  # a crash may have left some
        self._others = -1
        try:
            with as_storage_error():
                bound_log(self._connection, self._reserve)
            with self._transaction():
                (found,) = self._one("PRAGMA user_version")
                make_tables(self._connection, SCHEMA, UPGRADES, VERSION, found=found, otherwise=OTHERWISE)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()  # the reserve stays: the disk may be full at the next start

    @contextmanager
    def _transaction(self, *, needed: bool = True) -> Iterator[None]:
        """`needed`: it makes room in the end or can't wait, so on a full disk it may use the reserve."""
        if needed:
            self._reserve.give_up_if_needed()
        try:
            with self._lock, as_storage_error(), transaction(self._connection):
                yield
        except StorageError:
            if needed:
                self._reserve.give_up_if_needed()  # it needed more room than was left, and will be tried again
            raise

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lock, as_storage_error(), closing(self._connection.execute(sql, values)) as cursor:
            return cursor.fetchall()

    def _one(self, sql: str, *values: object) -> Any:
        with self._lock, as_storage_error(), closing(self._connection.execute(sql, values)) as cursor:
            return cursor.fetchone()

    # -- batches --------------------------------------------------------------------------------

    def admit(self, batch: Batch) -> Batch:
        with self._transaction(needed=False):
            known = self.batch(batch.id)
            if known is not None:
                return known
            self._connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    batch.id,
                    batch.header.encode(),
                    batch.digest,
                    batch.header.metric,
                    batch.header.period,
                    batch.header.kind,
                    batch.state,
                    batch.spool,
                    batch.reason,
                    batch.valid,
                    json.dumps(dict(batch.invalid)),
                ),
            )
        return batch

    def batch(self, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        row = self._one(f"SELECT {_BATCH} FROM batches WHERE id = ?", id)  # noqa: S608  our own column names
        return None if row is None else _batch(row)

    def pending(self) -> list[Batch]:
        rows = self._all(f"SELECT {_BATCH} FROM batches WHERE state = 'pending' ORDER BY period, id")  # noqa: S608  as above
        return [_batch(row) for row in rows]

    def accepted(self, metric: bytes, period: int, start: int = 0) -> list[bytes]:
        rows = self._all(
            "SELECT id FROM batches WHERE metric = ? AND period = ? AND version > ? ORDER BY version",
            metric,
            period,
            start,
        )
        return [id for (id,) in rows]  # noqa: A001  it is an id

    def nonces(self, metric: bytes, period: int, mark: bytes) -> bytes:  # noqa: ARG002  an id has one metric
        with self._lock, as_storage_error():
            return sqlite_nonces.read(self._connection, period, mark)

    def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:  # noqa: ARG002  as above
        with self._lock, as_storage_error():
            return sqlite_nonces.among(self._connection, period, mark, nonces)

    def accept(
        self,
        id: bytes,  # noqa: A002  it is an id
        version: int,
        accepted: Accepted,
        last: bytes | None = None,
    ) -> Outcome:
        with self._transaction():
            batch = self.batch(id)
            if batch is None or batch.state != "pending":
                return "settled"  # a verdict is never changed
            metric, period = batch.header.metric, batch.header.period
            newest = self._one(
                "SELECT version, id FROM batches WHERE metric = ? AND period = ? AND version > 0 "
                "ORDER BY version DESC LIMIT 1",
                metric,
                period,
            )
            number, mark = newest or (0, b"")
            if number != version or last not in (None, mark):
                return "outdated"
            self._connection.execute(
                "INSERT INTO releases VALUES (?, ?, ?, ?, ?)", (id, metric, period, accepted.tally, accepted.record)
            )
            sqlite_nonces.write(self._connection, period, id, accepted.nonces)
            self._settle(id, "accepted", None, accepted.valid, accepted.invalid, version + 1)
        return "accepted"

    def refuse(
        self,
        id: bytes,  # noqa: A002  it is an id
        reason: str,
        valid: int | None,
        invalid: Mapping[str, int],
        record: str | None = None,
    ) -> bool:
        with self._transaction():
            settled = self._settle(id, "refused", reason, valid, invalid)
            if settled and record is not None:
                self._connection.execute(
                    "INSERT INTO opened_and_refused SELECT id, metric, period, ? FROM batches WHERE id = ?",
                    (record, id),
                )
        return settled

    def _settle(
        self,
        id: bytes,  # noqa: A002  it is an id
        state: State,
        reason: str | None,
        valid: int | None,
        invalid: Mapping[str, int],
        version: int | None = None,
    ) -> bool:
        done = self._connection.execute(
            "UPDATE batches SET state = ?, reason = ?, valid = ?, invalid = ?, version = ?, spool = NULL "
            "WHERE id = ? AND state = 'pending'",
            (state, reason, valid, json.dumps(dict(invalid)), version, id),
        )
        return done.rowcount > 0

    def drop(self, id: bytes, spool: str) -> bool:  # noqa: A002  it is an id
        with self._transaction():
            done = self._connection.execute(
                "DELETE FROM batches WHERE id = ? AND state = 'pending' AND spool = ?", (id, spool)
            )
        return done.rowcount > 0

    def lease(self, id: bytes, holder: str, seconds: float) -> bool:  # noqa: A002, ARG002  there is one process only
        return True

    # -- releases -------------------------------------------------------------------------------

    def releases(self, metric: bytes | None = None, first: int = 0, last: int | None = None) -> list[Release]:
        rows = self._all(
            f"SELECT {_RELEASE} FROM releases "  # noqa: S608  as above
            "WHERE (?1 IS NULL OR metric = ?1) AND period >= ?2 AND (?3 IS NULL OR period <= ?3) ORDER BY period, id",
            metric,
            first,
            last,
        )
        return [Release(*row) for row in rows]

    def spans(self) -> dict[bytes, tuple[int, int, int]]:
        rows = self._all(
            "SELECT metric, count(DISTINCT period), min(period), max(period) FROM releases GROUP BY metric"
        )
        return {metric: (periods, first, last) for metric, periods, first, last in rows}

    def page(self, metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Release]:
        period, id = after or (-1, b"")  # noqa: A001  it is an id
        rows = self._all(
            f"SELECT {_RELEASE} FROM releases "  # noqa: S608  as above
            "WHERE (?1 IS NULL OR metric = ?1) AND (period, id) > (?2, ?3) ORDER BY period, id LIMIT ?4",
            metric,
            period,
            id,
            limit,
        )
        return [Release(*row) for row in rows]

    def release(self, id: bytes) -> Release | None:  # noqa: A002  it is an id
        row = self._one(f"SELECT {_RELEASE} FROM releases WHERE id = ?", id)  # noqa: S608  as above
        return None if row is None else Release(*row)

    def expire(self, before: int) -> int:
        with self._transaction():
            self._connection.execute(
                "INSERT INTO expired SELECT id, metric, period, record FROM releases WHERE period < ?", (before,)
            )
            deleted = self._connection.execute("DELETE FROM releases WHERE period < ?", (before,)).rowcount
            sqlite_nonces.erase(self._connection, before - 1)
            self._traces |= deleted > 0
        if deleted:
            self.scrub()
        return deleted

    def expired(self) -> list[Release]:
        rows = self._all("SELECT id, metric, period, x'', record FROM expired ORDER BY period, id")
        return [Release(*row) for row in rows]

    def opened_and_refused(self) -> list[Release]:
        rows = self._all("SELECT id, metric, period, x'', record FROM opened_and_refused ORDER BY period, id")
        return [Release(*row) for row in rows]

    def discarded(self, metric: bytes, first: int, last: int) -> dict[int, str | None]:
        rows = self._all(
            "SELECT period, max(reason) FROM batches "  # the maximum ignores those without a reason
            "WHERE metric = ? AND period BETWEEN ? AND ? AND kind = 'discard' GROUP BY period",
            metric,
            first,
            last,
        )
        return dict(rows)

    # -- codebooks, keys and the bundle ---------------------------------------------------------

    def codebooks(self) -> list[StoredCodebook]:
        return [StoredCodebook(*row) for row in self._all("SELECT * FROM codebooks ORDER BY first_period")]

    def starts(self) -> list[int]:
        return [first for (first,) in self._all("SELECT first_period FROM codebooks ORDER BY first_period")]

    def add_codebook(self, codebook: StoredCodebook) -> bool:
        with self._transaction():
            if any(first >= codebook.first_period for first in self.starts()):
                return False
            self._connection.execute("INSERT INTO codebooks VALUES (?, ?)", (codebook.first_period, codebook.compiled))
        return True

    def move_codebook(self, first: int, to: int) -> bool:
        with self._transaction():
            if self.starts() != [first]:
                return False
            self._connection.execute("UPDATE codebooks SET first_period = ?", (to,))
        return True

    def switched_off(self) -> frozenset[str]:
        return frozenset(name for (name,) in self._all("SELECT name FROM switched_off"))

    def switch(self, name: str, *, off: bool) -> None:
        statement = (
            "INSERT OR IGNORE INTO switched_off VALUES (?)" if off else "DELETE FROM switched_off WHERE name = ?"
        )
        with self._transaction():
            self._connection.execute(statement, (name,))

    def sealing_keys(self) -> list[StoredKey]:
        rows = self._all("SELECT * FROM keys ORDER BY first_period, revoked DESC, id")
        return [
            StoredKey(id, first, last, public, private, bool(revoked))
            for id, first, last, public, private, revoked in rows  # noqa: A001  it is an id
        ]

    def add_key(self, key: StoredKey, *, instead_of: int | None = None) -> None:
        with self._transaction():
            self._connection.execute(_REVOKE, (instead_of,))
            taken = self._one(
                "SELECT 1 FROM keys WHERE id = ? OR (NOT ? AND NOT revoked AND first_period <= ? AND last_period >= ?)",
                key.id,
                key.revoked,
                key.last_period,
                key.first_period,
            )
            if taken:
                raise KeyTaken("these periods, or this id, have a key already and nothing was changed: try again")
            self._connection.execute(
                "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)",
                (key.id, key.first_period, key.last_period, key.public_key, key.private_key, key.revoked),
            )
            self._traces |= instead_of is not None
        self.scrub()

    def revoke_key(self, id: int) -> None:  # noqa: A002  it is an id
        with self._transaction():
            self._connection.execute(_REVOKE, (id,))
            self._traces = True
        self.scrub()

    def drop_key(self, id: int) -> None:  # noqa: A002  it is an id
        with self._transaction():
            self._connection.execute("DELETE FROM keys WHERE id = ?", (id,))
            self._traces = True
        self.scrub()

    def forget(self, through: int) -> bool:
        with self._transaction():
            (waiting,) = self._one("SELECT min(period) FROM batches WHERE state = 'pending'")
            limit = through if waiting is None else min(through, waiting - 1)
            (last,) = self._one("SELECT max(last_period) FROM keys WHERE last_period <= ?", limit)
            if last is not None:
                self._connection.execute("DELETE FROM keys WHERE last_period <= ?", (last,))
                sqlite_nonces.erase(self._connection, last)
                self._traces = True
        self.scrub()
        return last is not None

    def scrub(self) -> bool:
        """Cut the log, where erased data would live on. A reader elsewhere may keep it from being cut."""
        with self._lock:
            (others,) = self._one("PRAGMA data_version")  # changes when another process has written
            if self._traces or others != self._others:
                with as_storage_error():
                    self._traces, self._others = not cut_log(self._connection), others
            return not self._traces

    def bundle(self) -> SignedBundle | None:
        row = self._one("SELECT * FROM bundle ORDER BY sequence DESC LIMIT 1")
        return None if row is None else SignedBundle(*row)

    def publish(self, bundle: SignedBundle, last: int | None) -> bool:
        with self._transaction():
            (newest,) = self._one("SELECT max(sequence) FROM bundle")
            if newest != last:
                return False
            self._connection.execute("DELETE FROM bundle")
            self._connection.execute(
                "INSERT INTO bundle VALUES (?, ?, ?, ?)", (bundle.sequence, bundle.issued, bundle.content, bundle.raw)
            )
        return True

    # -- the rest -------------------------------------------------------------------------------

    def tallied(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        rows = self._all(
            "SELECT kind, state, reason, invalid, count(*) FROM batches GROUP BY kind, state, reason, invalid"
        )
        for kind, state, reason, invalid, number in rows:
            found[f"{kind}:{state}"] += number
            if state == "refused":
                found[f"refused:{reason}"] += number
            for name, reports in json.loads(invalid).items():
                found[f"invalid:{name}"] += reports * number
        return dict(found)

    def remembered(self, question: str) -> int | None:
        row = self._one("SELECT answer FROM remembered WHERE question = ?", question)
        return None if row is None else row[0]

    def remember(self, question: str, answer: int) -> None:
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", (question, answer))

    def time(self) -> float | None:
        return None  # SQLite has no clock but this process's

    def size(self) -> int | None:
        (pages,), (each,) = self._one("PRAGMA page_count"), self._one("PRAGMA page_size")
        return int(pages) * int(each)

    def inspect(self) -> None:
        """Only make the reserve, if there is room for it: nothing can change how this connection writes."""
        self._reserve.keep()

    def check(self) -> None:
        with self._transaction(needed=False):  # a probe is not worth the reserve: a full disk can still be read
            self._connection.execute("INSERT INTO nonces VALUES (-1, x'', x'', zeroblob(?))", (_PROBE,))
            self._connection.execute("DELETE FROM nonces WHERE period = -1")
        with as_storage_error():
            if free_of(self._path) < _PROBE:  # the probe went into room that the log already had
                raise StorageError("the disk is full")


def _batch(row: tuple[Any, ...]) -> Batch:
    id, header, digest, state, spool, reason, valid, invalid = row  # noqa: A001  it is an id
    return Batch(id, BatchHeader.decode(header), digest, state, spool, reason, valid, json.loads(invalid))
