"""From recorded values to reports: reduce, decide once, randomize once, all of it on disk before anything is sent."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from hubbub.problems import HubbubError
from hubbub_client._book import Book, Page, is_expired
from hubbub_client._draw import draw, in_share
from hubbub_client.ledger import Decision, Ledger
from hubbub_client.outbox import Outbox, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubbub.codebook import Codebook, Metric
    from hubbub.period import Calendar, Period
    from hubbub.randomness import Randomness
    from hubbub_client._state import State

__all__ = ["Outcome", "Reports"]

_PERIODS_TO_CATCH_UP = 64


class Outcome(Enum):
    """What became of a recorded value."""

    RECORDED = "recorded"
    NOT_IN_SHARE = "not_in_share"
    """The private coin keeps this device out of this metric for this period."""
    OVER_BUDGET = "over_budget"
    """The codebook's or the device's own limit is reached, or the period is already spent."""
    DISABLED = "disabled"
    """No consent, or the metric is switched off."""
    INVALID = "invalid"
    """No such metric, or a value that it does not take."""
    EXPIRED = "expired"
    """The bundle or the metric is past its last day, or the value waited longer than its period's grace."""
    WAITING = "waiting"
    """No codebook is known yet: kept in memory until `flush` has fetched one."""
    NO_DURABLE_STATE = "no_durable_state"
    """Nothing can be written to the state directory, so nothing may be reported."""


_FINAL = {
    Decision.OUT_OF_SHARE: Outcome.NOT_IN_SHARE,
    Decision.REFUSED: Outcome.OVER_BUDGET,
    Decision.SPENT: Outcome.OVER_BUDGET,
}


class Reports:
    """The durable half of the SDK before the outbox."""

    def __init__(self, state: State, ledger: Ledger, rng: Randomness) -> None:
        self._state, self._ledger, self._rng = state, ledger, rng

    def record(
        self, codebook: Codebook, metric: Metric, period: Period, value: object, *, at: float, now: float
    ) -> Outcome:
        """Take a value of the time `at` into its period; a metric that keeps its first is randomized here and now."""
        recorded = metric.recorded(value)
        if now >= period.closes_at(codebook.collection.grace):
            return Outcome.EXPIRED
        with self._state.reading() as connection:  # most records after a first one end here, without a write
            known = self._ledger.decision(connection, metric.name, period)
        if known in _FINAL:
            return _final(metric, known)
        with self._state.transaction() as connection:
            decision = self._decide(connection, metric, period)
            if decision is not Decision.IN_SHARE:
                return _final(metric, decision)
            if metric.reduce == "first":
                spent = self._randomize(connection, codebook, metric, period, recorded, due=at, now=now)
                return Outcome.RECORDED if spent else Outcome.OVER_BUDGET
            self._reduce(connection, metric, period, recorded)
            return Outcome.RECORDED

    def settle(self, book: Book, now: float) -> Counter[str]:
        """Randomize what ended periods hold, and the declared `missing` where they hold nothing.

        Returns what was lost instead, counted by reason.
        """
        lost: Counter[str] = Counter()
        calendar = book.calendar
        if calendar is None:
            return lost
        with self._state.transaction() as connection:
            self._settle_reductions(connection, book, calendar, now, lost)
            self._settle_missing(connection, book, calendar, now)
        return lost

    def forget(self, connection: sqlite3.Connection) -> None:
        """Consent is gone, and with it every value and unsent report. What was spent stays spent."""
        connection.execute("DELETE FROM reductions")
        connection.execute("DELETE FROM outbox")
        connection.execute("DELETE FROM facts WHERE name = 'enabled_since'")

    # -- inside a transaction -------------------------------------------------------------------

    def _decide(self, connection: sqlite3.Connection, metric: Metric, period: Period) -> Decision:
        known = self._ledger.decision(connection, metric.name, period)
        if known is not None:
            return known
        return self._ledger.enter(connection, metric.name, period, in_share=in_share(metric, self._rng))

    def _reduce(
        self, connection: sqlite3.Connection, metric: Metric, period: Period, value: bool | str | float
    ) -> None:
        row = connection.execute(
            "SELECT state FROM reductions WHERE id = ? AND period = ?", (metric.id, period.index)
        ).fetchone()
        state = metric.reducer.add(json.loads(row[0]) if row else None, value, self._rng)
        connection.execute(
            "INSERT OR REPLACE INTO reductions VALUES (?, ?, ?)", (metric.id, period.index, json.dumps(state))
        )

    def _randomize(
        self,
        connection: sqlite3.Connection,
        codebook: Codebook,
        metric: Metric,
        period: Period,
        value: object,
        *,
        due: float,
        now: float,
    ) -> bool:
        """Spend and draw, in the one transaction that makes both durable. False: over budget, for good."""
        rules = codebook.collection
        if not self._ledger.spend(connection, metric.name, period, metric.epsilon, rules.device_epsilon, now):
            return False
        delay = self._rng.below(500 * rules.grace + 1) / 1000  # milliseconds up to half the grace, whatever the value
        waiting = Waiting(metric.id, period.index, draw(metric, value, self._rng), period.closes_at(rules.grace))
        Outbox.put(connection, waiting, due + delay)
        return True

    def _settle_reductions(
        self, connection: sqlite3.Connection, book: Book, calendar: Calendar, now: float, lost: Counter[str]
    ) -> None:
        rows = connection.execute("SELECT id, period, state FROM reductions").fetchall()
        for id_, index, state in rows:
            found = book.find(id_, index)
            if found is not None and calendar.period(index).end > now:
                continue
            connection.execute("DELETE FROM reductions WHERE id = ? AND period = ?", (id_, index))
            reason = (
                self._settle_one(connection, *found, calendar.period(index), state, now) if found else "unknown-metric"
            )
            lost.update([reason] if reason else [])

    def _settle_one(
        self, connection: sqlite3.Connection, page: Page, metric: Metric, period: Period, state: str, now: float
    ) -> str | None:
        """Report one ended period of one metric; why not, if not."""
        codebook = page.codebook
        if codebook is None:
            return "unknown-metric"
        if not metric.enabled or is_expired(metric, period.start):
            return "metric-disabled"
        if now >= period.closes_at(codebook.collection.grace):
            return "period-closed"
        if self._ledger.decision(connection, metric.name, period) is not Decision.IN_SHARE or not page.affordable:
            return "over-budget"
        try:
            value = metric.reducer.result(json.loads(state))
            metric.input_of(value)
        except (HubbubError, ValueError, LookupError, TypeError):
            return "invalid"
        spent = self._randomize(connection, codebook, metric, period, value, due=period.end, now=now)
        return None if spent else "over-budget"

    def _settle_missing(self, connection: sqlite3.Connection, book: Book, calendar: Calendar, now: float) -> None:
        row = connection.execute("SELECT value FROM facts WHERE name = 'enabled_since'").fetchone()
        if row is None:
            return
        known = dict(connection.execute("SELECT metric, since FROM known"))
        for period, codebook in _open_after_their_end(book, calendar, now):
            for metric in codebook.metrics:
                since = max(row[0], known.get(metric.name, now))
                if metric.missing is None or not metric.enabled or is_expired(metric, period.start):
                    continue
                if since < period.end and self._decide(connection, metric, period) is Decision.IN_SHARE:
                    self._randomize(connection, codebook, metric, period, metric.missing, due=period.end, now=now)


def _open_after_their_end(book: Book, calendar: Calendar, now: float) -> Iterator[tuple[Period, Codebook]]:
    """The periods that have ended and still take reports, newest first."""
    current = calendar.index_at(now)
    for index in range(current - 1, max(current - 1 - _PERIODS_TO_CATCH_UP, -1), -1):
        period, page = calendar.period(index), book.page(index)
        if page is None or page.codebook is None or not page.affordable:
            continue
        if now < period.closes_at(page.codebook.collection.grace):
            yield period, page.codebook


def _final(metric: Metric, decision: Decision) -> Outcome:
    """A later value of a metric that keeps its first one is recorded, and changes nothing."""
    if decision is Decision.SPENT and metric.reduce == "first":
        return Outcome.RECORDED
    return _FINAL[decision]
