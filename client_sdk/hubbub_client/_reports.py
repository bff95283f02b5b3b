"""From reduced values to reports: decided once, randomized once, all of it on disk before anything is sent."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hubbub.period import DAY
from hubbub.problems import HubbubError
from hubbub_client._attendance import enabled_since
from hubbub_client._book import Book, Page, is_expired
from hubbub_client._draw import draw, in_share
from hubbub_client.ledger import Decision, Ledger
from hubbub_client.outbox import Outbox, Waiting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from hubbub.codebook import Metric
    from hubbub.period import Period
    from hubbub.randomness import Randomness
    from hubbub_client._state import State

__all__ = ["Reports"]

_PERIODS_TO_CATCH_UP = 64
"""Whether anything was recorded in them or not: else it could be seen."""
_IMPLAUSIBLE = 60 * DAY
"""So far in the future, a moment that was written down is one of a clock that was wrong."""


class _Kept(NamedTuple):
    """What was recorded of a metric in a period."""

    state: str
    at: float


class Reports:
    """The third verb: randomize."""

    def __init__(self, state: State, ledger: Ledger, rng: Randomness) -> None:
        self._state, self._ledger, self._rng = state, ledger, rng

    def settle(self, book: Book, now: float) -> Counter[str]:
        """Randomize what is due: the first value of a metric that says it at once; what ended periods hold, and the
        declared `missing` where they hold nothing.

        In an order that does not depend on which is which: where the budget ends, it ends for both. Returns what was
        lost instead, counted by reason.
        """
        counts: Counter[str] = Counter()
        with self._state.reading() as connection:  # most passes end here, and hold up nobody who records
            if not self._has_work(connection, book, now):
                return counts
        with self._state.transaction() as connection:
            enabled = enabled_since(connection)
            if enabled is None:
                return counts
            known = dict(connection.execute("SELECT metric, since FROM known"))
            rows = connection.execute("SELECT id, period, state, at FROM reductions")
            kept = {(id_, index): _Kept(state, at) for id_, index, state, at in rows}
            settled: list[tuple[bytes, int]] = []
            for period in _open_periods(book, now):
                for page, metric in _in_order(book, period.index, kept):
                    if now < period.end and not _at_once(metric):
                        continue
                    found = kept.pop((metric.id, period.index), None)
                    if found is not None:
                        settled.append((metric.id, period.index))
                    elif (
                        metric.missing is None
                        or page is not book.page(period.index)
                        or max(enabled, known.get(metric.name, now)) >= period.end
                    ):
                        continue
                    self._settle_one(connection, book, page, metric, period, found, now, counts)
            for left, reason in _hopeless(book, kept, now):
                counts[f"lost:{reason}"] += 1
                settled.append(left)
            connection.executemany("DELETE FROM reductions WHERE id = ? AND period = ?", settled)
            if dropped := Outbox.drop_oldest(connection):
                counts["dropped:outbox-full"] = dropped
            if settled:
                counts["settled"] = len(settled)
        return counts

    def sweep(self, now: float) -> Counter[str]:
        """Delete what is too late for any shuffler, with or without a book to say so; and what a wrong clock left."""
        swept: Counter[str] = Counter()
        with self._state.reading() as connection:
            if not self._is_dirty(connection, now):
                return swept
        with self._state.transaction() as connection:
            for table, name in (("reductions", "lost"), ("outbox", "dropped")):
                late = connection.execute(f"DELETE FROM {table} WHERE closes_at <= ?", (now,)).rowcount  # noqa: S608  ours
                if late:
                    swept[f"{name}:period-closed"] = late
            early = connection.execute("DELETE FROM reductions WHERE at > ?", (now + DAY,)).rowcount
            if early:
                swept["lost:clock"] = early
            # `missing` must not wait for a time that a wrong clock wrote down.
            connection.execute("UPDATE known SET since = :now WHERE since > :now", {"now": now})
            since = "UPDATE facts SET value = :now WHERE name = 'enabled_since' AND value > :now"
            connection.execute(since, {"now": now})
            implausible = now, now + _IMPLAUSIBLE
            connection.execute("UPDATE facts SET value = ? WHERE name = 'closed_before' AND value > ?", implausible)
            self._ledger.compact(connection, now)
        return swept

    def _has_work(self, connection: sqlite3.Connection, book: Book, now: float) -> bool:
        """Whether anything was recorded, or an ended period has no decision about a `missing` yet."""
        if connection.execute("SELECT 1 FROM reductions LIMIT 1").fetchone() is not None:
            return True
        open_decisions = (None, Decision.IN_SHARE)
        return any(
            metric.missing is not None and self._ledger.decision(connection, metric.name, period) in open_decisions
            for period in _open_periods(book, now)
            if period.end <= now
            for _, metric in book.in_force(period.index).values()
        )

    def _is_dirty(self, connection: sqlite3.Connection, now: float) -> bool:
        """Whether there is anything to sweep."""
        (dirty,) = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM reductions WHERE closes_at <= :now OR at > :tomorrow)"
            " OR EXISTS (SELECT 1 FROM outbox WHERE closes_at <= :now)"
            " OR EXISTS (SELECT 1 FROM known WHERE since > :now)"
            " OR EXISTS (SELECT 1 FROM facts WHERE name IN ('enabled_since', 'closed_before') AND value > :now)",
            {"now": now, "tomorrow": now + DAY},
        ).fetchone()
        return bool(dirty) or self._ledger.is_long(connection, now)

    # -- inside a transaction -------------------------------------------------------------------

    def _settle_one(
        self,
        connection: sqlite3.Connection,
        book: Book,
        page: Page,
        metric: Metric,
        period: Period,
        found: _Kept | None,
        now: float,
        counts: Counter[str],
    ) -> None:
        """Report what a period holds of one metric, or `missing` when it holds nothing; or count why not."""
        in_force = book.page(period.index)
        if page.codebook is None:
            return
        rules = page.codebook.collection
        value, problem = (metric.missing, None) if found is None else _reduced(metric, found.state)
        if in_force is None or in_force.codebook is None or in_force.refusal or page.refusal:
            problem = "codebook-refused"
        elif not metric.enabled or is_expired(metric, period.start):
            problem = "metric-disabled"
        elif now >= period.closes_at(rules.grace):
            problem = "period-closed"
        elif self._decide(connection, metric, period) is not Decision.IN_SHARE:
            problem = "over-budget"
        elif value is not None:
            due: float = period.end
            if found is not None and _at_once(metric):
                due = min(max(found.at, period.start), now)
            if not self._ledger.spend(connection, metric.name, period, metric.epsilon, rules.device_epsilon, now):
                problem = "over-budget"
            else:
                # Milliseconds up to half the grace, whatever the value.
                delay = self._rng.below(500 * rules.grace + 1) / 1000
                drawn = draw(metric, value, self._rng)
                waiting = Waiting(metric.id, period.index, drawn, period.closes_at(rules.grace))
                Outbox.put(connection, waiting, due=due, delay=delay)
                counts["randomized"] += 1
        if found is not None and problem is not None:
            counts[f"lost:{problem}"] += 1

    def _decide(self, connection: sqlite3.Connection, metric: Metric, period: Period) -> Decision:
        known = self._ledger.decision(connection, metric.name, period)
        if known is not None:
            return known
        return self._ledger.enter(connection, metric.name, period, in_share=in_share(metric, self._rng))


def _at_once(metric: Metric) -> bool:
    """Whether a value is due when it is recorded. With a `missing` it is not, or the time of sending would tell that
    there was one."""
    return metric.reduce == "first" and metric.missing is None


def _reduced(metric: Metric, state: str) -> tuple[object, str | None]:
    """The value that stands for all; `missing` and a reason when there is none."""
    try:
        value = metric.reducer.result(json.loads(state))
        metric.input_of(value)
    except (HubbubError, ValueError, LookupError, TypeError):
        return metric.missing, "invalid"
    return value, None


def _hopeless(book: Book, kept: Iterable[tuple[bytes, int]], now: float) -> Iterator[tuple[tuple[bytes, int], str]]:
    """What will never be reported, and why."""
    for id_, index in kept:
        if id_ not in book.in_force(index):
            yield (id_, index), "unknown-metric"
        elif book.calendar and book.calendar.period(index).end <= now:
            yield (id_, index), "period-closed"


def _open_periods(book: Book, now: float) -> Iterator[Period]:
    """The current period, and those that have ended and still take reports, newest first, as far back as a device
    catches up."""
    graces = [page.codebook.collection.grace for page in book.pages if page.codebook]
    if book.calendar is None or not graces:
        return
    current = book.calendar.index_at(now)
    for index in range(current, max(current - 1 - _PERIODS_TO_CATCH_UP, -1), -1):
        period = book.calendar.period(index)
        if now < period.closes_at(max(graces)):
            yield period


def _in_order(book: Book, period: int, kept: Container[tuple[bytes, int]]) -> list[tuple[Page, Metric]]:
    """By name. After an edit two metrics have one: first what was recorded, then whoever would say `missing`."""
    metrics = book.in_force(period).values()
    return sorted(metrics, key=lambda found: (found[1].name, (found[1].id, period) not in kept))
