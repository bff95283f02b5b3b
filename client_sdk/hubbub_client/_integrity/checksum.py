"""Checksums of the account's tables, kept in another table: they reveal a page that is torn, zeroed or an older one.

SQLite checks the form of a page, not that all rows are there: a zeroed cell count reads as an empty table, and so as a
budget of which nothing was spent. A checksum is the sum of a hash of each row, so that a changed row updates it without
a look at the others. A client that opens the file adds up all rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

__all__ = ["MODULUS", "TABLES", "Forgetful", "change", "is_whole", "kept", "renew", "renewing", "sum_of"]

TABLES = {
    "ledger": "SELECT * FROM ledger",
    "days": "SELECT * FROM days",
    "totals": "SELECT * FROM totals",
    "closed": "SELECT name, value FROM facts WHERE name IN ('closed_before', 'closed_surely', 'lifetime_unknown')",
}
MODULUS = 2**62
"""The sum of two numbers below it fits an SQLite integer."""


class Forgetful(sqlite3.DatabaseError):
    """The file lacks spends: a page of it was lost, or it is an older copy."""


def change(
    connection: sqlite3.Connection, table: str, *, gone: Iterable[tuple[Any, ...]], come: Iterable[tuple[Any, ...]]
) -> None:
    """Update the checksum of a table whose rows were replaced, inside the same transaction."""
    by = (sum_of(come) - sum_of(gone)) % MODULUS
    connection.execute(
        "UPDATE facts SET value = (value + ?) % ? WHERE name = ?", (by, MODULUS, _name(table))
    )  # without a checksum the file is not whole, and stays so


def renew(connection: sqlite3.Connection, *tables: str) -> None:
    """Make the checksums of these tables, or of all, inside the caller's transaction."""
    rows = [(_name(table), sum_of(connection.execute(TABLES[table]))) for table in tables or TABLES]
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)


@contextmanager
def renewing(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    """For a change of many rows. Raises Forgetful if the table was damaged before: a new checksum would hide that."""
    if not is_whole(connection, table):
        raise Forgetful(f"the account does not add up: {table}")
    yield
    renew(connection, table)


def is_whole(connection: sqlite3.Connection, *tables: str) -> bool:
    """Whether these tables, or all, match their checksums."""
    for table in tables or TABLES:
        if kept(connection, table) != sum_of(connection.execute(TABLES[table])):
            return False
    return "ledger" not in (tables or TABLES) or _is_index_whole(connection)


def kept(connection: sqlite3.Connection, table: str) -> int | None:
    """The checksum in the file, if there is one."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (_name(table),)).fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else None


def _is_index_whole(connection: sqlite3.Connection) -> bool:
    """Whether the index of the ledger fits its table. It has pages of its own, and budgets are added up by it."""
    by_index = "SELECT count(*), sum(end), sum(start) FROM ledger INDEXED BY ledger_end"
    by_table = "SELECT count(decision), sum(end), sum(start) FROM ledger"  # a column that the index does not have
    return bool(connection.execute(by_index).fetchone() == connection.execute(by_table).fetchone())


def _name(table: str) -> str:
    return f"checksum:{table}"


def sum_of(rows: Iterable[tuple[Any, ...]]) -> int:
    return sum(int.from_bytes(blake2b(repr(row).encode(), digest_size=8).digest(), "big") for row in rows) % MODULUS
