"""The device's own account of what it has spent. No codebook, no edit and no clock makes it forget.

Spends are kept by the metric's *name* and by the span of time they are for, so that neither a new metric id nor
another period length reopens a period. For each metric and period one decision is taken, once and for good:
not in the share, spent, or refused over budget. Nothing is ever refunded.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.period import DAY
from hubbub.problems import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hubbub.period import Period

__all__ = ["Decision", "Ledger", "daily_limit"]


class Decision(Enum):
    """What was decided for a metric and a period."""

    IN_SHARE = "in share"
    """The coin said yes; nothing is spent yet."""
    OUT_OF_SHARE = "out of share"
    SPENT = "spent"
    REFUSED = "refused"


_STRONGEST_FIRST = (Decision.SPENT, Decision.REFUSED, Decision.OUT_OF_SHARE)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Limits and entries. Every method works inside a transaction of the caller's.

    Entries are looked up by their end (the `+` keeps SQLite from choosing the start): few are recent, many are old.
    """

    max_epsilon: Fraction | None
    """The most that is spent in one UTC day, over everything."""

    def decision(self, connection: sqlite3.Connection, metric: str, period: Period) -> Decision | None:
        """What holds for this period. Anything final about an overlapping one, of whatever length, holds for it too."""
        rows = connection.execute(
            "SELECT start, end, decision FROM ledger WHERE metric = ? AND end > ? AND +start < ?",
            (metric, period.start, period.end),
        ).fetchall()
        found = {Decision(text) for _, _, text in rows}
        for decision in _STRONGEST_FIRST:
            if decision in found:
                return decision
        return Decision.IN_SHARE if any(row[:2] == (period.start, period.end) for row in rows) else None

    def enter(self, connection: sqlite3.Connection, metric: str, period: Period, *, in_share: bool) -> Decision:
        """Keep what the coin said."""
        decision = Decision.IN_SHARE if in_share else Decision.OUT_OF_SHARE
        self._write(connection, metric, period, decision, None, None)
        return decision

    def spend(
        self,
        connection: sqlite3.Connection,
        metric: str,
        period: Period,
        epsilon: Fraction,
        device_epsilon: Fraction,
        now: float,
    ) -> bool:
        """Charge a randomization to its period and to today, or refuse it for good: True when it may be made."""
        today = int(now // DAY)
        in_period = connection.execute(
            "SELECT epsilon FROM ledger WHERE epsilon IS NOT NULL AND end > ? AND +start < ?",
            (period.start, period.end),
        )
        fits = _total(in_period) + epsilon <= device_epsilon
        if self.max_epsilon is not None:
            spent_today = connection.execute("SELECT epsilon FROM ledger WHERE day = ?", (today,))
            fits = fits and _total(spent_today) + epsilon <= self.max_epsilon
        if fits:
            self._write(connection, metric, period, Decision.SPENT, str(epsilon), today)
        else:
            self._write(connection, metric, period, Decision.REFUSED, None, None)
        return fits

    @staticmethod
    def _write(
        connection: sqlite3.Connection,
        metric: str,
        period: Period,
        decision: Decision,
        epsilon: str | None,
        day: int | None,
    ) -> None:
        written = connection.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "decision = excluded.decision, epsilon = excluded.epsilon, day = excluded.day "
            "WHERE decision NOT IN ('spent', 'refused')",
            (metric, period.end, period.start, decision.value, epsilon, day),
        )
        if written.rowcount != 1:
            raise RuntimeError("a final decision cannot be taken again")  # a bug of ours: better no report than two


def _total(rows: Iterable[tuple[str]]) -> Fraction:
    return sum((Fraction(epsilon) for (epsilon,) in rows), Fraction(0))


def daily_limit(max_epsilon: float | None) -> Fraction | None:
    """A device's own limit, exactly as written: 0.3 means three tenths."""
    if max_epsilon is None:
        return None
    limit = Decimal(str(max_epsilon)) if isinstance(max_epsilon, int | float) else Decimal("nan")
    if not limit.is_finite() or limit <= 0:
        raise InvalidParameter(f"max_epsilon is a number above 0, such as 4.0, got {max_epsilon!r}")
    return Fraction(limit)
