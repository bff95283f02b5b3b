"""Torn rows outside the account: a sector of zeros on the disk reads as NULLs, whatever the table allows.

Which of these rows exist depends on what was recorded. So a torn row must cost itself and nothing else: it is never
read, and a cycle deletes it. Pins, and what else a device reports by, exist whatever was recorded; if those are torn,
the file counts as damaged.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

from hubbub_client._counters import Event, Kind

if TYPE_CHECKING:
    from hubbub_client._counters import Counts
    from hubbub_client._state.database import State

__all__ = ["SOUND", "Torn", "check_facts", "delete_torn"]

_NUMBER = "typeof({0}) IN ('integer', 'real')"
_OR_NULL = "typeof({0}) IN ('{1}', 'null')"


def _all_of(types: dict[str, str], *more: str) -> str:
    return " AND ".join([*(f"typeof({column}) = '{kind}'" for column, kind in types.items()), *more])


SOUND = {
    "reductions": _all_of(
        {"metric": "text", "period": "integer", "reduce": "text", "state": "text"},
        _NUMBER.format("closes_at"),
        _NUMBER.format("at"),
    ),
    "outbox": _all_of(
        {"nonce": "blob", "id": "blob", "period": "integer", "payload": "blob"},
        "lane IN ('steady', 'occasional')",
        *(_NUMBER.format(column) for column in ("due_at", "send_at", "closes_at")),
        _OR_NULL.format("key", "integer"),
        _OR_NULL.format("sealed", "blob"),
    ),
}
"""The SQL condition of a readable row, by table."""
_DELETED = {"reductions": Event(Kind.LOST, "damaged"), "outbox": Event(Kind.DROPPED, "damaged")}


class Torn(sqlite3.DatabaseError):
    """A row that every device has is unreadable: the file is damaged."""


def check_facts(connection: sqlite3.Connection) -> None:
    """Raise Torn if a fact has no value. Facts that depend on what was recorded are exempt: their readers cope."""
    others = "name NOT LIKE 'look:%' AND name NOT LIKE 'occasional:%'"
    if connection.execute(f"SELECT 1 FROM facts WHERE value IS NULL AND {others} LIMIT 1").fetchone():  # noqa: S608  ours
        raise Torn("a fact has no value")


def delete_torn(state: State, counts: Counts) -> None:
    """Delete unreadable rows. They are counted, and logged once."""
    with state.reading() as connection:  # most cycles end here
        tables = [table for table in SOUND if _torn(connection, table)]
    if not tables:
        return
    deleted: Counter[Event] = Counter()
    with state.transaction() as connection:
        for table in tables:
            deleted[_DELETED[table]] = _torn(connection, table)
            # Delete all rows and put the sound ones back: a row with a torn key cannot be found by it.
            kept = connection.execute(f"SELECT * FROM {table} WHERE {SOUND[table]}").fetchall()  # noqa: S608  ours
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  ours
            for row in kept:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608  ours
    counts.update(deleted)
    counts.warn_once(
        "rows of the state file were damaged and were deleted: what they held is not reported. "
        "There is nothing to do about them; if it happens again, check the disk"
    )


def _torn(connection: sqlite3.Connection, table: str) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {table} WHERE NOT ({SOUND[table]})").fetchone()  # noqa: S608  ours
    return int(number)
