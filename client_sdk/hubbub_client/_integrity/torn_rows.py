"""Rows outside the account that a disk has torn: a sector of zeros reads as NULLs, whatever the table allows.

What was recorded decides which of these rows there are. So such a row may cost itself and nothing else: nobody reads
it, and a pass deletes it. Pins and what else a device reports by are there whatever was recorded; where those are torn,
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
"""What is true of a row that can be read, by table."""
_DELETED = {"reductions": Event(Kind.LOST, "damaged"), "outbox": Event(Kind.DROPPED, "damaged")}


class Torn(sqlite3.DatabaseError):
    """A row is unreadable that every device has: the file is damaged."""


def check_facts(connection: sqlite3.Connection) -> None:
    """Torn if a fact has no value. Those that follow from what was recorded are left out: who reads them copes."""
    others = "name NOT LIKE 'look:%' AND name NOT LIKE 'occasional:%'"
    if connection.execute(f"SELECT 1 FROM facts WHERE value IS NULL AND {others} LIMIT 1").fetchone():  # noqa: S608  ours
        raise Torn("a fact has no value")


def delete_torn(state: State, counts: Counts) -> None:
    """Delete rows that nobody can read. They are counted, and said once."""
    with state.reading() as connection:  # most passes end here
        tables = [table for table in SOUND if _torn(connection, table)]
    if not tables:
        return
    deleted: Counter[Event] = Counter()
    with state.transaction() as connection:
        for table in tables:
            deleted[_DELETED[table]] = _torn(connection, table)
            # All of them go, and those that are sound come back: by a key that is torn no row is found.
            kept = connection.execute(f"SELECT * FROM {table} WHERE {SOUND[table]}").fetchall()  # noqa: S608  ours
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  ours
            for row in kept:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608  ours
    counts.update(deleted)
    counts.say(
        "rows of the state file were damaged and are deleted: what they held is not reported. "
        "Nothing is to be done about them; if it happens again, check the disk"
    )


def _torn(connection: sqlite3.Connection, table: str) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {table} WHERE NOT ({SOUND[table]})").fetchone()  # noqa: S608  ours
    return int(number)
