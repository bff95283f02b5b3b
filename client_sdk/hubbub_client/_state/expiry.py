"""Expiry: deletes what is over and what a wrong clock left, and never after only one look at the clock.

A clock that is wrong for a minute must not cost recorded values. So nothing is deleted, moved or merged until a second
look has found the same (`confirm_elapsed` says when one counts). A look that does not find it cancels the first one.
What is deleted is what was over at the time of the first look.

Recorded values have looks of their own: they must not decide when anything changes that a device reports by.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from hubbub.period import DAY
from hubbub_client._codebooks.period_codebook_pins import Pins
from hubbub_client._counters import Event, Kind
from hubbub_client._integrity.quarantine import IMPLAUSIBLE, keep_closed
from hubbub_client._state import confirm_elapsed

if TYPE_CHECKING:
    from hubbub_client._budget.ledger import Ledger
    from hubbub_client._state.confirm_elapsed import Moment
    from hubbub_client._state.database import State

__all__ = ["sweep"]

_OLD_LOOKS = ("late_since", "ahead_since")
"""Looks that an earlier version noted, by the wall clock alone. They do not count."""


def sweep(state: State, ledger: Ledger, moment: Moment) -> Counter[Event]:
    """Delete what is too late for any shuffler, even if there are no codebooks, and what a wrong clock left."""
    swept: Counter[Event] = Counter()
    checks = _checks(ledger, swept)
    with state.reading() as connection:  # most cycles end here
        if not any(_changes_anything(connection, name, moment, finds) for name, (finds, _) in checks.items()):
            return swept
    with state.transaction() as connection:
        connection.execute("DELETE FROM facts WHERE name IN (?, ?)", _OLD_LOOKS)
        for name, (finds, deletes) in checks.items():
            over = _look(connection, name, moment, finds)
            if over is not None:
                deletes(connection, over, moment.now)
    return swept


_Finds = Callable[[sqlite3.Connection, float], bool]
_Deletes = Callable[[sqlite3.Connection, float, float], None]
"""Takes the time of the first look and that of this one."""


def _checks(ledger: Ledger, swept: Counter[Event]) -> dict[str, tuple[_Finds, _Deletes]]:
    """Each kind of thing to look for, and what to do about it. Losses are counted in `swept`."""

    def is_old(connection: sqlite3.Connection, now: float) -> bool:
        return Pins.are_old(connection, now) or ledger.is_long(connection, now)

    def merge(connection: sqlite3.Connection, over: float, _now: float) -> None:
        Pins.sweep(connection, over)
        ledger.compact(connection, over)

    def delete_late(connection: sqlite3.Connection, over: float, _now: float) -> None:
        swept.update(_delete_late(connection, over))

    def delete_early(connection: sqlite3.Connection, _over: float, now: float) -> None:
        if early := connection.execute("DELETE FROM reductions WHERE at > ?", (now + DAY,)).rowcount:
            swept[Event(Kind.LOST, "clock")] = early

    return {
        "look:late": (_is_late, delete_late),
        "look:old": (is_old, merge),
        "look:early": (_is_early, delete_early),
        "look:ahead": (_is_ahead, _take_back),
    }


def _take_back(connection: sqlite3.Connection, seen: float, now: float) -> None:
    # `missing` must not wait for a time that a wrong clock wrote down.
    since = "UPDATE facts SET value = ? WHERE name = 'enabled_since' AND value > ?"
    connection.execute(since, (seen, now))
    keep_closed(connection, seen)


def _delete_late(connection: sqlite3.Connection, over: float) -> Counter[Event]:
    deleted: Counter[Event] = Counter()
    for table, kind in (("reductions", Kind.LOST), ("outbox", Kind.DROPPED)):
        if late := connection.execute(f"DELETE FROM {table} WHERE closes_at <= ?", (over,)).rowcount:  # noqa: S608  ours
            deleted[Event(kind, "period-closed")] = late
    return deleted


def _is_late(connection: sqlite3.Connection, now: float) -> bool:
    """Whether anything here is too late to be sent."""
    (late,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM reductions WHERE closes_at <= :now)"
        " OR EXISTS (SELECT 1 FROM outbox WHERE closes_at <= :now)",
        {"now": now},
    ).fetchone()
    return bool(late)


def _is_early(connection: sqlite3.Connection, now: float) -> bool:
    """Whether anything was recorded at a time in the future."""
    (early,) = connection.execute("SELECT EXISTS (SELECT 1 FROM reductions WHERE at > ?)", (now + DAY,)).fetchone()
    return bool(early)


def _is_ahead(connection: sqlite3.Connection, now: float) -> bool:
    """Whether a moment in the future was written down."""
    (ahead,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM facts WHERE name = 'enabled_since' AND value > :now)"
        " OR EXISTS (SELECT 1 FROM facts WHERE name = 'closed_before' AND value > :implausible)",
        {"now": now, "implausible": now + IMPLAUSIBLE},
    ).fetchone()
    return bool(ahead)


def _changes_anything(connection: sqlite3.Connection, name: str, moment: Moment, finds: _Finds) -> bool:
    """Whether this look changes anything."""
    before = confirm_elapsed.read(connection, name)
    if not finds(connection, moment.now):
        return before is not None
    return before is None or before.then(moment) != (before, None)


def _look(connection: sqlite3.Connection, name: str, moment: Moment, finds: _Finds) -> float | None:
    """Note this look, inside a transaction. Returns the time of the first look if this one counts as the second."""
    before = confirm_elapsed.read(connection, name)
    if not finds(connection, moment.now):
        confirm_elapsed.write(connection, name, None)
        return None
    after, over = (confirm_elapsed.Look.first(moment), None) if before is None else before.then(moment)
    confirm_elapsed.write(connection, name, after)
    return over
