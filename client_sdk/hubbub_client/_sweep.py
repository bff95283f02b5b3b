"""Deleting what is over, and what a wrong clock left: never on one look at the clock.

A clock that is wrong for a minute must not cost what was recorded before. So nothing is deleted, moved or merged before
a second look, an hour or more after the first, has found the same; and a look that does not find it takes the first one
back. What is over counts as over by the time of the first look.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

from hubbub.period import DAY
from hubbub_client._pins import Pins
from hubbub_client._quarantine import IMPLAUSIBLE, keep_closed

if TYPE_CHECKING:
    from hubbub_client._state import State
    from hubbub_client.ledger import Ledger

__all__ = ["sweep"]

_SECOND_LOOK = 3_600.0
"""Seconds between the two."""


def sweep(state: State, ledger: Ledger, now: float) -> Counter[str]:
    """Delete what is too late for any shuffler, with or without a book to say so; and what a wrong clock left."""
    swept: Counter[str] = Counter()
    with state.reading() as connection:  # most passes end here
        late, ahead = _is_late(connection, ledger, now), _is_ahead(connection, now)
        if not _matters(connection, "late_since", now, late) and not _matters(connection, "ahead_since", now, ahead):
            return swept
    with state.transaction() as connection:
        over = _first_look(connection, "late_since", now, _is_late(connection, ledger, now))
        if over is not None:
            swept += _delete_late(connection, over)
            Pins.sweep(connection, over)
            ledger.compact(connection, over)
        seen = _first_look(connection, "ahead_since", now, _is_ahead(connection, now))
        if seen is not None:
            if early := connection.execute("DELETE FROM reductions WHERE at > ?", (now + DAY,)).rowcount:
                swept["lost:clock"] = early
            # `missing` must not wait for a time that a wrong clock wrote down.
            since = "UPDATE facts SET value = ? WHERE name = 'enabled_since' AND value > ?"
            connection.execute(since, (seen, now))
            keep_closed(connection, seen)
    return swept


def _delete_late(connection: sqlite3.Connection, over: float) -> Counter[str]:
    deleted: Counter[str] = Counter()
    for table, name in (("reductions", "lost"), ("outbox", "dropped")):
        if late := connection.execute(f"DELETE FROM {table} WHERE closes_at <= ?", (over,)).rowcount:  # noqa: S608  ours
            deleted[f"{name}:period-closed"] = late
    return deleted


def _is_late(connection: sqlite3.Connection, ledger: Ledger, now: float) -> bool:
    """Whether anything here is over."""
    (late,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM reductions WHERE closes_at <= :now)"
        " OR EXISTS (SELECT 1 FROM outbox WHERE closes_at <= :now)",
        {"now": now},
    ).fetchone()
    return bool(late) or Pins.are_old(connection, now) or ledger.is_long(connection, now)


def _is_ahead(connection: sqlite3.Connection, now: float) -> bool:
    """Whether anything here is of a time that is yet to come."""
    (ahead,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM reductions WHERE at > :tomorrow)"
        " OR EXISTS (SELECT 1 FROM facts WHERE name = 'enabled_since' AND value > :now)"
        " OR EXISTS (SELECT 1 FROM facts WHERE name = 'closed_before' AND value > :implausible)",
        {"now": now, "tomorrow": now + DAY, "implausible": now + IMPLAUSIBLE},
    ).fetchone()
    return bool(ahead)


def _matters(connection: sqlite3.Connection, name: str, now: float, found: bool) -> bool:
    """Whether this look changes anything."""
    first = _looked(connection, name)
    if not found:
        return first is not None
    return first is None or not first <= now < first + _SECOND_LOOK


def _first_look(connection: sqlite3.Connection, name: str, now: float, found: bool) -> float | None:
    """When the same was found before, if that is long enough ago. Inside a transaction: this look is noted."""
    first = _looked(connection, name)
    if not found:
        connection.execute("DELETE FROM facts WHERE name = ?", (name,))
        return None
    if first is not None and first <= now < first + _SECOND_LOOK:
        return None
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, now))
    return first if first is not None and first <= now else None


def _looked(connection: sqlite3.Connection, name: str) -> float | None:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else float(row[0])
