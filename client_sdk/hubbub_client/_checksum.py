"""A checksum of each table of the account, kept in another one: a page that was torn, zeroed or is an older one shows.

SQLite checks the form of a page, and not that all rows are there: a zeroed cell count reads as an empty table, and so
as a budget of which nothing was spent. A checksum is the sum of a hash of each row, so that a changed row changes it
without a look at the others. Who opens the file adds all of them up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

__all__ = ["TABLES", "change", "is_whole", "renew"]

TABLES = {
    "ledger": "SELECT * FROM ledger",
    "days": "SELECT * FROM days",
    "totals": "SELECT * FROM totals",
    "closed": "SELECT name, value FROM facts WHERE name IN ('closed_before', 'closed_surely', 'lifetime_unknown')",
}
_MODULUS = 2**62
"""Two of these fit SQLite's integers together."""


def change(
    connection: sqlite3.Connection, table: str, *, gone: Iterable[tuple[Any, ...]], come: Iterable[tuple[Any, ...]]
) -> None:
    """Rows were replaced. Inside the transaction of the caller's that replaces them."""
    by = (_sum(come) - _sum(gone)) % _MODULUS
    connection.execute(
        "UPDATE facts SET value = (value + ?) % ? WHERE name = ?", (by, _MODULUS, _name(table))
    )  # where there is none, the file is not whole, and stays so


def renew(connection: sqlite3.Connection) -> None:
    """Where many rows have changed, or there was no checksum yet. In a transaction of the caller's, too."""
    rows = [(_name(table), _sum(connection.execute(select))) for table, select in TABLES.items()]
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)


def is_whole(connection: sqlite3.Connection, *tables: str) -> bool:
    """Whether these tables hold what they should; all of them if none is named."""
    for table in tables or TABLES:
        kept = connection.execute("SELECT value FROM facts WHERE name = ?", (_name(table),)).fetchone()
        if kept != (_sum(connection.execute(TABLES[table])),):
            return False
    return True


def _name(table: str) -> str:
    return f"checksum:{table}"


def _sum(rows: Iterable[tuple[Any, ...]]) -> int:
    return sum(int.from_bytes(blake2b(repr(row).encode(), digest_size=8).digest(), "big") for row in rows) % _MODULUS
