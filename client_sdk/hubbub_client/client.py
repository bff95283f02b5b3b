"""The client: what an app calls. Nothing without consent, nothing that could hurt its host."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from hubbub.bundle import Bundle
from hubbub.problems import BundleError, HubbubError
from hubbub.randomness import Randomness, SystemRandomness
from hubbub_client._attendance import Attendance
from hubbub_client._book import Book, is_expired
from hubbub_client._fork import Forkable
from hubbub_client._pace import Pace
from hubbub_client._reports import Outcome, Reports
from hubbub_client._sending import Round, Sending
from hubbub_client._source import BundleSource, trust_anchors
from hubbub_client._state import NoDurableState, State
from hubbub_client.consent import Asking, Consent
from hubbub_client.ledger import Ledger, daily_limit
from hubbub_client.outbox import Outbox
from hubbub_client.transport import CannotReach, HttpTransport, Transport, is_loopback

__all__ = ["Client", "Outcome"]

_MOST_EARLY_VALUES = 1_000


class Client(Forkable):
    """One app on one device. Threads may share it; processes may share its state directory.

    `address` is the shuffler's. `trust` names whose bundles are believed; it may be None for an address on this
    machine only, where the first signer is believed from then on. `consent` is the person's answer, or a function
    that returns it. `max_epsilon` is the most that this device spends in a UTC day, whatever a codebook asks.
    """

    def __init__(
        self,
        address: str,
        *,
        trust: str | Sequence[str] | None,
        consent: bool | Callable[[], bool],
        state_dir: Path | str,
        max_epsilon: float | None = None,
        clock: Callable[[], float] = time.time,
        rng: Randomness | None = None,
        transport: Transport | None = None,
        pace: Pace | None = None,
    ) -> None:
        is_loopback(address)  # refuses what is no address
        self._address, self._clock, self._transport = address, clock, transport
        self._rng = rng or SystemRandomness()
        self._pace = pace or Pace()
        self._consent = Consent(consent, os.environ)
        self._max_epsilon = daily_limit(max_epsilon)
        self._state = State(state_dir)
        self._attendance = Attendance(self._state)
        self._source = BundleSource(self._state, trust_anchors(trust, address))
        self._reports = Reports(self._state, Ledger(self._max_epsilon), self._rng)
        self._sending = Sending(self._state)
        self._book: Book | None = None
        self._refetch = self._closed = False
        self._not_before = 0.0
        self._early: list[tuple[float, str, bool | str | float]] = []
        self._counts: Counter[str] = Counter()
        self._counting, self._flushing = threading.Lock(), threading.Lock()
        self._survive_forks()
        with self._never_raising():
            now = self._clock()
            if self._attend(now):
                self._count_all(self._reports.sweep(now))
                self._read_cached()

    def record(self, name: str, value: object) -> Outcome:
        """Note one value. Never raises, never touches the network, keeps nothing without consent."""
        outcome = Outcome.INVALID
        with self._never_raising():
            try:
                outcome = self._record(name, value, self._clock())
            except NoDurableState:
                outcome = Outcome.NO_DURABLE_STATE
            except HubbubError:
                outcome = Outcome.INVALID
        self._count(outcome.value)
        return outcome

    def flush(self, timeout: float = 10.0, *, now: bool = False) -> bool:
        """Send what is due: True when all of it was delivered or dropped for a stated reason.

        Tries again with growing pauses until `timeout` seconds are over; 0 tries once. `now` also sends what still
        waits for its random delay, which may tell an observer when the value was recorded: for tests and demos.
        """
        with self._flushing, self._never_raising():
            deadline = self._pace.monotonic() + timeout
            with self._carrier(deadline) as transport:
                asking = Asking(transport, lambda: self._attend(self._clock()))
                return self._flush(asking, deadline, hurry=now)
        return False

    def stats(self) -> dict[str, int]:
        """Counters since this client was made: outcomes, verdicts by reason, refused bundles, own errors by type;
        and the number of reports in the outbox."""
        with self._counting:
            counts = dict(self._counts)
        if not self._closed and self._state.exists():
            with self._never_raising(), self._state.reading() as connection:
                counts["outbox"] = Outbox.size(connection)
        return counts

    def close(self) -> None:
        """Let go of the file; from now on nothing is recorded. Sends nothing: the next client's `flush` does."""
        self._closed = True
        with self._flushing, self._never_raising():
            self._state.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._counting, self._flushing = threading.Lock(), threading.Lock()
            self._early.clear()  # the parent records them

    # -- recording ------------------------------------------------------------------------------

    def _attend(self, now: float) -> bool:
        """Whether there is consent now. When the answer changes, what is kept changes with it."""
        given = not self._closed and self._consent.given()
        if not given:
            self._early.clear()
        if not self._closed:
            with nullcontext() if given else self._never_raising():  # without consent there is nothing else to do
                self._attendance.answer(given, now)
        return given

    def _record(self, name: str, value: object, now: float) -> Outcome:
        if not self._attend(now):
            return Outcome.DISABLED
        book = self._book
        if book is None:
            return self._keep_early(name, value, now)
        if now >= book.body.expires:
            return Outcome.EXPIRED
        return self._record_by(book, name, value, at=now, now=now)

    def _record_by(self, book: Book, name: str, value: object, *, at: float, now: float) -> Outcome:
        period = book.calendar.at(at) if book.calendar else None
        page = book.page(period.index) if period else None
        if period is None or page is None or page.codebook is None:
            return Outcome.INVALID  # a later bundle will not change what was collected then
        if not page.affordable:
            return Outcome.OVER_BUDGET
        metric = page.metric(name)
        if metric is None:
            return Outcome.INVALID
        if not metric.enabled:
            return Outcome.DISABLED
        if is_expired(metric, now):
            return Outcome.EXPIRED
        outcome = self._reports.record(page.codebook, metric, period, value, at=at, now=now)
        if outcome is Outcome.DISABLED:
            self._attendance.doubt()
        return outcome

    def _keep_early(self, name: str, value: object, now: float) -> Outcome:
        if not isinstance(value, bool | str | int | float):
            return Outcome.INVALID
        if len(self._early) >= _MOST_EARLY_VALUES:
            self._count("lost:no-room")
            return Outcome.EXPIRED
        self._early.append((now, name, value))
        if not self._attend(now):  # withdrawn, and the list emptied, while this value was on its way into it
            return Outcome.DISABLED
        return Outcome.WAITING

    def _replay_early(self, book: Book, now: float) -> None:
        """Record what came before the codebook, each value at its own time."""
        while (oldest := self._early[:1]) and self._attend(now):
            ((at, name, value),) = oldest
            try:
                outcome = self._record_by(book, name, value, at=at, now=now)
            except HubbubError:
                outcome = Outcome.INVALID
            with suppress(ValueError):  # a withdrawal may have emptied the list meanwhile
                self._early.remove(oldest[0])  # only now: what could not be written stays
            self._count(f"late:{outcome.value}")

    # -- sending --------------------------------------------------------------------------------

    def _flush(self, transport: Transport, deadline: float, *, hurry: bool) -> bool:
        attempt = 0
        while True:
            wait = self._not_before - self._pace.monotonic()
            if wait <= 0:
                if not self._attend(self._clock()):
                    return False
                if self._try_once(transport, hurry=hurry):
                    return True
                backoff = self._pace.backoff(attempt, self._rng)
                wait = max(self._not_before - self._pace.monotonic(), backoff)
                attempt += 1
            if self._pace.monotonic() + wait >= deadline:
                return False
            self._pace.sleep(wait)

    def _try_once(self, transport: Transport, *, hurry: bool) -> bool:
        self._count_all(self._reports.sweep(self._clock()))
        book = self._refreshed(transport)
        now = self._clock()
        if book is None or now >= book.body.expires or not self._attend(now):  # it may have been a long wait
            return False
        self._replay_early(book, now)
        for reason, count in self._reports.settle(book, now).items():
            self._count(f"lost:{reason}", count)
        self._count_all(self._sending.drop_hopeless(book.body))
        sent = self._send(transport, book, now, hurry=hurry)
        if sent.reseal and not sent.retry_after:
            self._refetch = True
            book = self._refreshed(transport)
            if book is not None and self._sending.seal(sent.reseal, book.body):
                sent = self._send(transport, book, now, hurry=hurry)
        return sent.left == 0

    def _send(self, transport: Transport, book: Book, now: float, *, hurry: bool) -> Round:
        sent = self._sending.send(transport, book.body, now, hurry=hurry)
        self._count_all(sent.counts)
        self._leave_alone(sent.retry_after)
        return sent

    def _refreshed(self, transport: Transport) -> Book | None:
        """The book to work by. None when the bundle that is served is refused: then nothing is sent at all."""
        now = self._clock()
        current = self._book or self._read_cached()
        if current is not None and not self._refetch and self._source.is_fresh(current.bundle, now):
            return current
        try:
            bundle = self._source.fetch(transport, current.bundle if current else None, now)
        except CannotReach as error:
            self._count("bundle:CannotReach")
            self._leave_alone(error.retry_after)
            return current
        except BundleError as error:
            self._count(f"bundle:{type(error).__name__}")
            return None
        self._refetch = False
        if current is None or bundle.digest != current.bundle.digest:
            self._open_book(bundle)
        return self._book

    def _read_cached(self) -> Book | None:
        try:
            bundle = self._source.cached()
        except BundleError as error:
            self._count(f"bundle:{type(error).__name__}")
            return None
        if bundle is not None:
            self._open_book(bundle)
        return self._book

    def _open_book(self, bundle: Bundle) -> None:
        self._book = Book.read(bundle, self._max_epsilon)
        for page in self._book.pages:
            if page.codebook is None:
                self._count("codebook:unreadable")
            elif not page.affordable:
                self._count("codebook:over_budget")

    def _leave_alone(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._pace.monotonic() + seconds)

    @contextmanager
    def _carrier(self, deadline: float) -> Iterator[Transport]:
        """The app's transport, or a connection that lasts for this flush only."""
        if self._transport is not None:
            yield self._transport
            return
        # A flush of no length still tries once, with a second for it.
        deadline = max(deadline, self._pace.monotonic() + 1.0)
        with HttpTransport(self._address, deadline=deadline, monotonic=self._pace.monotonic) as transport:
            yield transport

    # -- manners --------------------------------------------------------------------------------

    @contextmanager
    def _never_raising(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  telemetry must not crash its host; the type is kept, never the value
            self._count(f"error:{type(error).__name__}")

    def _count(self, name: str, by: int = 1) -> None:
        with self._counting:
            self._counts[name] += by

    def _count_all(self, counts: Counter[str]) -> None:
        with self._counting:
            self._counts.update(counts)
