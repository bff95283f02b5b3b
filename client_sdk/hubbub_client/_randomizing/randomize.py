"""Randomization of reduced values, once per metric and period, by its pin; on disk before anything is sent."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hubbub.errors import HubbubError, InvalidParameter
from hubbub_client._budget.ledger import Decision, Ledger
from hubbub_client._codebooks.in_force import PERIODS_TO_CATCH_UP, CodebooksInForce, Pin
from hubbub_client._consent.consent_and_withdrawal import enabled_since
from hubbub_client._counters import Event, Kind
from hubbub_client._integrity.torn_rows import SOUND
from hubbub_client._integrity.witness import count
from hubbub_client._randomizing.draw import draw
from hubbub_client._sending.outbox import Lane, Outbox, Waiting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from hubbub.codebook import Metric
    from hubbub.period import Period
    from hubbub.randomness import Randomness
    from hubbub_client._sending.sending_coins import Coins
    from hubbub_client._state.database import State

__all__ = ["Randomizer", "Settled", "is_due_at_once"]

_LOST = {
    None: "metric-disabled",  # it was not collected when the page was pinned
    Decision.OUT_OF_SHARE: "not-in-share",
    Decision.REFUSED: "over-budget",
    Decision.CLOSED: "over-budget",
    Decision.SPENT: "over-budget",
}


class _Kept(NamedTuple):
    """The reduced values that were recorded under a metric's name in a period."""

    reduce: str
    state: str
    at: float


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling a lane did."""

    counts: Counter[Event]
    """Reports that were randomized, values that were lost and reports that were dropped, by reason."""
    values: int = 0
    """True values that were deleted: each is in a report now, or lost."""


class Randomizer:
    """The third verb: randomize."""

    def __init__(self, state: State, ledger: Ledger, rng: Randomness, coins: Coins) -> None:
        self._state, self._ledger, self._rng, self._coins = state, ledger, rng, coins

    def settle(self, codebooks: CodebooksInForce, lane: Lane, now: float) -> Settled:
        """Randomize the values of a lane that are due, by the pinned pages alone.

        In the steady lane these are the values of ended periods, or the declared `missing` where a period holds none.
        In the occasional lane they are the values of ended periods and those that are due at once; values that can
        never be reported are deleted.
        """
        counts: Counter[Event] = Counter()
        with self._state.reading() as connection:  # most cycles end here, and delay no record
            if not self._has_work(connection, codebooks, lane, now):
                return Settled(counts)
        self._state.witness_charges(lane.value)
        with self._state.transaction() as connection:
            enabled = enabled_since(connection)
            if enabled is None:
                return Settled(counts)
            self._state.check(connection, lane.value)
            kept = _kept(connection)
            settled: list[tuple[str, int]] = []
            recorded = {index for _, index in kept}
            charged = self._ledger.charged(connection, _oldest(codebooks, now))
            for period, pin in _pinned(codebooks, now):
                if period.index in recorded or _owes(pin, period, charged, now):
                    settled += self._settle_period(connection, codebooks, lane, period, pin, kept, enabled, now, counts)
            if lane is Lane.OCCASIONAL:
                for here, reason in self._unreportable(connection, codebooks, kept.keys() - set(settled), now):
                    settled.append(here)
                    counts[Event(Kind.LOST, reason)] += 1
            connection.executemany("DELETE FROM reductions WHERE metric = ? AND period = ?", settled)
            if dropped := Outbox.drop_oldest(connection):
                counts[Event(Kind.DROPPED, "outbox-full")] = dropped
        return Settled(counts, len(settled))

    def _has_work(self, connection: sqlite3.Connection, codebooks: CodebooksInForce, lane: Lane, now: float) -> bool:
        """In the steady lane, whether an ended period still owes reports; in the occasional one, whether anything was
        recorded."""
        if lane is Lane.OCCASIONAL:
            kept = _kept(connection)
            plain = any(_lane_of(codebooks, name, index) is not Lane.STEADY for name, index in kept)
            return plain or any(True for _ in self._unreportable(connection, codebooks, kept, now))
        charged = self._ledger.charged(connection, _oldest(codebooks, now))
        return any(_owes(pin, period, charged, now) for period, pin in _pinned(codebooks, now))

    def _unreportable(
        self, connection: sqlite3.Connection, codebooks: CodebooksInForce, kept: Iterable[tuple[str, int]], now: float
    ) -> Iterator[tuple[tuple[str, int], str]]:
        """Values that will not be reported, and why: the period has no pin and is too old to get one, the page lacks
        the metric, or the decision is against it."""
        if codebooks.calendar is None:
            return
        oldest = codebooks.calendar.index_at(now) - PERIODS_TO_CATCH_UP
        for name, index in kept:
            period = _period(codebooks, index)
            pin = codebooks.pin(period) if period else None
            if period is None or pin is None:
                if period is None or index < oldest:
                    yield (name, index), "period-closed"
            elif (metric := pin.page.metric(name)) is None:
                yield (name, index), "unknown-metric"
            else:
                decision = self._ledger.decision(connection, name, period, steady=is_steady(metric))
                if decision in _LOST:
                    yield (name, index), _LOST[decision]

    # -- inside a transaction -------------------------------------------------------------------

    def _settle_period(
        self,
        connection: sqlite3.Connection,
        codebooks: CodebooksInForce,
        lane: Lane,
        period: Period,
        pin: Pin,
        kept: dict[tuple[str, int], _Kept],
        enabled: float,
        now: float,
        counts: Counter[Event],
    ) -> list[tuple[str, int]]:
        """Settle what is due of one period in a lane. Returns the recorded values that are done with."""
        done: list[tuple[str, int]] = []
        for metric in _in_order(pin, lane):
            here = metric.name, period.index
            found = kept.get(here)
            decision = self._ledger.decision(connection, metric.name, period, steady=is_steady(metric))
            if now < period.end and not is_due_at_once(metric) and decision is Decision.CHARGED:
                continue  # not yet
            if found is not None:
                done.append(here)
            elif metric.missing is None:
                continue
            problem = _LOST.get(decision)
            if decision is Decision.CHARGED:
                problem = self._settle_one(connection, codebooks, pin, metric, period, found, enabled, now, counts)
            if problem is not None and found is not None:
                counts[Event(Kind.LOST, problem)] += 1
        return done

    def _settle_one(
        self,
        connection: sqlite3.Connection,
        codebooks: CodebooksInForce,
        pin: Pin,
        metric: Metric,
        period: Period,
        found: _Kept | None,
        enabled: float,
        now: float,
        counts: Counter[Event],
    ) -> str | None:
        """Report the value of one metric and period, or `missing` if nothing was recorded. Returns why a recorded value
        is not reported.

        Only the value depends on whether something was recorded.
        """
        header = codebooks.body.metric(metric.id, period.index)
        if pin.page.codebook is None or not pin.page.usable:
            return "codebook-refused"
        if header is not None and not header.enabled:
            return "metric-disabled"  # switched off since, which takes effect at once
        if now >= pin.closes_at:
            return "period-closed"
        if metric.missing is not None and enabled >= period.end:
            return "period-closed"  # consent came later
        value, problem = (metric.missing, None) if found is None else _reduced(metric, found)
        if value is None or not self._ledger.spend(connection, metric.name, period, steady=is_steady(metric)):
            return problem
        count(connection, lane_of(metric).value)
        due: float = period.end
        if found is not None and is_due_at_once(metric):
            due = min(max(found.at, period.start), now)
        longest = pin.page.codebook.collection.longest_delay
        delay = self._coins.of("delay", metric.name, period.index).below(longest + 1) / 1000  # whatever the value
        drawn = draw(metric, value, self._rng, self._coins.of("nonce", metric.name, period.index))
        Outbox.put(
            connection, Waiting(lane_of(metric), metric.id, period.index, drawn, pin.closes_at), due=due, delay=delay
        )
        counts[Event(Kind.REPORT, "randomized")] += 1
        return problem


def is_steady(metric: Metric) -> bool:
    """Whether the metric reports in every period, recorded or not."""
    return metric.missing is not None


def is_due_at_once(metric: Metric) -> bool:
    """Whether a value is due as soon as it is recorded. With a `missing` it is not, as the time of sending would tell
    that there was a value."""
    return metric.reduce == "first" and metric.missing is None


def _reduced(metric: Metric, found: _Kept) -> tuple[object, str | None]:
    """The value that stands for all recorded ones; `missing` and a reason if there is none.

    They may have been recorded by another page, before this one was pinned. They count if the metric's name is the same
    and the value fits.
    """
    try:
        if found.reduce != metric.reduce:
            return metric.missing, "invalid"
        value = metric.recorded(metric.reducer.result(json.loads(found.state)))
        metric.input_of(value)
    except (HubbubError, ValueError, LookupError, TypeError):
        return metric.missing, "invalid"
    return value, None


def _pinned(codebooks: CodebooksInForce, now: float) -> Iterator[tuple[Period, Pin]]:
    """The periods that have a pin and still take reports, newest first."""
    if codebooks.calendar is None:
        return
    for span in sorted(codebooks.pins, reverse=True):
        pin, period = codebooks.pins[span], codebooks.calendar.at(span.start)
        if (period.start, period.end) == span and span.start <= now < pin.closes_at:
            yield period, pin


def _oldest(codebooks: CodebooksInForce, now: float) -> int:
    """The start of the oldest period that has a pin and still takes reports."""
    return min((period.start for period, _ in _pinned(codebooks, now)), default=int(now))


def _owes(pin: Pin, period: Period, charged: Container[tuple[str, int, int]], now: float) -> bool:
    """Whether the period has ended, and a metric with `missing` has not reported it yet."""
    metrics = pin.page.codebook.metrics if pin.page.codebook and period.end <= now else ()
    return any(m.missing is not None and (m.name, period.start, period.end) in charged for m in metrics)


def _kept(connection: sqlite3.Connection) -> dict[tuple[str, int], _Kept]:
    sound = SOUND["reductions"]
    rows = connection.execute(f"SELECT metric, period, reduce, state, at FROM reductions WHERE {sound}")  # noqa: S608  ours
    return {(name, index): _Kept(*rest) for name, index, *rest in rows}


def _lane_of(codebooks: CodebooksInForce, name: str, index: int) -> Lane | None:
    """The lane of a recorded value, by the page of its period; None if the page has no such metric."""
    period = _period(codebooks, index)
    pin = codebooks.pin(period) if period else None
    page = codebooks.newest_page(index) if pin is None else pin.page
    metric = page.metric(name) if page else None
    return None if metric is None else lane_of(metric)


def _period(codebooks: CodebooksInForce, index: int) -> Period | None:
    """The period of a recorded value. None: there is none of this index, since periods had another length then."""
    with suppress(InvalidParameter):
        return codebooks.calendar.period(index) if codebooks.calendar else None
    return None


def lane_of(metric: Metric) -> Lane:
    return Lane.STEADY if is_steady(metric) else Lane.OCCASIONAL


def _in_order(pin: Pin, lane: Lane) -> list[Metric]:
    metrics = pin.page.codebook.metrics if pin.page.codebook else ()
    return sorted((metric for metric in metrics if lane_of(metric) is lane), key=lambda metric: metric.name)
