"""The cycle: refresh the bundle, settle values, send what is due. The worker runs it, and so does `flush`.

What a cycle sends of metrics with `missing`, and when it fetches the bundle, depends on times, coins and what the
shuffler answered to those requests. It does not depend on what was recorded. So the lane of the other metrics comes
last, and never makes a cycle fetch, pin or wait.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub_client._counters import Kind
from hubbub_client._integrity.torn_rows import delete_torn
from hubbub_client._sending.outbox import Lane, Outbox
from hubbub_client._state.confirm_elapsed import Moment, this_run
from hubbub_client._state.errors import Busy, NoDurableState, WitnessBehind
from hubbub_client._state.expiry import sweep

if TYPE_CHECKING:
    from hubbub_client._budget.ledger import Ledger
    from hubbub_client._codebooks.in_force import CodebooksInForce
    from hubbub_client._codebooks.refresh import Codebooks, Refreshed
    from hubbub_client._consent.gate import ConsentGate
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport import Transport
    from hubbub_client._randomizing.randomize import Randomizer
    from hubbub_client._recording.intake import Intake
    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.cool_down import CoolDown
    from hubbub_client._sending.seal_and_send import Dispatch
    from hubbub_client._sending.sending_coins import Coins
    from hubbub_client._state.database import State

__all__ = ["TICK", "Cycle"]

TICK = 30.0
"""Seconds after which the worker looks at consent and at what was recorded, even if nothing else is due."""
_SHORTEST_SLEEP = 0.5
"""Seconds until the next cycle if something is overdue that could not be done."""
_SHORT_LOG, _LONG_LOG = 8, 1_000
"""Pages. A log longer than the first is emptied when a client starts; longer than the second, by the next cycle."""


@dataclass
class Cycle:
    """What a client does besides recording. One cycle at a time: see `CycleRunner`."""

    state: State
    ledger: Ledger
    gate: ConsentGate
    codebooks: Codebooks
    intake: Intake
    randomizer: Randomizer
    dispatch: Dispatch
    counts: Counts
    coins: Coins
    pace: Pace
    cool_downs: dict[Lane, CoolDown]
    clock: Callable[[], float]
    tick: float = TICK
    cannot_keep: bool = False
    """Whether the state file could not be written at the start: then nothing may be recorded."""
    _started: bool = False
    _unclean: bool = False
    """Whether the log may still hold true values that were deleted."""

    # -- the start ------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the kept state, as soon as there is consent. Once that is done, further calls do nothing."""
        if self._started:
            return
        try:
            if self.gate.may_send():
                self._start(self.clock())
                self._started = True
            self.cannot_keep = False
        except NoDurableState as error:
            self.cannot_keep = not isinstance(error, Busy)
            raise

    def _start(self, now: float) -> None:
        cached = self.codebooks.load()
        for cool_down in self.cool_downs.values():
            cool_down.resume()
        with self.counts.guarding():  # as in a cycle, because what there is to delete depends on what was recorded
            self._sweep(now)
        if cached is not None and cached.bundle is not None:
            self.codebooks.pin(cached, now, fresh=self.codebooks.cache.is_fresh(cached.bundle, now))
        if self.state.log_pages() > _SHORT_LOG:
            self.state.scrub()  # a process was killed, perhaps before it emptied the log
        else:
            with suppress(NoDurableState):  # must not fail the start: whether it runs depends on what was recorded
                self.state.warm()

    # -- one cycle ------------------------------------------------------------------------------

    def run(self, transport: Transport) -> float:
        """One cycle of the worker. Returns the seconds until the next one."""
        if not self.gate.may_send():
            return self.tick
        steady, occasional = (self.cool_downs[lane] for lane in Lane)
        if steady.seconds_left() <= 0:
            done = False
            with self.counts.guarding():
                done = self.send_steady(transport, spread=True) and not self.codebooks.fetch_failed
            steady.succeeded() if done else steady.failed()
        else:
            with self.counts.guarding():
                self.settle_steady()
        with self.counts.guarding():
            if max(occasional.seconds_left(), self._retry_after_left(Lane.OCCASIONAL)) <= 0:
                sent = self.send_occasional(transport)
                if self.codebooks.may_send(self.clock()):
                    occasional.succeeded() if sent else occasional.failed()
            else:
                self.settle_occasional()
        return self._seconds_until_next()

    def settle(self) -> None:
        """One cycle without the network: values that are due are randomized and wait in the outbox."""
        self.settle_steady()
        self.settle_occasional()

    def flush(
        self,
        transport: Transport,
        deadline: float,
        *,
        hurry: bool,
        sleep_unlocked: Callable[[float], None] | None = None,
    ) -> bool:
        """Run cycles, with growing pauses, until no due report is left or the time is over. The steady lane comes
        first, so that the occasional one cannot affect it. While the occasional lane waits, it calls
        `sleep_unlocked`."""
        steady = self._send_until_done(transport, deadline, Lane.STEADY, self.pace.sleep, hurry=hurry)
        self.settle_occasional()  # true values must not wait until the service may be asked again
        occasional = self._send_until_done(
            transport, deadline, Lane.OCCASIONAL, sleep_unlocked or self.pace.sleep, hurry=hurry
        )
        return steady and occasional

    def _send_until_done(
        self, transport: Transport, deadline: float, lane: Lane, sleep: Callable[[float], None], *, hurry: bool
    ) -> bool:
        send = self.send_steady if lane is Lane.STEADY else self.send_occasional
        attempt = 0
        while True:
            wait = self._retry_after_left(lane)
            if wait <= 0:
                if not self.gate.may_send():
                    return False
                if send(transport, hurry=hurry):
                    self.cool_downs[lane].succeeded()
                    return True
                coins = self.coins.of("retry", f"flush {lane.value}", attempt)
                wait = max(self._retry_after_left(lane), self.pace.backoff(attempt, coins))
                attempt += 1
            if self.pace.monotonic() + wait >= deadline:
                return False
            sleep(wait)

    # -- the steady lane ------------------------------------------------------------------------

    def send_steady(self, transport: Transport, *, hurry: bool = False, spread: bool = False) -> bool:
        """Refresh, settle and send everything but the occasional lane. True: no due report is left.

        Steps that only happen where something was recorded are guarded: if one fails, the rest goes on.
        """
        self._sweep_guarded()
        refreshed = self.codebooks.refresh(transport, self.clock(), spread=spread)
        self.cool_downs[Lane.STEADY].note_retry_after(refreshed.retry_after)
        pinned, complete = self._pin_and_settle(refreshed)
        return pinned is not None and self._send(transport, pinned, Lane.STEADY, hurry=hurry) and complete

    def settle_steady(self) -> None:
        """The same without the network: nothing is refreshed or sent."""
        self._sweep_guarded()
        self._pin_and_settle(self.codebooks.known(self.clock()))

    def _pin_and_settle(self, refreshed: Refreshed) -> tuple[CodebooksInForce | None, bool]:
        """The codebooks to send by (None: nothing may be sent), and whether no pin is missing."""
        now = self.clock()
        if not self.gate.may_send() or not self.gate.is_on_file():  # the refresh may have taken long
            return None, False
        if self.codebooks.in_force is not None:
            with self.counts.guarding():
                self.intake.empty(self.codebooks.in_force, now, self.gate.may_send)
        if refreshed.codebooks is None or now >= refreshed.codebooks.expires:
            return None, False
        pinned, complete = self.codebooks.pin(refreshed.codebooks, now, fresh=refreshed.is_fresh)
        self._settle(pinned, Lane.STEADY, now)
        return pinned, complete

    # -- the occasional lane --------------------------------------------------------------------

    def send_occasional(self, transport: Transport, *, hurry: bool = False) -> bool:
        """Settle and send the reports of metrics without `missing`, after the steady lane. True: none that is due is
        left."""
        settled = self.settle_occasional()
        return settled is not None and self._send(transport, settled, Lane.OCCASIONAL, hurry=hurry)

    def settle_occasional(self) -> CodebooksInForce | None:
        """The same without sending. Returns the codebooks to send by; None: nothing may be sent."""
        now, codebooks = self.clock(), self.codebooks.in_force
        if codebooks is None or not self.codebooks.may_send(now) or not self.gate.may_send():
            return None
        try:
            self._settle(codebooks, Lane.OCCASIONAL, now)
        except WitnessBehind:  # not for long: another process is writing the witness, or the next cycle does
            return None
        if self._unclean or self.state.log_pages() > _LONG_LOG:
            self._unclean = not self.state.scrub()  # so that true values are gone from the log, too
        return codebooks

    # -- steps of both --------------------------------------------------------------------------

    def _sweep_guarded(self) -> None:
        with self.counts.guarding():
            self._sweep(self.clock())

    def _sweep(self, now: float) -> None:
        delete_torn(self.state, self.counts)
        swept = sweep(self.state, self.ledger, Moment(now, self.pace.monotonic(), this_run()))
        self._unclean = self._unclean or any(event.kind is Kind.LOST for event in swept)
        self.counts.update(swept)

    def _settle(self, codebooks: CodebooksInForce, lane: Lane, now: float) -> None:
        settled = self.randomizer.settle(codebooks, lane, now)
        self._unclean = settled.values > 0 or self._unclean
        self.counts.update(settled.counts)
        self.counts.update(self.dispatch.drop_unsendable(codebooks, lane))

    def _send(self, transport: Transport, codebooks: CodebooksInForce, lane: Lane, *, hurry: bool) -> bool:
        """Whether no due report is left in the lane."""
        now = self.clock()
        if not self.codebooks.may_send(now):
            return False
        sent = self.dispatch.send(transport, codebooks, lane, now, hurry=hurry)
        self.counts.update(sent.counts)
        self.cool_downs[lane].note_retry_after(sent.retry_after)
        if lane is Lane.STEADY and sent.unknown_key and not sent.retry_after:
            newer = self.codebooks.refetch(transport, self.clock())
            self.cool_downs[Lane.STEADY].note_retry_after(newer.retry_after)
            if newer.codebooks is not None and newer.is_fresh:
                pinned, _ = self.codebooks.pin(newer.codebooks, self.clock(), fresh=True)
                self.counts.update(self.dispatch.drop_unsendable(pinned, lane))
                with self.state.reading() as connection:
                    return not Outbox.due(connection, lane, self.clock(), hurry=hurry)
        return sent.left == 0

    # -- when -----------------------------------------------------------------------------------

    def _retry_after_left(self, lane: Lane) -> float:
        """Seconds left of the pause that the service asked for. A pause asked of the steady lane holds for both."""
        return max(self.cool_downs[one].retry_after_left() for one in {Lane.STEADY, lane})

    def _seconds_until_next(self) -> float:
        """Seconds until the next steady report is due, the period ends, the bundle is stale, or it is time to try
        again.

        The occasional lane goes along with the next cycle and never causes one.
        """
        now = self.clock()
        waits = [self.tick]
        cool_down, codebooks = self.cool_downs[Lane.STEADY], self.codebooks.in_force
        if cool_down.seconds_left() > 0:
            waits.append(cool_down.seconds_left())
        elif codebooks is not None and codebooks.bundle is not None and now < codebooks.expires:
            waits.append(self.codebooks.cache.refresh_at(codebooks.bundle) - now)
        if codebooks is not None and codebooks.calendar is not None:
            waits.append(codebooks.calendar.at(now).end - now)
        with self.state.reading() as connection:
            soonest = Outbox.next_at(connection, Lane.STEADY, now)
        if soonest is not None:
            waits.append(max(soonest - now, cool_down.seconds_left()))
        soon = min(waits)
        return soon if soon > 0 else _SHORTEST_SLEEP

    def queued(self) -> int:
        """How many reports are in the outbox."""
        with self.state.reading() as connection:
            return Outbox.size(connection)
