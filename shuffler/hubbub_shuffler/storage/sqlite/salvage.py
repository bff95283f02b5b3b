"""Damaged pages of the SQLite file: reports that can still be read go on, the rest are counted as lost.

Every bucket has its own tables, so a page that can't be read costs one table of one bucket. Such a table is renamed,
which touches none of its pages, and its readable reports are copied into a new table. Damaged pages stay in the file
under the other name: what can't be read can't be deleted.
"""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from hubbub_service_common.storage.sqlite import cut_log, transaction
from hubbub_shuffler.storage.protocol import Bucket, Damage, NeedsRoom
from hubbub_shuffler.storage.sqlite import slots
from hubbub_shuffler.storage.sqlite.copy_room import copy_of
from hubbub_shuffler.storage.sqlite.schema import THIS, count

__all__ = [
    "buckets",
    "discard",
    "find",
    "is_broken",
    "is_damage",
    "is_on_its_way",
    "remains",
    "salvage",
    "set_aside",
]

_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNREADABLE = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_ASIDE = "damaged_"
_LOG = logging.getLogger("hubbub_shuffler")
Lacks: TypeAlias = Callable[[int], int]
"""Returns how many bytes the disk lacks for a copy of this size."""


def is_broken(error: BaseException | None) -> bool:
    """Whether the error says that what was read is not part of a database."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN


def is_damage(error: BaseException | None) -> bool:
    """Whether the file or the disk is at fault, as far as one look can tell: the next read may succeed."""
    return is_broken(error) or (
        isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) in _UNREADABLE
    )


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    state: str
    size: int
    reports: int
    waiting: str
    filled: bytes
    mended: int
    """How often a bucket of this metric was mended or given up. If that has changed, its tables may have too."""

    def lost(self, readable: dict[int, list[int]]) -> int:
        return self.reports - sum(len(good) << length for length, good in readable.items())

    def copied(self, readable: dict[int, list[int]]) -> int:
        """Most bytes that are copied to mend the bucket: undamaged tables stay where they are."""
        filled = slots.unpack(self.filled)
        return sum(
            copy_of(filled[length], self.size << length)
            for length, good in readable.items()
            if len(good) != filled[length]
        )


def buckets(db: sqlite3.Connection) -> list[Bucket]:
    """All buckets whose reports are still here."""
    rows = db.execute("SELECT metric, period, key FROM buckets WHERE state IN ('open', 'closed', 'planned')")
    return [Bucket(*row) for row in rows.fetchall()]


def find(db: sqlite3.Connection, bucket: Bucket, lacks: Lacks) -> Damage | None:
    """What is wrong with a bucket, after a look at all its reports. `lacks`: bytes that the disk lacks for a copy.

    This runs outside a transaction: one that lasts as long would keep the log from being cut. So the bucket may be
    settled, deleted or mended meanwhile, and then what was found counts for nothing. Reports that arrive meanwhile do
    no harm: they never empty a filled slot.
    """
    while (row := _row(db, bucket)) is not None:
        try:
            readable = _readable(db, row)
        except sqlite3.OperationalError:
            if _is_as_it_was(db, bucket, row):
                raise
            continue  # a table is gone
        if _is_as_it_was(db, bucket, row):
            lost, on_its_way = row.lost(readable), is_on_its_way(db, bucket)
            short = lacks(row.copied(readable)) if lost and not on_its_way else 0
            return Damage(bucket, row.name, row.state, row.reports, lost, on_its_way, short) if lost else None
    return None


def salvage(
    db: sqlite3.Connection, reader: sqlite3.Connection, bucket: Bucket, lacks: Lacks, known: int = 0
) -> Damage | None:
    """Keep the readable reports of a bucket, and count the rest as damaged; None if nothing is wrong. A bucket that is
    on its way is not changed.

    `reader`: another connection that has not read anything yet. `known`: size in bytes of a copy for which there was no
    room before. While there is still none, NeedsRoom is raised without reading the bucket again.
    """
    with transaction(db):  # this blocks other writers, so a bucket that can't be mended is not read here
        row = _row(db, bucket)
        if row is None:
            return None
        if is_on_its_way(db, bucket):
            return Damage(bucket, row.name, row.state, row.reports, 0, on_its_way=True)
        _check_room(row, known, lacks)
        readable = _readable(reader, row)
        lost = row.lost(readable)
        if not lost:
            return None
        _check_room(row, row.copied(readable), lacks)
        numbers, aside = list(slots.unpack(row.filled)), []
        for length, good in readable.items():
            if len(good) == numbers[length]:
                continue
            table = f"{row.waiting}_{length}"
            old = _set_aside(db, table)
            aside.append(old)
            if good:  # a bucket has no table of a length of which it has no report
                slots.create_table(db, table)
                db.executemany(
                    f"INSERT INTO {table} SELECT ?, body FROM {old} WHERE slot = ?",  # noqa: S608  our own names
                    list(enumerate(good)),
                )
            numbers[length] = len(good)
        db.execute(
            f"UPDATE buckets SET reports = reports - ?, filled = ? WHERE {THIS}",  # noqa: S608  constant
            (lost, slots.pack(numbers), *bucket),
        )
        count(db, row.name, "damaged", reports=lost, batches=1)
        if row.state == "planned":
            _plan_again(db, bucket, row)
    _drop(db, aside)
    return Damage(bucket, row.name, row.state, row.reports, lost, on_its_way=False)


def _check_room(row: _Row, copied: int, lacks: Lacks) -> None:
    if copied and (short := lacks(copied)):
        raise NeedsRoom(
            f"a bucket of {row.name} with {row.reports} reports WAITS FOR ROOM: its readable reports must be copied, "
            f"and the disk lacks {-(-short // 2**20)} MiB for that. Make room there, or give the bucket up with "
            "`hubbub shuffler damaged discard`",
            copied,
        )


def discard(db: sqlite3.Connection, bucket: Bucket) -> int:
    """Give up what is left of a bucket, in any state. Returns how many reports are counted as lost."""
    with transaction(db):
        row = _row(db, bucket)
        if row is None:
            return 0
        lost = row.reports
        if row.state == "planned":  # the plan has counted the duplicates
            lost = _planned(db, bucket)
        db.execute(f"DELETE FROM batches WHERE {THIS}", bucket)  # noqa: S608  constant
        db.execute(f"UPDATE buckets SET state = 'spent' WHERE {THIS}", bucket)  # noqa: S608  constant
        count(db, row.name, "damaged", reports=lost, batches=1)
    return lost


def set_aside(db: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Rename tables that can't be deleted. Runs inside the caller's transaction."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there.intersection(tables):
        _set_aside(db, table)


def _set_aside(db: sqlite3.Connection, table: str) -> str:
    """Rename one table; returns its new name. The same table may be damaged and mended any number of times."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    old = next(name for number in itertools.count() if (name := f"{_ASIDE}{table}_{number}") not in there)
    db.execute(f"ALTER TABLE {table} RENAME TO {old}")
    return old


def remains(db: sqlite3.Connection) -> int:
    """Number of remaining tables that can't be deleted."""
    (found,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE ?", (f"{_ASIDE}%",)).fetchone()
    return int(found)


def _row(db: sqlite3.Connection, bucket: Bucket) -> _Row | None:
    found = db.execute(
        "SELECT name, state, size, reports, waiting, filled, "  # noqa: S608  constant
        "coalesce((SELECT batches FROM counts WHERE counts.name = buckets.name AND what = 'damaged'), 0) "
        f"FROM buckets WHERE {THIS} AND state IN ('open', 'closed', 'planned')",
        bucket,
    ).fetchone()
    return None if found is None else _Row(*found)


def _is_as_it_was(db: sqlite3.Connection, bucket: Bucket, row: _Row) -> bool:
    """Whether no report of the bucket was removed since."""
    now = _row(db, bucket)
    return now is not None and (now.waiting, now.mended) == (row.waiting, row.mended)


def _readable(db: sqlite3.Connection, row: _Row) -> dict[int, list[int]]:
    """The slots that can be read, by the binary logarithm of how many reports each has."""
    found: dict[int, list[int]] = {}
    for length, table in slots.tables(row.waiting, row.filled).items():
        good = found[length] = []
        for slot in range(slots.unpack(row.filled)[length]):
            try:
                body = db.execute(f"SELECT body FROM {table} WHERE slot = ?", (slot,)).fetchone()  # noqa: S608  our own name
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                continue
            if body is not None and isinstance(body[0], bytes) and len(body[0]) == row.size << length:
                good.append(slot)
    return found


def is_on_its_way(db: sqlite3.Connection, bucket: Bucket) -> bool:
    """See `Damage.on_its_way`."""
    rows = db.execute(f"SELECT sent, parts FROM batches WHERE {THIS}", bucket).fetchall()  # noqa: S608  constant
    return bool(rows) and (any(sent for sent, _ in rows) or len(rows) < rows[0][1])


def _planned(db: sqlite3.Connection, bucket: Bucket) -> int:
    """Reports in batches that are not settled."""
    (found,) = db.execute(f"SELECT coalesce(sum(reports), 0) FROM batches WHERE {THIS}", bucket).fetchone()  # noqa: S608  constant
    return int(found)


def _plan_again(db: sqlite3.Connection, bucket: Bucket, row: _Row) -> None:
    """Return a bucket to closed: the next plan counts the duplicates."""
    count(db, row.name, "duplicate", reports=_planned(db, bucket) - row.reports)
    db.execute(f"DELETE FROM batches WHERE {THIS}", bucket)  # noqa: S608  constant
    db.execute(f"DROP TABLE IF EXISTS {row.waiting}_seed")
    db.execute(f"UPDATE buckets SET state = 'closed' WHERE {THIS}", bucket)  # noqa: S608  constant


def _drop(db: sqlite3.Connection, aside: Iterable[str]) -> None:
    """Delete the tables that can be deleted. They are overwritten, which needs room in the log."""
    for table in aside:
        try:
            cut_log(db)
            with transaction(db):
                db.execute(f"DROP TABLE {table}")
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                _LOG.error("a table with damaged pages can't be deleted, and stays in the file: %s", error)
