"""The client that an app calls. It does nothing without consent, and nothing that could hurt its host."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError
from hubbub_client._counters import Counts, Kind
from hubbub_client._process.at_exit import close_at_exit
from hubbub_client._process.clock_and_entropy import monotonic, wall
from hubbub_client._process.fork import Forkable
from hubbub_client._process.preload_modules import imported
from hubbub_client._sending.worker import Worker
from hubbub_client._state.errors import NoDurableState
from hubbub_client.outcome import Outcome, UnknownMetric, WrongValue

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub.randomness import Randomness
    from hubbub_client._budget.account_statement import Account
    from hubbub_client._display.preview import Preview
    from hubbub_client._http.transport import Transport
    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.sending_coins import Coins

__all__ = ["Client", "Outcome"]

_FIRST_CYCLE_AFTER = 1.0
"""Seconds from the start of an app to the worker's first cycle."""


class Client(Forkable):
    """One app on one device. Threads may share it; processes may share its state directory.

    `address` is the shuffler's. `trust` names the signers whose bundles are accepted. It may be None only for an
    address on this machine; then the first signer is trusted from then on. `consent` is the person's answer, or a
    function that returns it and may be called from any thread. The rest is optional:

    - `codebook`: the file (metrics.toml, or compiled) that ships with the app. Values are recorded by it until the
      first bundle arrives; without it they wait in memory. Nothing is sent before a bundle lists the same metrics.
    - `pin`: id or ids of the only codebooks to use. While another one is in force, nothing is collected.
    - `max_epsilon`, `lifetime_epsilon`: the most that this device spends in a UTC day, and ever, over all metrics and
      codebooks; None for no limit. `min_period`: a codebook with shorter periods is not used.
    - `strict`: raise UnknownMetric and WrongValue instead of only counting them; None: if HUBBUB_STRICT is set. A
      strict client, and one whose shuffler is on this machine, also says on stderr why nothing is collected or sent.
    - `background`: send from a daemon thread, from the start. Without it, call `flush` from a timer of your own,
      never because something was recorded: that could be seen.
    - `ca_file`, `proxy`: for HTTPS with a certificate authority of your own, and for a proxy other than the
      environment's.
    """

    def __init__(
        self,
        address: str,
        *,
        trust: str | Sequence[str] | None,
        consent: bool | Callable[[], bool],
        state_dir: Path | str,
        codebook: Codebook | Path | str | None = None,
        pin: str | Sequence[str] | None = None,
        max_epsilon: float | None = 8.0,
        lifetime_epsilon: float | None = None,
        min_period: str | None = "1h",
        strict: bool | None = None,
        background: bool = True,
        ca_file: Path | str | None = None,
        proxy: str | None = None,
        clock: Callable[[], float] = wall,
        rng: Randomness | None = None,
        coins: Coins | None = None,
        transport: Transport | None = None,
        pace: Pace | None = None,
    ) -> None:
        imported("hubbub_client._assembly")  # here, so that importing the package stays fast
        from hubbub_client._assembly import assemble
        from hubbub_client._budget.device_limits import Limits
        from hubbub_client._consent.consent_and_off_switches import is_set
        from hubbub_client._http.transport import is_loopback
        from hubbub_client._http.transport_choice import Route

        route = Route(address, transport, ca_file, proxy)
        self._strict = is_set(os.environ, "HUBBUB_STRICT") if strict is None else strict
        self._clock, self._counts = clock, Counts(in_development=self._strict or is_loopback(address))
        self._limits = Limits.of(max_epsilon, lifetime_epsilon, min_period, pin)
        parts = assemble(
            route,
            trust=trust,
            consent=consent,
            state_dir=state_dir,
            codebook=codebook,
            limits=self._limits,
            clock=clock,
            rng=rng,
            coins=coins,
            pace=pace,
            counts=self._counts,
            strict=self._strict,
        )
        self._optout, self._gate, self._state, self._intake = parts.optout, parts.gate, parts.state, parts.intake
        self._cycle, self._runner = parts.cycle, parts.runner
        self._closing = self._closed = False
        self._worker = Worker(self._runner.work) if background else None
        self._survive_forks()
        if background:
            close_at_exit(self)
        with self._counts.guarding():
            self._cycle.start()
        if consent is not False:  # with a fixed False there is never anything to do
            self._wake()

    # -- what an app calls ----------------------------------------------------------------------

    def record(self, name: str, value: object) -> Outcome:
        """Record one value. Never raises unless strict, never touches the network, keeps nothing without consent.

        It never waits for the disk. What it writes survives a kill of the app; if the file is busy, the value waits in
        memory.
        """
        outcome = Outcome.INVALID
        mistake: HubbubError | None = None
        with self._counts.guarding():
            try:
                outcome = self._record(name, value, self._clock())
            except NoDurableState as error:
                outcome = Outcome.NO_DURABLE_STATE
                self._counts.warn_once(error.sentence)
            except (UnknownMetric, WrongValue) as error:
                mistake = error if self._strict else None
            except HubbubError:
                outcome = Outcome.INVALID
        self._counts.add(Kind.OUTCOME, outcome.value)
        if mistake is not None:
            raise mistake
        return outcome

    def flush(self, timeout: float = 10.0, *, now: bool = False) -> bool:
        """Send the reports that are due. True: all of them were delivered, or dropped for a stated reason.

        Retries with growing pauses for `timeout` seconds; 0 tries once. `now` also sends reports whose random delay is
        not over. That may tell an observer when the value was recorded, so it is for tests and demos.
        """
        flush = self._runner.flush if self._worker is None else self._runner.flush_in_time
        done = flush(timeout, hurry=now)
        if not done and self._counts.in_development and not self._gate.is_given():
            self._counts.tell_developer("consent", self._gate.why_not())
        return done

    async def aflush(self, timeout: float = 10.0, *, now: bool = False) -> bool:
        """`flush` for an event loop, which keeps running meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.flush, timeout, now=now)

    def close(self, timeout: float = 2.0) -> None:
        """Stop recording, randomize the values that are due, and close the file, within `timeout` seconds.

        With the background thread, reports that are due are also sent once more. The next start sends the rest.
        """
        if self._closed:
            return
        self._closing = True
        deadline = monotonic() + max(timeout, 0.0)
        if self._state.exists():
            finish = self._runner.settle if self._worker is None else self._runner.finish
            finish(max(timeout, 0.0))
        if self._worker is not None:
            self._worker.stop(max(deadline - monotonic(), 0.0))
        self._closed = True
        self._gate.close()
        if waiting := len(self._intake.queue):
            self._counts.add(Kind.LOST, "closed", waiting)
            self._counts.warn_once(
                "values were lost on close: there was no codebook for them, or nothing could be written"
            )
            self._intake.queue.clear()
        with self._counts.guarding():
            self._state.close(max(deadline - monotonic(), 0.0))

    def disable(self) -> bool:
        """Switch off for good: nothing is kept or sent from now on, and what was kept is deleted, except the ledger.

        This holds for every client of this state directory, across restarts and upgrades, until `enable`. True: it is
        on disk. False: it could not be written, and holds for this client only.
        """
        written = self._optout.give()
        with self._counts.guarding():
            self._gate.act_on_opt_out()
        return written

    def enable(self) -> bool:
        """Undo `disable`. This is not consent: `consent` and the environment must still say yes. False: it could not be
        undone."""
        taken_back = self._optout.take_back()
        with self._counts.guarding():
            self._cycle.start()
            self._wake()
        return taken_back

    def stats(self) -> dict[str, int]:
        """Counters since this client was made: outcomes, verdicts by reason, refused bundles, errors of the SDK by
        type. `outbox` is the number of reports in the outbox now."""
        counts = self._counts.snapshot()
        if not self._closed and self._state.exists():
            with self._counts.guarding():
                counts["outbox"] = self._cycle.queued()
        return counts

    def preview(self) -> Preview:
        """Exactly what will be sent, when, and why it does not show what was recorded; and what is collected, or would
        be with consent.

        Before there is consent, that list needs a codebook that came with the app: nothing is fetched without consent.
        """
        from hubbub_client._display.preview import preview_of  # already loaded, by `assemble`

        taking_part = not self._closing and self._gate.is_given()
        return preview_of(self._state, self._cycle.codebooks.questions(), taking_part=taking_part)

    def ledger(self) -> Account:
        """What was spent, on what, and what is left."""
        from hubbub_client._budget.account_statement import account_of  # already loaded, by `assemble`

        return account_of(self._state, self._limits, self._clock())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- recording ------------------------------------------------------------------------------

    def _record(self, name: str, value: object, now: float) -> Outcome:
        """Nothing here may be visible from outside: it wakes no thread, pins no period and draws no coin. It asks for
        consent, but leaves it to the next cycle to act on the answer."""
        if self._closing:
            return Outcome.DISABLED
        if not self._gate.may_record():
            self._counts.tell_developer("consent", self._gate.why_not())
            return Outcome.DISABLED
        if not isfinite(now):
            return Outcome.INVALID
        if self._cycle.cannot_keep:
            return Outcome.NO_DURABLE_STATE
        codebooks = self._cycle.codebooks.in_force
        outcome = self._intake.take(codebooks, name, value, now)
        if len(self._intake.queue):
            if not self._gate.may_record():  # consent was withdrawn while this value was on its way there
                return Outcome.DISABLED
            if codebooks is not None:
                self._intake.empty_a_few(codebooks, now, self._gate.may_record)
        return outcome

    # -- threads and forks --------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake the worker, if there is one. The start of a client, a fork and `enable` do this, never `record`."""
        if self._worker is not None and not self._closing:
            self._worker.wake(_FIRST_CYCLE_AFTER)

    def _after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._counts.forked()
            self._intake.forked()
            self._runner.forked()
            if self._worker is not None:
                runs = self._worker.is_running
                self._worker.forget()
                if runs:
                    self._wake()  # the parent may exit, and a child must report even if it records nothing
