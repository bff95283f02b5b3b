"""One cell of the clock table: under load a party's clock is set, for a while, and is right again after that."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import click

from hubbub.bundle import verify
from hubbub_cli.api_client import ask, fetch
from hubbub_service_common.clock.trusted_clock import TOLERANCE
from tests.faults.clocks import offset_text
from tests.faults.devices import TOO_EARLY
from tests.faults.oracle import Judgement, releases
from tests.faults.plan import KEY, Party, Plan
from tests.faults.world import World, running

__all__ = ["OFFSETS", "Cell", "excursion", "excursions", "missing_keys"]

OFFSETS = tuple(sign * size for size in (8, 7_200, 5 * 86_400, 400 * 86_400) for sign in (1, -1))
"""Seconds. The first is within a period and its grace, the second past the horizon of these runs."""
RECOVERY = 180.0
"""Seconds after which devices that do not report again count as silenced."""


@dataclass
class Cell:
    """What one excursion did. None: it did not happen within RECOVERY."""

    party: Party
    offset: int
    plan: Plan
    found: Judgement
    missing: list[int]
    """Periods, counted from the present one, that have no live key after the clock is right."""
    keys_after: float | None
    """Seconds until every open and coming period has a key."""
    reported_after: float | None
    """Seconds until a report was acknowledged (of a device whose clock had been wrong, if it was theirs)."""
    released_after: float | None
    """Seconds until a period that began after the clock was right is released."""
    told: Counter[str]
    """Why reports were not acknowledged while the clock was wrong, and until they were again."""

    HEADS = (
        *("clock of", "set by", "storage", "acknowledged", "counted", "discarded", "lost", "doubled", "other faults"),
        *("keys complete after", "report after", "release after", "devices were told meanwhile"),
    )

    @property
    def holds(self) -> bool:
        came_back = None not in (self.keys_after, self.reported_after, self.released_after)
        # a clock that is seconds ahead closes seconds early; one that is hours ahead must be found out before that
        early = abs(self.offset) > TOLERANCE and self.told[TOO_EARLY] > 0
        return came_back and self.found.holds and not early

    def cells(self) -> list[str]:
        found = self.found
        other = {name: getattr(found, name) for name in found.BAD[2:] if getattr(found, name)}
        seldom = [(TOO_EARLY, self.told[TOO_EARLY])] if self.told[TOO_EARLY] else []
        told = ", ".join(f"{name} {count}" for name, count in dict([*self.told.most_common(4), *seldom]).items())
        after = [_seconds(each) for each in (self.keys_after, self.reported_after, self.released_after)]
        if self.keys_after is None:
            after[0] = f"**never: {_some(self.missing)}**"
        numbers = (found.acknowledged, found.counted, found.discarded, found.lost, found.doubled)
        named = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in other.items())
        return [
            *(self.party, offset_text(self.offset), self.plan.storage, *(f"{n:,}" for n in numbers)),
            *(named or "0", *after, told or "-"),
        ]


def _seconds(found: float | None) -> str:
    return "**never**" if found is None else f"{found:.0f} s"


def _some(periods: list[int]) -> str:
    return ", ".join(f"{period:+d}" for period in periods[:4]) + (", ..." if len(periods) > 4 else "")


def excursion(plan: Plan, folder: Path, party: Party, offset: int, seconds: float) -> Cell:
    """Everything from the start of the processes to the verdict."""
    with running(plan, folder) as world, world.devices as devices:
        devices.wait_for_acknowledgements()
        time.sleep(1.5 * plan.period)
        before = devices.told()
        early = EarlyDiscards(world)
        world.set_clock(party, offset)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            early.look()
            time.sleep(1.0)
        world.set_clock(party, 0)
        since = time.monotonic()
        first = plan.calendar.period(plan.calendar.index_at(time.time()) + 1).label
        crowd = devices.moved if party == "device" else devices.right
        acknowledged = len(crowd.acknowledged_at)
        watched = Watch(since)
        watched.until(
            early.look,
            reported=lambda: len(crowd.acknowledged_at) > acknowledged,
            keys=lambda: not missing_keys(world),
            released=lambda: any(True for _ in releases(world.aggregators[0].address, metric=KEY, **{"from": first})),
        )
        told = devices.told() - before
        missing = missing_keys(world)
        devices.finish()
        after = watched.after
        found = world.judge()
        for period in early.found & {period for metric, period in devices.receipts.fates if metric == KEY}:
            found.fault("discarded_early", f"period {period}, before its grace was over")
        return Cell(
            party, offset, plan, found, missing, after.get("keys"), after.get("reported"), after.get("released"), told
        )


def excursions(
    chosen: Sequence[tuple[Plan, Party, int]], seconds: float, jobs: int, keep: Path | None
) -> Iterator[Cell]:
    """Several cells, each in a world and a process of its own, so many at a time."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        yield from pool.map(_in_a_folder, [(*each, seconds, keep) for each in chosen])


def _in_a_folder(given: tuple[Plan, Party, int, float, Path | None]) -> Cell:
    plan, party, offset, seconds, keep = given
    with tempfile.TemporaryDirectory(prefix="hubbub-faults-") as name:
        folder = Path(name) if keep is None else keep / f"{plan.storage}-{party}{offset_text(offset)}"
        return excursion(plan, folder, party, offset, seconds)


class Watch:
    """Notes after how many seconds each of several things has happened for the first time."""

    def __init__(self, since: float) -> None:
        self._since = since
        self.after: dict[str, float] = {}

    def until(self, meanwhile: Callable[[], None], **conditions: Callable[[], bool]) -> None:
        """All of them, or RECOVERY."""
        while conditions.keys() - self.after.keys() and time.monotonic() - self._since < RECOVERY:
            meanwhile()
            for name, holds in conditions.items():
                if name not in self.after and _now(holds):
                    self.after[name] = time.monotonic() - self._since
            time.sleep(0.5)


class EarlyDiscards:
    """Buckets that are discarded before their time: a clock has closed them while devices still reported."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.found: set[int] = set()

    def look(self) -> None:
        plan = self._world.plan
        now = time.time()
        with suppress(click.ClickException, KeyError):
            for bucket in ask(self._world.aggregators[0].address, "/v1/status")["discarded"]:
                period = plan.calendar.boundary(bucket["period"])
                if bucket["metric"] == KEY and now < plan.closes(period):
                    self.found.add(period)


def _now(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except Exception:  # noqa: BLE001  a service that does not answer has not recovered
        return False


def missing_keys(world: World) -> list[int]:
    """Open and coming periods without a live key in what the services hand out, counted from the present one."""
    plan = world.plan
    coming = max(2, -(-2 * plan.max_age // plan.period))  # as far ahead as the aggregator publishes keys
    missing = set()
    # a shuffler relays what it fetched a while ago: it may not know the newest key yet
    for service, ahead in ((world.aggregators[0], coming), (world.shufflers[0], coming - 1)):
        body = verify(fetch(service.address, "/v1/bundle", accept="*/*"), [world.anchor], time.time()).body
        now = plan.calendar.index_at(time.time())
        oldest = plan.calendar.index_at(time.time() - plan.grace)
        missing |= {period - now for period in range(oldest, now + ahead + 1) if body.key_for(period) is None}
    return sorted(missing)
