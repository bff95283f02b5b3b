"""The privacy ledger: what the device has spent. No codebook, no edit and no clock makes it forget.

Spends are kept by the metric's *name* and by the span of time they are for, so that neither a new metric id nor
another period length reopens a period. For each metric and period one decision is taken, once and for good, when the
period is pinned: not in the share, refused over budget, or charged, whether anything will be recorded or not. A charge
is randomized at most once, and is then spent. Nothing is ever refunded.

If the clock is set back, the earlier decisions and the day's earlier spends still hold. If it is set forward and then
corrected, the decisions in the future hold for their own periods and days only, and reporting goes on. Old decisions
are merged into spans that are closed as a whole. A span never covers a long time without any decision, so that such a
jump closes nothing in between.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from hubbub.period import DAY
from hubbub_client._integrity import checksum
from hubbub_client._integrity.witness import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hubbub.period import Period
    from hubbub_client._budget.device_limits import Limits

__all__ = ["Decision", "Ledger"]

_KEPT = 60 * DAY
"""Seconds after its end that a decision is kept as it was taken."""
_LONGEST_GAP = 60 * DAY
"""Seconds. A closed span does not cover this much time without decisions."""
_WORTH_MERGING = 100


class Decision(Enum):
    """The decision for a metric and a period."""

    CHARGED = "charged"
    """The coin said yes and the budget had room. Nothing is randomized yet, and perhaps never will be."""
    IN_DOUBT = "in doubt"
    """Charged. If the metric has no `missing`, perhaps spent too, in a file that an older copy has replaced."""
    OUT_OF_SHARE = "out of share"
    SPENT = "spent"
    REFUSED = "refused"
    CLOSED = "closed"
    """Over, whatever it was: too long ago to be kept one by one, or lost with a damaged file."""


_UNSPENT = (Decision.CHARGED.value, Decision.IN_DOUBT.value)
_STRONGEST_FIRST = (Decision.SPENT, Decision.CLOSED, Decision.REFUSED, Decision.OUT_OF_SHARE)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Limits and entries. Every method works inside the caller's transaction.

    Entries are looked up by their end (the `+` keeps SQLite from choosing the start): few are recent, many are old.
    """

    limits: Limits

    def decision(
        self, connection: sqlite3.Connection, metric: str, period: Period, *, steady: bool = False
    ) -> Decision | None:
        """The decision that holds for this period. A final one about an overlapping period, of any length, holds too.

        A decision in doubt counts as closed unless the metric is `steady`, which means that it has a `missing`: no draw
        of such a metric was forgotten."""
        rows = connection.execute(
            "SELECT start, end, decision FROM ledger WHERE metric = ? AND end > ? AND +start < ?",
            (metric, period.start, period.end),
        ).fetchall()
        found = {Decision(text) for _, _, text in rows}
        for decision in _STRONGEST_FIRST:
            if decision in found:
                return decision
        if period.start < float(_fact(connection, "closed_before", 0)):
            return Decision.CLOSED
        if (period.start, period.end, Decision.IN_DOUBT.value) in rows and not steady:
            return Decision.CLOSED
        if any(row[:2] == (period.start, period.end) for row in rows):
            return Decision.CHARGED
        return Decision.REFUSED if rows else None  # another span of the same time is charged

    def charged(self, connection: sqlite3.Connection, since: int) -> set[tuple[str, int, int]]:
        """Metric, start and end of the charges that are not spent, in periods that end after this moment."""
        rows = "SELECT metric, start, end FROM ledger WHERE end > ? AND decision IN (?, ?)"
        return set(connection.execute(rows, (since, *_UNSPENT)))

    def decide(
        self,
        connection: sqlite3.Connection,
        metric: str,
        period: Period,
        epsilon: Fraction,
        device_epsilon: Fraction,
        now: float,
        *,
        in_share: bool,
    ) -> Decision:
        """Take the one decision, unless it was taken before. A charge counts for the period, for today and for ever."""
        known = self.decision(connection, metric, period)
        if known is not None:
            return known
        if not in_share or not self._affords(connection, period, epsilon, device_epsilon, now):
            decision = Decision.REFUSED if in_share else Decision.OUT_OF_SHARE
            _write(connection, metric, period, decision, None, None)
            return decision
        today = int(now // DAY)
        _write(connection, metric, period, Decision.CHARGED, str(epsilon), today)
        count(connection, "charged")
        _replace(connection, "days", (today, str(spent_on(connection, today) + epsilon)))
        before = connection.execute("SELECT epsilon, reports FROM totals WHERE metric = ?", (metric,)).fetchone()
        total, reports = (Fraction(before[0]), before[1]) if before else (Fraction(0), 0)
        _replace(connection, "totals", (metric, str(total + epsilon), reports))
        return Decision.CHARGED

    def spend(self, connection: sqlite3.Connection, metric: str, period: Period, *, steady: bool = False) -> bool:
        """Use up a charge. True: the one randomization may be made now."""
        if self.decision(connection, metric, period, steady=steady) is not Decision.CHARGED:
            return False
        charge = "SELECT * FROM ledger WHERE metric = ? AND end = ? AND start = ? AND decision IN (?, ?)"
        before = connection.execute(charge, (metric, period.end, period.start, *_UNSPENT)).fetchone()
        total = connection.execute("SELECT * FROM totals WHERE metric = ?", (metric,)).fetchone()
        if before is None or total is None:
            raise RuntimeError("a charge cannot be used twice")  # a bug: better no report than two
        after = *before[:3], Decision.SPENT.value, *before[4:]
        connection.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?, ?, ?, ?)", after)
        checksum.change(connection, "ledger", gone=[before], come=[after])
        _replace(connection, "totals", (*total[:2], total[2] + 1))
        return True

    def _affords(
        self, connection: sqlite3.Connection, period: Period, epsilon: Fraction, device_epsilon: Fraction, now: float
    ) -> bool:
        """Whether a charge fits the codebook's limit for the period, and the device's for today and for ever."""
        if not self._has_left(connection, epsilon):
            return False
        if self.limits.max_epsilon is not None:
            if now // DAY <= float(_fact(connection, "closed_before", -DAY)) // DAY:
                return False  # what was spent on that day before the damage is not known
            if spent_on(connection, int(now // DAY)) + epsilon > self.limits.max_epsilon:
                return False
        in_period = connection.execute(
            "SELECT epsilon, decision FROM ledger WHERE end > ? AND +start < ?", (period.start, period.end)
        ).fetchall()
        if any(decision == Decision.CLOSED.value for _, decision in in_period):
            return False
        return _total(row[:1] for row in in_period if row[0] is not None) + epsilon <= device_epsilon

    def _has_left(self, connection: sqlite3.Connection, epsilon: Fraction) -> bool:
        """Whether this much is left of the device's lifetime limit. What is gone never comes back."""
        if self.limits.lifetime_epsilon is None:
            return True
        unknown = _fact(connection, "lifetime_unknown", 0)
        return not unknown and spent_ever(connection) + epsilon <= self.limits.lifetime_epsilon

    def is_long(self, connection: sqlite3.Connection, now: float) -> bool:
        """Whether `compact` may be worthwhile."""
        old = "SELECT count(*) FROM ledger WHERE end <= ? AND decision <> 'closed'"
        (count,) = connection.execute(old, (now - _KEPT,)).fetchone()
        return int(count) >= _WORTH_MERGING

    def compact(self, connection: sqlite3.Connection, now: float) -> int:
        """Merge old entries, so that the file does not grow for ever. Returns by how many they became fewer."""
        before = now - _KEPT
        old = connection.execute(
            "SELECT metric, start, end FROM ledger WHERE end <= ? ORDER BY metric, start", (before,)
        ).fetchall()
        spans = list(_merged(old))
        if len(old) - len(spans) < _WORTH_MERGING:
            return 0
        with checksum.renewing(connection, "ledger"):
            connection.execute("DELETE FROM ledger WHERE end <= ?", (before,))
            connection.executemany(
                "INSERT INTO ledger VALUES (?, ?, ?, 'closed', NULL, NULL)",
                [(metric, end, start) for metric, start, end in spans],
            )
        return len(old) - len(spans)


def spent_on(connection: sqlite3.Connection, day: int) -> Fraction:
    """Epsilon that was spent on a UTC day."""
    return _total(connection.execute("SELECT epsilon FROM days WHERE day = ?", (day,)))


def spent_ever(connection: sqlite3.Connection) -> Fraction:
    return _total(connection.execute("SELECT epsilon FROM totals"))


def _merged(rows: Iterable[tuple[str, int, int]]) -> Iterable[tuple[str, int, int]]:
    """Merge spans of the same metric (sorted by start) that touch, or nearly do."""
    current: tuple[str, int, int] | None = None
    for metric, start, end in rows:
        if current is not None and metric == current[0] and start - current[2] < _LONGEST_GAP:
            current = metric, current[1], max(end, current[2])
            continue
        if current is not None:
            yield current
        current = metric, start, end
    if current is not None:
        yield current


def _fact(connection: sqlite3.Connection, name: str, default: Any) -> Any:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return default if row is None else row[0]


def _write(
    connection: sqlite3.Connection,
    metric: str,
    period: Period,
    decision: Decision,
    epsilon: str | None,
    day: int | None,
) -> None:
    row = metric, period.end, period.start, decision.value, epsilon, day
    connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)", row)  # fails if there is one: decided once
    checksum.change(connection, "ledger", gone=[], come=[row])


def _replace(connection: sqlite3.Connection, table: Literal["days", "totals"], row: tuple[Any, ...]) -> None:
    """Write a row of a table whose first column is its key."""
    key = {"days": "day", "totals": "metric"}[table]
    before = connection.execute(f"SELECT * FROM {table} WHERE {key} = ?", row[:1]).fetchall()  # noqa: S608  ours
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608  ours
    checksum.change(connection, table, gone=before, come=[row])


def _total(rows: Iterable[tuple[str]]) -> Fraction:
    return sum((Fraction(epsilon) for (epsilon,) in rows), Fraction(0))
