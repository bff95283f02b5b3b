"""Intake of recorded values: each one is reduced into the state of its period, as a note on disk that never waits."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from hubbub.errors import HubbubError, did_you_mean
from hubbub_client._budget.ledger import Decision, Ledger
from hubbub_client._codebooks.in_force import CodebooksInForce, Page, is_expired
from hubbub_client._consent.consent_and_withdrawal import enabled_since
from hubbub_client._counters import Kind
from hubbub_client._recording.in_memory_queue import InMemoryQueue, QueuedValue, small_copy
from hubbub_client._state.errors import Busy
from hubbub_client.outcome import Outcome, UnknownMetric, WrongValue

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric
    from hubbub.period import Period
    from hubbub.randomness import Randomness
    from hubbub.reduce import Value
    from hubbub_client._counters import Counts
    from hubbub_client._state.database import State

__all__ = ["Intake"]

_EMPTIED_PER_RECORD = 16
"""Waiting values that one `record` writes besides its own; the next cycle writes the rest."""
_LONGEST_WORD = 100
"""Characters of an unknown name that are looked at and shown, as an app may pass a whole text."""
_MOST_HINTS = 100
"""Unknown names for which the nearest known one is looked up, once each: that takes far longer than a record."""

_FINAL = {
    None: Outcome.DISABLED,  # it was switched off or expired when the page was pinned
    Decision.OUT_OF_SHARE: Outcome.NOT_IN_SHARE,
    Decision.REFUSED: Outcome.OVER_BUDGET,
    Decision.CLOSED: Outcome.OVER_BUDGET,
    Decision.SPENT: Outcome.OVER_BUDGET,
}
_WHY_FINAL = {
    None: "was switched off or expired when this period began",
    Decision.REFUSED: "does not fit into this device's limits for the period: `client.ledger()` shows what was spent; "
    "see max_epsilon and lifetime_epsilon, and device_epsilon in the codebook",
    Decision.CLOSED: "was closed for this period, because the state file was new, damaged or an older copy: it is "
    "collected again in the next period and day",
    Decision.OUT_OF_SHARE: "has a `share`, and this device's coin leaves it out of this period",
}
"""For a developer. What is already reported needs no word."""
_EXPIRED_BUNDLE = (
    "nothing is collected, because the newest bundle has expired: check this machine's clock, and whether the shuffler "
    "can be reached"
)


class _NoConsentOnFile(Busy):
    """The file does not say yet that there is consent, so nothing may be written."""


class Intake:
    """The first two verbs: record and reduce."""

    def __init__(
        self, state: State, ledger: Ledger, rng: Randomness, counts: Counts, queue: InMemoryQueue, *, strict: bool
    ) -> None:
        self._state, self._ledger, self._rng, self._counts, self._strict = state, ledger, rng, counts, strict
        self.queue = queue
        """Values that wait for a first codebook or for the file."""
        self._emptying = threading.Lock()
        self._hints: dict[str, str] = {}

    def take(self, codebooks: CodebooksInForce | None, name: str, value: object, now: float) -> Outcome:
        """Take a value: write it now, or queue it. UnknownMetric and WrongValue are for strict clients."""
        if codebooks is None:
            return self._wait(name, value, now, Outcome.WAITING)
        if len(self.queue) == 0:
            try:
                return self._take(codebooks, name, value, at=now, now=now)
            except _NoConsentOnFile:
                return self._wait(name, value, now, Outcome.WAITING)
            except Busy:
                return self._wait(name, value, now, Outcome.RECORDED)
        found = self._find(codebooks, name, value, at=now, now=now)
        if isinstance(found, Outcome):
            return found
        return self._queue(QueuedValue(now, name, self._recorded(found[1], value)), Outcome.RECORDED)

    def empty(self, codebooks: CodebooksInForce, now: float, may: Callable[[], bool], most: int | None = None) -> None:
        """Write the waiting values in order, each with its own time, while `may` allows it. One thread at a time."""
        emptying = self._emptying
        if not emptying.acquire(blocking=False):
            return
        try:
            while (queued := self.queue.first()) and may() and most != 0:
                try:
                    outcome = self._take(codebooks, queued.name, queued.value, at=queued.at, now=now)
                except (UnknownMetric, WrongValue) as error:
                    outcome = Outcome.INVALID
                    self._counts.tell_developer(str(error), str(error))  # a strict client raises it no more
                except HubbubError:
                    outcome = Outcome.INVALID
                except Busy:
                    return
                self.queue.done(queued)  # only now, so that a value that could not be written stays
                self._counts.add(Kind.LATE, outcome.value)
                most = most if most is None else most - 1
        finally:
            emptying.release()

    def empty_a_few(self, codebooks: CodebooksInForce, now: float, may: Callable[[], bool]) -> None:
        """Write as many waiting values as a `record` has time for."""
        self.empty(codebooks, now, may, _EMPTIED_PER_RECORD)

    def forked(self) -> None:
        self.queue.forked()
        self._emptying = threading.Lock()

    # -- one value ------------------------------------------------------------------------------

    def _wait(self, name: str, value: object, now: float, outcome: Outcome) -> Outcome:
        if not isinstance(name, str) or (small := small_copy(value)) is None:
            return Outcome.INVALID
        return self._queue(QueuedValue(now, name, small), outcome)

    def _queue(self, queued: QueuedValue, outcome: Outcome) -> Outcome:
        if not self.queue.put(queued):
            self._counts.add(Kind.LOST, "no-room")
            return Outcome.EXPIRED
        return outcome

    def _take(self, codebooks: CodebooksInForce, name: str, value: object, *, at: float, now: float) -> Outcome:
        found = self._find(codebooks, name, value, at=at, now=now)
        if isinstance(found, Outcome):
            return found
        codebook, metric, period = found
        recorded = self._recorded(metric, value)
        if now >= period.closes_at(codebook.collection.grace):
            return Outcome.EXPIRED
        if metric.reduce == "first" and self._has_first_value(metric, period):
            return Outcome.RECORDED
        with self._state.noting() as connection:
            if enabled_since(connection) is None:
                raise _NoConsentOnFile("consent was withdrawn, and no cycle has heard yet that it is back")
            decision = self._ledger.decision(connection, metric.name, period, steady=metric.missing is not None)
            if decision is not Decision.CHARGED and (decision is not None or codebooks.pin(period) is not None):
                return self._final(metric, decision)
            self._reduce(connection, codebook, metric, period, recorded, at)
            return Outcome.RECORDED

    def _has_first_value(self, metric: Metric, period: Period) -> bool:
        """Whether there is a first value already. Then this one changes nothing and needs no write."""
        key = metric.name, period.index, metric.reduce
        same = "SELECT 1 FROM reductions WHERE metric = ? AND period = ? AND reduce = ?"
        with self._state.glancing() as connection:
            kept = connection.execute(same, key).fetchone()
            return kept is not None or self._ledger.decision(connection, metric.name, period) is Decision.SPENT

    def _find(
        self, codebooks: CodebooksInForce, name: str, value: object, *, at: float, now: float
    ) -> Outcome | tuple[Codebook, Metric, Period]:
        period = codebooks.calendar.at(at) if codebooks.calendar else None
        page = codebooks.page(period) if period else None
        if self._strict and page is not None and page.codebook is not None:
            self._refuse_mistake(page, name, value)
        if now >= codebooks.expires:
            self._counts.tell_developer("bundle:expired", _EXPIRED_BUNDLE)
            return Outcome.EXPIRED
        if period is None or page is None or page.codebook is None:
            return Outcome.INVALID  # a later bundle will not change what was collected then
        if page.refusal is not None:
            return Outcome(page.refusal)
        metric = page.metric(name)
        if metric is None:
            self._raise_unknown(page, name)
        if codebooks.is_off(metric):
            self._tell(metric, "off", "is switched off, by its codebook or by the operator")
            return Outcome.DISABLED
        if is_expired(metric, now):
            self._tell(metric, "expired", "is past the day in its `expires`: renew that, or remove the call")
            return Outcome.EXPIRED
        return page.codebook, metric, period

    def _refuse_mistake(self, page: Page, name: str, value: object) -> None:
        """A mistake of the app's developer is one whether or not this device collects by the codebook now."""
        metric = page.metric(name)
        if metric is None:
            self._raise_unknown(page, name)
        self._recorded(metric, value)

    def _tell(self, metric: Metric, cause: str, why: str) -> None:
        self._counts.tell_developer(
            f"metric:{cause}:{metric.name}", f"metric {metric.name!r} is not collected: it {why}"
        )

    def _raise_unknown(self, page: Page, name: str) -> NoReturn:
        if page.codebook and name in page.codebook.refused:
            raise UnknownMetric(f"metric {name!r} is not collected: this SDK refuses it, and a newer one may know it")
        word = name[:_LONGEST_WORD] if isinstance(name, str) else ""
        shown = repr(word) if isinstance(name, str) else f"something of type {type(name).__name__}"
        if word not in self._hints and len(self._hints) < _MOST_HINTS:
            names = [metric.name for metric in page.codebook.metrics] if page.codebook else []
            self._hints[word] = did_you_mean(word, names)
        text = f"no metric is named {shown}: {self._hints.get(word) or 'the codebook in force has none like it'}"
        self._counts.warn_once(text, is_raised=self._strict)
        raise UnknownMetric(text)

    def _recorded(self, metric: Metric, value: object) -> Value:
        if metric.values.takes(value):
            return metric.recorded(value)
        text = f"metric {metric.name!r} takes {metric.values.takes_in_words()}, but was given {_kind_of(value)}"
        self._counts.warn_once(text, is_raised=self._strict)
        raise WrongValue(text)

    def _reduce(
        self,
        connection: sqlite3.Connection,
        codebook: Codebook,
        metric: Metric,
        period: Period,
        value: Value,
        at: float,
    ) -> None:
        key = metric.name, period.index
        row = connection.execute("SELECT reduce, state FROM reductions WHERE metric = ? AND period = ?", key).fetchone()
        before = None
        with suppress(ValueError, TypeError):  # a torn row, or a row of another reducer: start over
            before = json.loads(row[1]) if row and row[0] == metric.reduce else None
        if before is not None and metric.reduce == "first":
            return  # another thread was faster
        state = json.dumps(metric.reducer.add(before, value, self._rng))
        if row is not None:
            changed = metric.reduce, state, *key
            connection.execute("UPDATE reductions SET reduce = ?, state = ? WHERE metric = ? AND period = ?", changed)
            return
        closes_at = period.closes_at(codebook.collection.grace)
        values = *key, metric.reduce, state, closes_at, at
        connection.execute("INSERT INTO reductions VALUES (?, ?, ?, ?, ?, ?)", values)

    def _final(self, metric: Metric, decision: Decision | None) -> Outcome:
        """The outcome of a value that comes after a final decision. For a metric that keeps its first value, a later
        one counts as recorded, and changes nothing."""
        if decision is Decision.SPENT and metric.reduce == "first":
            return Outcome.RECORDED
        if why := _WHY_FINAL.get(decision):
            self._tell(metric, decision.value if decision else "off", why)
        return _FINAL[decision]


def _kind_of(value: object) -> str:
    """What was passed, without the value."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124  only NaN differs from itself
        return "NaN"
    return "None" if value is None else f"a value of type {type(value).__name__}"
