"""From recorded values to reports: reduce, decide once, randomize once, all of it on disk before anything is sent."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from hubbub.problems import HubbubError
from hubbub_client._attendance import enabled_since
from hubbub_client._book import Book, Page, is_expired
from hubbub_client._draw import draw, in_share
from hubbub_client.ledger import Decision, Ledger
from hubbub_client.outbox import Outbox, Waiting

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from hubbub.codebook import Codebook, Metric
    from hubbub.period import Period
    from hubbub.randomness import Randomness
    from hubbub_client._state import State

__all__ = ["Outcome", "Reports"]

_PERIODS_TO_CATCH_UP = 64
"""Whether anything was recorded in them or not: else it could be seen."""


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
    """The bundle or the metric is past its last day, or the value waited longer than its period's grace, or too
    many wait already."""
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
            if enabled_since(connection) is None:
                return Outcome.DISABLED
            decision = self._decide(connection, metric, period)
            if decision is not Decision.IN_SHARE:
                return _final(metric, decision)
            if metric.reduce == "first":
                # As late as `missing` would be, or the time of sending would tell that a value was recorded.
                due = at if metric.missing is None else period.end
                spent = self._randomize(connection, codebook, metric, period, recorded, due=due, now=now)
                return Outcome.RECORDED if spent else Outcome.OVER_BUDGET
            self._reduce(connection, codebook, metric, period, recorded)
            return Outcome.RECORDED

    def settle(self, book: Book, now: float) -> Counter[str]:
        """Randomize what ended periods hold, and the declared `missing` where they hold nothing.

        In an order that does not depend on which is which: where the budget ends, it ends for both. Returns what was
        lost instead, counted by reason.
        """
        lost: Counter[str] = Counter()
        with self._state.transaction() as connection:
            enabled = enabled_since(connection)
            if enabled is None:
                return lost
            known = dict(connection.execute("SELECT metric, since FROM known"))
            rows = connection.execute("SELECT id, period, state FROM reductions")
            kept: dict[tuple[bytes, int], str] = {(id_, index): state for id_, index, state in rows}
            settled: list[tuple[bytes, int]] = []
            for period in _open_after_their_end(book, now):
                for page, metric in _in_order(book, period.index, kept):
                    state = kept.pop((metric.id, period.index), None)
                    if state is not None:
                        settled.append((metric.id, period.index))
                    elif (
                        metric.missing is None
                        or page is not book.page(period.index)
                        or max(enabled, known.get(metric.name, now)) >= period.end
                    ):
                        continue
                    self._settle_one(connection, page, metric, period, state, now, lost)
            for id_, index in kept:
                if id_ not in book.in_force(index):
                    lost["unknown-metric"] += 1
                elif book.calendar and book.calendar.period(index).end <= now:
                    lost["period-closed"] += 1
                else:
                    continue
                settled.append((id_, index))
            connection.executemany("DELETE FROM reductions WHERE id = ? AND period = ?", settled)
        return lost

    def sweep(self, now: float) -> Counter[str]:
        """Delete what is too late for any shuffler, with or without a book to say so."""
        swept: Counter[str] = Counter()
        with self._state.transaction() as connection:
            for table, name in (("reductions", "lost"), ("outbox", "dropped")):
                late = connection.execute(f"DELETE FROM {table} WHERE closes_at <= ?", (now,)).rowcount  # noqa: S608  ours
                if late:
                    swept[f"{name}:period-closed"] = late
        return swept

    # -- inside a transaction -------------------------------------------------------------------

    def _decide(self, connection: sqlite3.Connection, metric: Metric, period: Period) -> Decision:
        known = self._ledger.decision(connection, metric.name, period)
        if known is not None:
            return known
        return self._ledger.enter(connection, metric.name, period, in_share=in_share(metric, self._rng))

    def _reduce(
        self,
        connection: sqlite3.Connection,
        codebook: Codebook,
        metric: Metric,
        period: Period,
        value: bool | str | float,
    ) -> None:
        row = connection.execute(
            "SELECT state FROM reductions WHERE id = ? AND period = ?", (metric.id, period.index)
        ).fetchone()
        state = metric.reducer.add(json.loads(row[0]) if row else None, value, self._rng)
        connection.execute(
            "INSERT OR REPLACE INTO reductions VALUES (?, ?, ?, ?)",
            (metric.id, period.index, json.dumps(state), period.closes_at(codebook.collection.grace)),
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
        Outbox.put(connection, waiting, due=due, delay=delay)
        return True

    def _settle_one(
        self,
        connection: sqlite3.Connection,
        page: Page,
        metric: Metric,
        period: Period,
        state: str | None,
        now: float,
        lost: Counter[str],
    ) -> None:
        """Report what an ended period holds of one metric, or `missing` when it holds nothing; or count why not."""
        if page.codebook is None:
            return
        value, problem = (metric.missing, None) if state is None else _reduced(metric, state)
        if not metric.enabled or is_expired(metric, period.start):
            problem = "metric-disabled"
        elif now >= period.closes_at(page.codebook.collection.grace):
            problem = "period-closed"
        elif not page.affordable or self._decide(connection, metric, period) is not Decision.IN_SHARE:
            problem = "over-budget"
        elif value is not None:
            spent = self._randomize(connection, page.codebook, metric, period, value, due=period.end, now=now)
            problem = problem if spent else "over-budget"
        if state is not None and problem is not None:
            lost[problem] += 1


def _reduced(metric: Metric, state: str) -> tuple[object, str | None]:
    """The value that stands for all; `missing` and a reason when there is none."""
    try:
        value = metric.reducer.result(json.loads(state))
        metric.input_of(value)
    except (HubbubError, ValueError, LookupError, TypeError):
        return metric.missing, "invalid"
    return value, None


def _open_after_their_end(book: Book, now: float) -> Iterator[Period]:
    """The periods that have ended and still take reports, newest first, as far back as a device catches up."""
    graces = [page.codebook.collection.grace for page in book.pages if page.codebook]
    if book.calendar is None or not graces:
        return
    current = book.calendar.index_at(now)
    for index in range(current - 1, max(current - 1 - _PERIODS_TO_CATCH_UP, -1), -1):
        period = book.calendar.period(index)
        if now < period.closes_at(max(graces)):
            yield period


def _in_order(book: Book, period: int, kept: Container[tuple[bytes, int]]) -> list[tuple[Page, Metric]]:
    """By name. After an edit two metrics have one: first what was recorded, then whoever would say `missing`."""
    metrics = book.in_force(period).values()
    return sorted(metrics, key=lambda found: (found[1].name, (found[1].id, period) not in kept))


def _final(metric: Metric, decision: Decision) -> Outcome:
    """A later value of a metric that keeps its first one is recorded, and changes nothing."""
    if decision is Decision.SPENT and metric.reduce == "first":
        return Outcome.RECORDED
    return _FINAL[decision]
