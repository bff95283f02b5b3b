"""One pass: a fresh bundle, periods pinned, values settled, what is due sent. For `flush`, which insists, and for the
worker.

What a pass sends of metrics with `missing`, and when it fetches the bundle, depends on times, coins and answers that it
had for them, and on nothing that was recorded. So the lane of the others comes after it, and never makes a pass fetch,
pin or wait.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.problems import BundleError
from hubbub_client._codebooks.in_force import CodebooksInForce
from hubbub_client._consent.participation import enabled_since
from hubbub_client._counters import Kind
from hubbub_client._http.transport import CannotReach
from hubbub_client._integrity.torn_rows import delete_torn
from hubbub_client._sending.outbox import Lane, Outbox
from hubbub_client._state.clock_confirmation import Moment, this_run
from hubbub_client._state.errors import NoDurableState, WitnessBehind

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub.codebook import Codebook
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._codebooks.bundle_cache import BundleCache
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport import Transport
    from hubbub_client._randomizing.randomize import Randomizer
    from hubbub_client._randomizing.sampling_coins import Coins
    from hubbub_client._recording.intake import Intake
    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.cool_down import CoolDown
    from hubbub_client._sending.dispatch import Dispatch, Round
    from hubbub_client._state.database import State

__all__ = ["TICK", "Cycle"]

TICK = 30.0
"""Seconds between two looks of the worker at consent and at what was recorded, whatever else there is to do."""
_SHORTEST_SLEEP = 0.5
"""Where something is overdue and could not be done."""
_SHORT_LOG, _LONG_LOG = 8, 1_000
"""Pages. A log longer than this is emptied at the start, and at the next pass."""


@dataclass
class Cycle:
    """What a client does besides recording. One pass at a time: the client sees to that."""

    state: State
    bundle_cache: BundleCache
    intake: Intake
    randomizer: Randomizer
    dispatch: Dispatch
    counts: Counts
    limits: Limits
    coins: Coins
    pace: Pace
    cool_downs: dict[Lane, CoolDown]
    clock: Callable[[], float]
    attend: Callable[[], bool]
    """Whether there is consent, now."""
    doubt: Callable[[], None]
    """Hears that the file says otherwise."""
    tick: float = TICK
    book: CodebooksInForce | None = None
    """What values are recorded by."""
    _refetch: bool = False
    _no_bundle: bool = False
    """Whether the last attempt to get a bundle failed."""
    _distrusted: bool = False
    """Whether the last bundle that was served was refused."""
    _unclean: bool = False
    """Whether the log may still hold true values that were deleted."""

    # -- the book -------------------------------------------------------------------------------

    def start(self, codebook: Codebook | None) -> None:
        """Begin with the cached bundle, or else with the codebook that came with the app."""
        now = self.clock()
        if codebook is not None:
            self.bundle_cache.package(codebook)
        cached = self._read_cached()
        if cached is None and codebook is not None:
            self._open(CodebooksInForce.before_any_bundle(codebook, self.limits))
        for cool_down in self.cool_downs.values():
            cool_down.resume()
        with self.counts.guarding():  # as in a pass: what there is to delete depends on what was recorded
            self._sweep(now)
        if cached is not None and cached.bundle is not None:
            self._pin(cached, now, fresh=self.bundle_cache.is_fresh(cached.bundle, now))
        if self.state.log_pages() > _SHORT_LOG:
            self.state.scrub()  # someone was killed, perhaps before this was done
        else:
            with suppress(NoDurableState):  # whether it is called depends on what was recorded
                self.state.warm()

    def _read_cached(self) -> CodebooksInForce | None:
        try:
            bundle = self.bundle_cache.cached()
        except BundleError as error:
            self._refused(error)
            return None
        return None if bundle is None else self._open_bundle(bundle)

    def _open_bundle(self, bundle: Bundle) -> CodebooksInForce:
        pins = self.book.pins if self.book is not None else {}
        return self._open(replace(CodebooksInForce.read(bundle, self.limits), pins=pins))

    def _open(self, book: CodebooksInForce) -> CodebooksInForce:
        self.book = book
        for page in book.pages:
            if page.codebook is None:
                self.counts.add(Kind.CODEBOOK, "unreadable")
            elif page.refusal is not None:
                self.counts.add(Kind.CODEBOOK, page.refusal)
                self.counts.say(f"a codebook is not used, as this device does not allow it: {page.refusal}")
        return book

    def _refused(self, error: BundleError) -> None:
        self.counts.add(Kind.BUNDLE, type(error).__name__)
        self.counts.say(f"a bundle is refused, so nothing is sent: {type(error).__name__}")

    def _refreshed(self, transport: Transport, *, rested: bool, spread: bool) -> tuple[CodebooksInForce | None, bool]:
        """The book to send by, and whether its bundle is fresh. None when there is none, or the bundle that is served
        is refused: then nothing is sent at all."""
        now = self.clock()
        current = self.book if self.book is not None and self.book.bundle is not None else self._read_cached()
        bundle = current.bundle if current is not None else None
        if bundle is not None and not self._refetch and self.bundle_cache.is_fresh(bundle, now, spread=spread):
            return current, self.bundle_cache.is_fresh(bundle, now)
        if not rested:
            return current, False
        self._no_bundle = True
        try:
            fetched = self.bundle_cache.fetch(transport, bundle, now)
        except CannotReach as error:
            self.counts.add(Kind.BUNDLE, "CannotReach")
            self.cool_downs[Lane.STEADY].asked(error.retry_after)
            return current, False
        except BundleError as error:
            self._refused(error)
            self._distrusted = True
            return None, False
        self._refetch = self._no_bundle = self._distrusted = False
        if bundle is None or fetched.digest != bundle.digest:
            return self._open_bundle(fetched), True
        return current, True

    def _pin(self, book: CodebooksInForce, now: float, *, fresh: bool) -> tuple[CodebooksInForce, bool]:
        """The book with its pins, and whether none is missing."""
        self.book, complete = self.randomizer.pin(book, now, fresh=fresh)
        return self.book, complete

    # -- passes ---------------------------------------------------------------------------------

    def flush(
        self, transport: Transport, deadline: float, *, hurry: bool, aside: Callable[[float], None] | None = None
    ) -> bool:
        """Pass after pass, with growing pauses, until nothing that is due is left or the time is over; the steady lane
        first, so that the other one has no part in it. While that one rests, it does so `aside`."""
        steady = self._insist(transport, deadline, Lane.STEADY, self.pace.sleep, hurry=hurry)
        self.occasional(transport, rested=False)  # true values do not wait until the service may be asked again
        occasional = self._insist(transport, deadline, Lane.OCCASIONAL, aside or self.pace.sleep, hurry=hurry)
        return steady and occasional

    def _insist(
        self, transport: Transport, deadline: float, lane: Lane, sleep: Callable[[float], None], *, hurry: bool
    ) -> bool:
        attempt = 0
        while True:
            wait = self._until_asked(lane)
            if wait <= 0:
                if not self.attend():
                    return False
                if self._attempt(transport, lane, hurry=hurry):
                    self.cool_downs[lane].succeeded()
                    return True
                coins = self.coins.of("retry", f"flush {lane.value}", attempt)
                wait = max(self._until_asked(lane), self.pace.backoff(attempt, coins))
                attempt += 1
            if self.pace.monotonic() + wait >= deadline:
                return False
            sleep(wait)

    def _attempt(self, transport: Transport, lane: Lane, *, hurry: bool) -> bool:
        """One try of a `flush`: whether nothing that is due is left in the lane."""
        if lane is Lane.STEADY:
            return self.steady(transport, hurry=hurry)
        return self.occasional(transport, hurry=hurry)

    def background(self, transport: Transport) -> float:
        """One pass of the worker's. Returns the seconds until the next one is worth while."""
        if not self.attend():
            return self.tick
        steady, occasional = (self.cool_downs[lane] for lane in Lane)
        rested, done = steady.left() <= 0, False
        with self.counts.guarding():
            done = self.steady(transport, rested=rested, spread=True) and not self._no_bundle
        if rested:
            steady.succeeded() if done else steady.failed()
        with self.counts.guarding():
            may = max(occasional.left(), self._until_asked(Lane.OCCASIONAL)) <= 0
            sent = self.occasional(transport, rested=may)
            if may and self._may_send():
                occasional.succeeded() if sent else occasional.failed()
        return self._pause()

    def steady(self, transport: Transport, *, hurry: bool = False, rested: bool = True, spread: bool = False) -> bool:
        """Everything but the occasional lane: whether nothing that is due is left. Not `rested`: only what needs no
        network.

        What is only done where something was recorded is guarded: if it fails, the rest goes on.
        """
        with self.counts.guarding():
            self._sweep(self.clock())
        book, fresh = self._refreshed(transport, rested=rested, spread=spread)
        now = self.clock()
        if not self.attend() or not self._is_on_file():  # it may have been a long wait
            return False
        if self.book is not None:
            with self.counts.guarding():
                self.intake.empty(self.book, now, self.attend)
        if book is None or now >= book.expires:
            return False
        book, complete = self._pin(book, now, fresh=fresh)
        self._settle(book, Lane.STEADY, now)
        return rested and self._send(transport, book, Lane.STEADY, hurry=hurry) and complete

    def occasional(self, transport: Transport, *, hurry: bool = False, rested: bool = True) -> bool:
        """What metrics without `missing` have to say, after a pass of the steady lane: whether nothing is left."""
        if not self._may_send() or self.book is None or not self.attend():
            return False
        try:
            self._settle(self.book, Lane.OCCASIONAL, self.clock())
        except WitnessBehind:  # for as long as another process needs to write one small file, or until the next pass
            return False
        if self._unclean or self.state.log_pages() > _LONG_LOG:
            self._unclean = not self.state.scrub()  # true values are gone from the log, too
        return rested and self._send(transport, self.book, Lane.OCCASIONAL, hurry=hurry)

    def _is_on_file(self) -> bool:
        """Whether the file, too, says that there is consent. Another process may have heard otherwise: then the answer
        is written down again."""
        with self.state.reading() as connection:
            if enabled_since(connection) is not None:
                return True
        self.doubt()
        return self.attend()

    def _settle(self, book: CodebooksInForce, lane: Lane, now: float) -> None:
        settled = self.randomizer.settle(book, lane, now)
        self._unclean = settled.values > 0 or self._unclean
        self.counts.update(settled.counts)
        self.counts.update(self.dispatch.drop_hopeless(book, lane))

    def _send(self, transport: Transport, book: CodebooksInForce, lane: Lane, *, hurry: bool = False) -> bool:
        """Whether nothing that is due is left in the lane."""
        if not self._may_send():
            return False
        sent = self._sent(transport, book, lane, hurry=hurry)
        if lane is Lane.STEADY and sent.unknown_key and not sent.retry_after:
            self._refetch = True
            newer, fresh = self._refreshed(transport, rested=True, spread=False)
            if newer is not None and fresh:
                newer, _ = self._pin(newer, self.clock(), fresh=fresh)
                self.counts.update(self.dispatch.drop_hopeless(newer, lane))
                with self.state.reading() as connection:
                    return not Outbox.due(connection, lane, self.clock(), hurry=hurry)
        return sent.left == 0

    def _sent(self, transport: Transport, book: CodebooksInForce, lane: Lane, *, hurry: bool) -> Round:
        sent = self.dispatch.send(transport, book, lane, self.clock(), hurry=hurry)
        self.counts.update(sent.counts)
        self.cool_downs[lane].asked(sent.retry_after)
        return sent

    def _may_send(self) -> bool:
        """Nothing is sent without a bundle, or by one that has expired, or after one that was refused."""
        book = self.book
        return book is not None and book.bundle is not None and self.clock() < book.expires and not self._distrusted

    def queued(self) -> int:
        """How many reports are in the outbox."""
        with self.state.reading() as connection:
            return Outbox.size(connection)

    def _until_asked(self, lane: Lane) -> float:
        """Seconds for which the service asked to be left alone. Asked of the steady lane, it holds for both."""
        return max(self.cool_downs[one].until_asked() for one in {Lane.STEADY, lane})

    def _sweep(self, now: float) -> None:
        delete_torn(self.state, self.counts)
        swept = self.randomizer.sweep(Moment(now, self.pace.monotonic(), this_run()))
        self._unclean = self._unclean or any(event.kind is Kind.LOST for event in swept)
        self.counts.update(swept)

    def _pause(self) -> float:
        """Until the next steady report is due, the period ends, the bundle is stale, or it is time to try again.

        The occasional lane is looked at by whatever pass comes next: it makes none of its own.
        """
        now = self.clock()
        waits = [self.tick]
        cool_down, book = self.cool_downs[Lane.STEADY], self.book
        if cool_down.left() > 0:
            waits.append(cool_down.left())
        elif book is not None and book.bundle is not None and now < book.expires:
            waits.append(self.bundle_cache.refresh_at(book.bundle) - now)
        if book is not None and book.calendar is not None:
            waits.append(book.calendar.at(now).end - now)
        with self.state.reading() as connection:
            soonest = Outbox.next_at(connection, Lane.STEADY, now)
        if soonest is not None:
            waits.append(max(soonest - now, cool_down.left()))
        soon = min(waits)
        return soon if soon > 0 else _SHORTEST_SLEEP
