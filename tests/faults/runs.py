"""Runs that break things while devices report: kills, stops, a bad network. All choices come from the seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.faults.oracle import Judgement
from tests.faults.plan import Plan
from tests.faults.processes import Service
from tests.faults.world import World, running
from tests.support.patience import wait_for

__all__ = ["Row", "Strike", "kill", "proxy", "redis", "stop", "strikes"]

AT_THE_CLOSE = 0.6
"""Share of the faults that are aimed at the moment in which a bucket closes and its batches leave."""
AIM = -0.1, 1.3
"""Seconds around a close."""
LONGEST = 3_600.0
"""Seconds after which no run goes on."""

Target: TypeAlias = Literal["shuffler", "aggregator", "both"]


@dataclass(frozen=True)
class Strike:
    """One fault: whom it meets, when, and how long it lasts (as a share of the longest)."""

    target: Target
    at_the_close: bool
    when: float
    lasting: float
    in_peace: bool
    """Whether it waits until devices are served again; else it may meet a service that has not come up yet."""


@dataclass
class Row:
    """What a run says."""

    name: str
    plan: Plan
    events: str
    found: Judgement

    def cells(self) -> list[str]:
        found = self.found
        numbers = (found.acknowledged, found.counted, found.unsure, found.discarded)
        bad = (getattr(found, name) for name in found.BAD)
        return [self.name, self.plan.storage, self.events, *(f"{n:,}" for n in (*numbers, *bad))]

    HEADS = (
        *("fault", "storage", "events", "acknowledged", "counted", "unsure", "discarded"),
        *(name.replace("_", " ") for name in Judgement.BAD),
    )


def strikes(seed: int) -> Iterator[Strike]:
    """The faults of a run, one after the other."""
    rng = random.Random(f"strikes {seed}")
    while True:
        target: Target = rng.choice(("shuffler", "aggregator", "both"))
        aimed = rng.random() < AT_THE_CLOSE
        when = rng.uniform(*AIM) if aimed else rng.uniform(0.1, 2.0)
        yield Strike(target, aimed, when, rng.random(), in_peace=rng.random() < 0.8)


def _wait_for_its_time(world: World, strike: Strike) -> None:
    if strike.in_peace:
        acknowledged = world.devices.right.acknowledged_at
        enough = len(acknowledged) + 10

        def served() -> bool:
            world.revive()
            return len(acknowledged) >= enough

        wait_for(served)
    if not strike.at_the_close:
        time.sleep(strike.when)
        return
    closes = world.next_close()
    if closes + strike.when < time.time():
        closes += world.plan.period
    time.sleep(max(0.0, closes + strike.when - time.time()))


def _met(world: World, strike: Strike, turn: int) -> list[Service]:
    """One of each kind that is meant, in turn."""
    kinds = {"shuffler": [world.shufflers], "aggregator": [world.aggregators]}
    return [kind[turn % len(kind)] for kind in kinds.get(strike.target, [world.shufflers, world.aggregators])]


def kill(plan: Plan, folder: Path, kills: int) -> Row:
    """kill -9 of services, one at a time or both at once, until each kind was killed this often."""
    with running(plan, folder) as world, world.devices as devices:

        def fewest() -> int:
            return min(sum(each.kills for each in kind) for kind in (world.shufflers, world.aggregators))

        devices.wait_for_acknowledgements()
        until = time.monotonic() + LONGEST
        for turn, strike in enumerate(strikes(plan.seed)):
            if fewest() >= kills:
                break
            assert time.monotonic() < until, "the run takes too long"
            _wait_for_its_time(world, strike)
            met = _met(world, strike, turn)
            for service in met:
                service.kill()
            time.sleep(strike.lasting * 0.5)
            for service in met:
                service.start()
            world.revive()
        devices.finish()
        found = world.judge()
        killed = [sum(each.kills for each in kind) for kind in (world.shufflers, world.aggregators)]
        return Row("kill -9", plan, f"{killed[0]} shuffler + {killed[1]} aggregator", found)


def stop(plan: Plan, folder: Path, stops: int) -> Row:
    """SIGSTOP of a service for up to several leases, so that it comes back as one that has been replaced."""
    events = 0
    with running(plan, folder) as world, world.devices as devices:
        devices.wait_for_acknowledgements()
        for turn, strike in zip(range(stops), strikes(plan.seed), strict=False):
            _wait_for_its_time(world, strike)
            met = _met(world, strike, turn)
            for service in met:
                service.pause()
            time.sleep(0.5 + strike.lasting * 3 * plan.lease)
            for service in met:
                service.resume()
            events += len(met)
            world.revive()
        devices.finish()
        return Row("SIGSTOP up to three leases", plan, str(events), world.judge())


def redis(plan: Plan, folder: Path, events: int) -> Row:
    """Redis servers are killed (and are back after up to four seconds), stand still for up to eight, or cut all
    connections; services are killed meanwhile."""
    rng = random.Random(f"redis {plan.seed}")
    did: Counter[str] = Counter()
    with running(plan, folder) as world, world.devices as devices:
        devices.wait_for_acknowledgements()
        for turn, strike in zip(range(events), strikes(plan.seed), strict=False):
            _wait_for_its_time(world, strike)
            what, server = rng.choice(("kill", "stop", "cut", "service")), rng.choice(world.redis)
            did[what] += 1
            if what == "kill":
                server.stop()
                time.sleep(strike.lasting * 4)
                server.start()
            elif what == "stop":
                server.pause()
                time.sleep(0.5 + strike.lasting * 7.5)
                server.resume()
            elif what == "cut":
                with closing(server.client()) as client:
                    client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            else:
                for service in _met(world, strike, turn):
                    service.kill()
                    service.start()
            world.revive()
        devices.finish()
        events_text = ", ".join(f"{did[what]} {what}" for what in ("kill", "stop", "cut", "service"))
        return Row("Redis away", plan, events_text, world.judge())


def proxy(plan: Plan, folder: Path, requests: int) -> Row:
    """A bad network on both ways, until so many requests were mistreated."""
    with running(plan, folder) as world, world.devices as devices:
        to_aggregator, to_shuffler = world.proxies
        wait_for(lambda: to_aggregator.mistreated + to_shuffler.mistreated >= requests, patience=LONGEST, step=0.2)
        devices.finish()
        found = world.judge()
        events = f"{to_shuffler.mistreated:,} of devices, {to_aggregator.mistreated:,} between services"
        return Row("bad network", plan, events, found)
