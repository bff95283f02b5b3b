"""Assembly of a client from its parts. Loaded when the first client is made, not when the package is imported."""

from __future__ import annotations

import logging  # noqa: F401  loaded before any thread may need to log: see `preload_modules`
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# Preview and account are loaded with the client, too: a forked child may not be able to import any more.
import hubbub_client._budget.account_statement
import hubbub_client._display.preview  # noqa: F401  as above
from hubbub.randomness import Randomness, SystemRandomness
from hubbub_client._budget.ledger import Ledger
from hubbub_client._codebooks.bundle_fetch_and_cache import BundleCache, trust_anchors
from hubbub_client._codebooks.in_force import packaged
from hubbub_client._codebooks.period_codebook_pins import Pins
from hubbub_client._codebooks.refresh import Codebooks
from hubbub_client._consent.consent_and_off_switches import Consent
from hubbub_client._consent.consent_and_withdrawal import Participation
from hubbub_client._consent.gate import ConsentGate
from hubbub_client._consent.opt_out_file import OptOut
from hubbub_client._randomizing.randomize import Randomizer
from hubbub_client._recording.in_memory_queue import InMemoryQueue
from hubbub_client._recording.intake import Intake
from hubbub_client._sending.backoff import Pace
from hubbub_client._sending.cool_down import CoolDown
from hubbub_client._sending.cycle import Cycle
from hubbub_client._sending.cycle_runner import CycleRunner
from hubbub_client._sending.outbox import Lane
from hubbub_client._sending.seal_and_send import Dispatch
from hubbub_client._sending.sending_coins import Coins, OneStream, SystemCoins
from hubbub_client._state.database import State
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport_choice import Route

__all__ = ["Parts", "assemble"]


class Parts(NamedTuple):
    """The parts of a client that it calls directly."""

    optout: OptOut
    gate: ConsentGate
    state: State
    intake: Intake
    cycle: Cycle
    runner: CycleRunner


def assemble(
    route: Route,
    *,
    trust: str | Sequence[str] | None,
    consent: bool | Callable[[], bool],
    state_dir: Path | str,
    codebook: Codebook | Path | str | None,
    limits: Limits,
    clock: Callable[[], float],
    rng: Randomness | None,
    coins: Coins | None,
    pace: Pace | None,
    counts: Counts,
    strict: bool,
) -> Parts:
    """Build everything that it takes to record and send. Raises InvalidParameter if a setting of the app is wrong."""
    anchors, shipped = trust_anchors(trust, route.address), None
    with suppress(NoDurableState):  # a child that cannot read it reports nothing
        shipped = None if codebook is None else packaged(codebook)
    coins = coins or (SystemCoins() if rng is None else OneStream(rng))
    rng, pace = rng or SystemRandomness(), pace or Pace()
    state, ledger, queue, optout = State(state_dir, clock, counts), Ledger(limits), InMemoryQueue(), OptOut(state_dir)
    answer = Consent(consent, os.environ, optout)
    gate = ConsentGate(answer, Participation(state, optout), state, queue, counts, clock)
    intake = Intake(state, ledger, rng, counts, queue, strict=strict)
    codebooks = Codebooks(
        cache=BundleCache(state, anchors, coins),
        pins=Pins(state, ledger, limits, coins),
        limits=limits,
        counts=counts,
        address=route.address,
        shipped=shipped,
    )
    cycle = Cycle(
        state=state,
        ledger=ledger,
        gate=gate,
        codebooks=codebooks,
        intake=intake,
        randomizer=Randomizer(state, ledger, rng, coins),
        dispatch=Dispatch(state),
        counts=counts,
        coins=coins,
        pace=pace,
        cool_downs={lane: CoolDown(state, pace, clock, coins, lane) for lane in Lane},
        clock=clock,
    )
    runner = CycleRunner(route, cycle, pace, counts)
    return Parts(optout, gate, state, intake, cycle, runner)
