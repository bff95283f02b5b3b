"""Scripts played by real processes: the operations of `REAL`, as kills, pauses, wrong clocks and a bad network.

The world is that of tests/faults: both services with their storage, proxies between all of them, and devices whose
every report can be told apart in the published counts. An hour of a script is four seconds here. Ticks, drains and
housekeeping happen by themselves, so lines about them are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults.clocks import faketime
from tests.faults.oracle import Judgement
from tests.faults.plan import Plan
from tests.faults.processes import Service
from tests.faults.world import World, running
from tests.world import operations as op
from tests.world.codebooks import PERIOD
from tests.world.generate import script_of

__all__ = ["Played", "plan_of", "play_real"]

SCALE = 4 / PERIOD
"""Seconds here for each second of a script."""
LONGEST, STEP = 8.0, 0.02
"""Seconds: of the longest pause, and of each step after which a process is to die or stop."""
FATES = {
    "lose-request": "reset before",
    "lose-answer": "lose the answer",
    "duplicate": "twice",
    "delay": "delay",
    "cut": "cut the request",
    "odd-answer": "odd answer",
}
"""What a proxy does for each kind; bytes that change are left out, since TCP would notice."""


HEADS = (
    *("storage", "scripts", "operations", "kills", "pauses", "clocks", "requests"),
    *("acknowledged", "counted", "lost", "doubled", "undersized", "other"),
)
OPERATIONS = op.REAL | {"arrive"}
"""Operations and phrases of numbered histories for real processes."""
KILLS = ("crash",) * 14 + ("start",) * 8
"""What comes more often in them."""
CLOCKS = 4
"""In one of so many, clocks are set: services whose clock can be set start slowly."""


@dataclass
class Played:
    """What came of scripts."""

    storage: op.Storage
    scripts: int = 0
    operations: int = 0
    """Those that were carried out."""
    kills: int = 0
    pauses: int = 0
    clocks: int = 0
    requests: int = 0
    """Mistreated on their way."""
    found: Judgement = field(default_factory=Judgement)

    def cells(self) -> list[str]:
        did = (self.scripts, self.operations, self.kills, self.pauses, self.clocks, self.requests)
        found = self.found
        named = {"lost", "doubled", "undersized"}
        other = sum(getattr(found, name) for name in found.BAD if name not in named)
        judged = (found.acknowledged, found.counted, found.lost, found.doubled, found.undersized, other)
        return [self.storage, *(f"{number:,}" for number in (*did, *judged))]


def played_until(
    storage: op.Storage, first: int, kills: int, given: op.Script | None, tell: Callable[[str], None]
) -> Played:
    """Numbered histories, until so many processes were killed; or one script, once."""
    every = Played(storage)
    for number in count(first):
        script = given or script_of(
            number, storage, OPERATIONS - (frozenset(["clock"]) if number % CLOCKS else frozenset()), KILLS
        )
        with TemporaryDirectory(prefix="hubbub-real-") as name:
            one = play_real(script, Path(name))
        for part in fields(Played):
            if isinstance(getattr(one, part.name), int):
                setattr(every, part.name, getattr(every, part.name) + getattr(one, part.name))
        for part in fields(Judgement):
            setattr(every.found, part.name, getattr(every.found, part.name) + getattr(one.found, part.name))
        tell(
            f"{storage}, history {number}: {one.kills} kills, {one.found.acknowledged:,} acknowledged, "
            f"{one.found.counted:,} counted{''.join(f'; {each}' for each in one.found.wrong)}"
        )
        if given is not None or every.kills >= kills:
            return every
    raise AssertionError("there is always another number")


def plan_of(script: op.Script) -> Plan:
    """Processes as the script's world says. Services get clocks of their own only if a line sets one: they start more
    slowly then."""
    world = script.world
    on_redis = world.storage == "redis"
    set_clocks = {each.party[:1] for each in script.operations if isinstance(each, op.SetClock)}
    parties: dict[str, Any] = {"s": "shuffler", "a": "aggregator", "r": "redis"}
    settable = tuple(
        name for letter, name in parties.items() if letter in set_clocks and (letter != "r" or on_redis) and faketime()
    )
    return Plan(
        world.storage,
        world.seed,
        lease=5.0,
        settable=settable,
        shufflers=max(1, world.shufflers),
        aggregators=max(1, world.aggregators) if on_redis else 1,
        bad_network=True,
        senders=6,
        least=5,
    )


def play_real(script: op.Script, folder: Path) -> Played:
    """Play a script; then everything comes to rest and is counted."""
    played = Played(script.world.storage, scripts=1)
    with running(plan_of(script), folder) as world, world.devices as devices:
        for proxy in world.proxies:
            proxy.behave()  # but for what the script says
        devices.wait_for_acknowledgements()
        for operation in script.operations:
            if operation.name in op.REAL and _do(world, operation):
                played.operations += 1
                played.pauses += operation.name == "pause"
                played.clocks += operation.name == "clock"
        for party in world.clocks:
            world.set_clock(party, 0)
        devices.moved.offset = 0
        for service in world.services:
            service.resume()
            if not service.alive:
                service.start()
        for service in world.services:
            service.wait_until_ready()
        devices.wait_for_acknowledgements(3)
        devices.finish()
        played.kills = sum(service.kills for service in world.services)
        played.requests = sum(proxy.mistreated for proxy in world.proxies)
        played.found = world.judge()
    return played


def _do(world: World, operation: op.Operation) -> bool:
    """Carry out one operation; False if it means nothing here."""
    match operation:
        case op.Pass(seconds, end):
            rest = world.next_close() - world.plan.grace - time.time() if end else 0.0
            time.sleep(min(LONGEST, max(0.05, rest + seconds * SCALE)))
        case op.SetClock(party, by):
            return _set_clock(world, party, int(by * SCALE) or (1 if by > 0 else -1))
        case op.Net(hop, kind, times) if kind in FATES:
            _proxy(world, hop).coming.extend([FATES[kind]] * times)
        case op.Crowd(count=size):
            world.devices.crowd(size)
        case op.Replay():
            world.devices.again(sealed_again=False)
        case op.Reseal():
            world.devices.again(sealed_again=True)
        case op.Junk(count=size):
            world.devices.junk(size)
        case op.Crash(party, steps):
            return _strike(world, party, steps, Service.kill)
        case op.Start(party):
            return _strike(world, party, 0, _start)
        case op.Pause(party, steps):
            return _strike(world, party, steps, Service.pause)
        case op.Resume(party):
            return _strike(world, party, 0, Service.resume)
        case _:
            return False
    return True


def _proxy(world: World, hop: str) -> Any:
    """The proxy between these two: the one to the aggregators was made first."""
    return world.proxies[0 if hop == "forward" else 1]


def _set_clock(world: World, party: str, seconds: int) -> bool:
    name: Any = {"s": "shuffler", "a": "aggregator", "r": "redis"}.get(party[:1])
    if name is None:
        world.devices.moved.offset += seconds
        return True
    if name not in world.clocks:
        return False
    world.set_clock(name, seconds)
    return True


def _strike(world: World, party: str, steps: int, blow: Callable[[Service], None]) -> bool:
    kinds = {"s": world.shufflers, "a": world.aggregators}
    services = kinds.get(party[:1])
    if services is None:
        return False  # devices are threads here
    time.sleep(steps * STEP)
    blow(services[int(party[1:] or 0) % len(services)])
    return True


def _start(service: Service) -> None:
    """As a supervisor does, also beside one that stands still: that one is ended first."""
    service.resume()
    if not service.alive:
        service.start()
        service.wait_until_ready()
