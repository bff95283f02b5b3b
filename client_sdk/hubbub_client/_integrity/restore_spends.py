"""Repair of an older page of the account that lacks nothing but spends: the checksum tells which to put back.

Charges come with the pin, and are the same whatever was recorded. Spends are not. If a disk loses the last write to a
page, that page may be an older one only on devices where something was recorded, and a device that went silent because
of it would show that. A spend changes its row in one way. So if the checksum is off by exactly what spends of some of
the newest rows would change, those spends are the ones that the page lacks (or that the page of the checksum lacks).
Sums have 62 bits, so one of the 2^32 choices fits other damage by chance once in 2^30 cases. Everything else is damage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from hubbub_client._integrity.checksum import MODULUS, TABLES, is_whole, kept, renew, sum_of

__all__ = ["mend"]

_MOST = 32
"""Rows to try, the newest first: two halves of 2^16 sums each."""
_Row = tuple[Any, ...]


def mend(connection: sqlite3.Connection) -> bool:
    """Put back spends that the account lacks, inside the caller's transaction. Returns whether it is whole then."""
    for table, other in (("ledger", _other_decision), ("totals", _one_report_more_or_fewer)):
        if not is_whole(connection, table):
            _mend(connection, table, other)
    return is_whole(connection)


def _mend(connection: sqlite3.Connection, table: str, other: Callable[[_Row], list[tuple[_Row, _Row]]]) -> None:
    rows = connection.execute(TABLES[table]).fetchall()
    there = kept(connection, table)
    if there is None:
        return
    rows.sort(key=lambda row: (str(type(row[1])), row[1]), reverse=True)
    choices = [(row, *each) for row in rows for each in other(row)][:_MOST]
    changes = [(sum_of([was]) - sum_of([row])) % MODULUS for row, was, _ in choices]
    chosen = _that_add_up_to((there - sum_of(rows)) % MODULUS, changes)
    if not chosen:
        return
    for index in chosen:
        row, _, mended = choices[index]
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", mended)  # noqa: S608  ours
    renew(connection, table)


def _other_decision(row: _Row) -> list[tuple[_Row, _Row]]:
    """Pairs of what a row may have been when the checksum was made, and what to repair it to: spent, if it ever was."""
    spent = *row[:3], "spent", *row[4:]
    if row[3] in ("charged", "in doubt"):
        return [(spent, spent)]
    return [((*row[:3], "charged", *row[4:]), spent)] if row[3] == "spent" else []


def _one_report_more_or_fewer(row: _Row) -> list[tuple[_Row, _Row]]:
    if not isinstance(row[2], int):
        return []
    more, fewer = (*row[:2], row[2] + 1), (*row[:2], row[2] - 1)
    return [(more, more), (fewer, row)]


def _that_add_up_to(gap: int, changes: list[int]) -> list[int]:
    """Indexes of changes that add up to the gap; empty if there are none. Meets in the middle."""
    half = len(changes) // 2
    first = _sums(changes[:half])
    for total, chosen in _sums(changes[half:]).items():
        if (other := first.get((gap - total) % MODULUS)) is not None:
            both = other | chosen << half
            return [index for index in range(len(changes)) if both >> index & 1]
    return []


def _sums(changes: Iterable[int]) -> dict[int, int]:
    """Every sum of some of the changes, and which ones (as bits)."""
    sums = {0: 0}
    for index, change in enumerate(changes):
        sums |= {(total + change) % MODULUS: chosen | 1 << index for total, chosen in sums.items()}
    return sums
