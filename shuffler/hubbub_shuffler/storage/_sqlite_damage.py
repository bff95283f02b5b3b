"""Damaged pages of the SQLite file: what can still be read goes on, the rest is counted as lost.

Every bucket has tables of its own, so a page that can't be read costs one table of one bucket. Such a table is renamed,
which touches none of its pages, and what can be read is copied into a new one. What is left under the other name stays
in the file: nobody can delete what can't be read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from hubbub_service_common.sqlite import transaction
from hubbub_shuffler.storage import _sqlite_slots as slots
from hubbub_shuffler.storage._schema import THIS, count
from hubbub_shuffler.storage.protocol import Bucket, Damage

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


def is_broken(error: BaseException | None) -> bool:
    """Whether what was read is no part of a database."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN


def is_damage(error: BaseException | None) -> bool:
    """Whether the file itself is at fault, or the disk, as far as one look can tell: the next one may read it."""
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

    def lost(self, readable: dict[int, list[int]]) -> int:
        return self.reports - sum(len(good) << length for length, good in readable.items())


def buckets(db: sqlite3.Connection) -> list[Bucket]:
    """All whose reports are here."""
    rows = db.execute("SELECT metric, period, key FROM buckets WHERE state IN ('open', 'closed', 'planned')")
    return [Bucket(*row) for row in rows.fetchall()]


def find(db: sqlite3.Connection, bucket: Bucket) -> Damage | None:
    """What is wrong with it, after a look at every report of it.

    Outside of a transaction, or inside one that ends with nothing to keep: SQLite lets none end well that met damage.
    """
    row = _row(db, bucket)
    if row is None:
        return None
    lost = row.lost(_readable(db, row))
    return Damage(bucket, row.name, row.state, row.reports, lost, is_on_its_way(db, bucket)) if lost else None


def salvage(db: sqlite3.Connection, reader: sqlite3.Connection, bucket: Bucket) -> Damage | None:
    """Let what can be read go on, and count the rest; None if nothing is wrong. If it is on its way nothing changes.

    `reader`: another connection, that has not read anything yet.
    """
    with transaction(db):  # from here on nobody else writes, so what can't be mended is not read here
        row = _row(db, bucket)
        if row is None:
            return None
        if is_on_its_way(db, bucket):
            return Damage(bucket, row.name, row.state, row.reports, 0, on_its_way=True)
        readable = _readable(reader, row)
        lost = row.lost(readable)
        if not lost:
            return None
        numbers, aside = list(slots.unpack(row.filled)), []
        for length, good in readable.items():
            if len(good) == numbers[length]:
                continue
            table, old = f"{row.waiting}_{length}", f"{_ASIDE}{row.waiting}_{length}"
            aside.append(old)
            db.execute(f"ALTER TABLE {table} RENAME TO {old}")
            if good:
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


def discard(db: sqlite3.Connection, bucket: Bucket) -> int:
    """Give up what is here of a bucket, whatever its state; how many reports are counted as lost for it."""
    with transaction(db):
        row = _row(db, bucket)
        if row is None:
            return 0
        lost = row.reports
        if row.state == "planned":  # the plan has counted those that came twice
            lost = _planned(db, bucket)
        db.execute(f"DELETE FROM batches WHERE {THIS}", bucket)  # noqa: S608  constant
        db.execute(f"UPDATE buckets SET state = 'spent' WHERE {THIS}", bucket)  # noqa: S608  constant
        count(db, row.name, "damaged", reports=lost, batches=1)
    return lost


def set_aside(db: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Take tables that can't be deleted out of the way; inside a transaction of the caller."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there.intersection(tables):
        db.execute(f"ALTER TABLE {table} RENAME TO {_ASIDE}{table}")


def remains(db: sqlite3.Connection) -> int:
    """How many tables are left that can't be deleted."""
    (found,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE ?", (f"{_ASIDE}%",)).fetchone()
    return int(found)


def _row(db: sqlite3.Connection, bucket: Bucket) -> _Row | None:
    found = db.execute(
        f"SELECT name, state, size, reports, waiting, filled FROM buckets WHERE {THIS} "  # noqa: S608  constant
        "AND state IN ('open', 'closed', 'planned')",
        bucket,
    ).fetchone()
    return None if found is None else _Row(*found)


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
            if body is not None and len(body[0]) == row.size << length:
                good.append(slot)
    return found


def is_on_its_way(db: sqlite3.Connection, bucket: Bucket) -> bool:
    """As in `Damage`."""
    rows = db.execute(f"SELECT sent, parts FROM batches WHERE {THIS}", bucket).fetchall()  # noqa: S608  constant
    return bool(rows) and (any(sent for sent, _ in rows) or len(rows) < rows[0][1])


def _planned(db: sqlite3.Connection, bucket: Bucket) -> int:
    """Reports in batches that are not settled."""
    (found,) = db.execute(f"SELECT coalesce(sum(reports), 0) FROM batches WHERE {THIS}", bucket).fetchone()  # noqa: S608  constant
    return int(found)


def _plan_again(db: sqlite3.Connection, bucket: Bucket, row: _Row) -> None:
    """Back to closed: the next plan counts those that came twice."""
    count(db, row.name, "duplicate", reports=_planned(db, bucket) - row.reports)
    db.execute(f"DELETE FROM batches WHERE {THIS}", bucket)  # noqa: S608  constant
    db.execute(f"DROP TABLE IF EXISTS {row.waiting}_seed")
    db.execute(f"UPDATE buckets SET state = 'closed' WHERE {THIS}", bucket)  # noqa: S608  constant


def _drop(db: sqlite3.Connection, aside: Iterable[str]) -> None:
    """Delete what can be deleted of them."""
    for table in aside:
        with suppress(sqlite3.DatabaseError), transaction(db):
            db.execute(f"DROP TABLE {table}")
