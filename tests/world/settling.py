"""The end of a history: the faults are over, and within `ROUNDS` ticks everything settles and adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT, TOLERANCE
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.world.codebooks import PERIOD
from tests.world.event_loop import acting
from tests.world.fault_operations import give_an_empty_file, wake
from tests.world.final_oracle import accounted, estimates, in_the_ledger, never_unknown, settled
from tests.world.oracle import Wrong

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.site import ShufflerSite

__all__ = ["ROUNDS", "finish"]

WAIT = LONGEST_WAIT - TOLERANCE
"""Seconds after which a clock that nothing speaks against is believed, even if it is wrong."""
ROUNDS = 60
"""Ticks of every service within which everything settles, once the faults are over."""


def finish(history: History) -> None:
    """The faults end. Everything settles within ROUNDS ticks, and then all must add up."""
    _end_faults(history)
    history.check()
    for site in _groups(history):
        if site.group in history.oracle.torn:
            try:
                _overview(site)
            except StorageError:
                give_an_empty_file(history, site)
    for number in range(ROUNDS):
        _round(history)
        if _settled(history):
            break
        _wait(history, number)
    else:
        raise Wrong("unsettled", _left(history))
    _keys(history)
    _add_up(history)


def _end_faults(history: History) -> None:
    for faults in history.faults.values():
        faults.coming.clear()
    for device in history.devices:
        for life in device.lives:
            life.faults.coming.clear()
            if life.process is not None:
                life.process.dies_in = life.process.fails_in = None
                life.process.full = False
            life.machine.set(-life.machine.offset)
    history.hostile.clear()
    history.redis_offset = 0.0
    if history.redis is not None:
        history.redis.set_full(False)
    for site in history.sites():
        site.machine.set(-site.machine.offset)
        site.full = False
        for process in [*site.past, *([site.up] if site.up is not None else [])]:
            process.dies_in = process.fails_in = process.stops_in = None
            process.full = False
        wake(history, site.name)
        if not site.start():
            raise Wrong("unsettled", f"{site.name} does not start although nothing is wrong any more")


def _round(history: History) -> None:
    for aggregator in history.aggregators:
        history.house(aggregator)
    for shuffler in history.shufflers:
        history.refresh(shuffler)
        history.tick(shuffler)
    for aggregator in history.aggregators:
        history.drain(aggregator)
    history.check()


def _wait(history: History, number: int) -> None:
    """Until something can be due: a verdict after seconds, a bucket when it closes."""
    now = history.loop.now
    soon = min(_waiting(history), default=0.0)
    if number % 4 < 2:
        history.loop.pass_to(now + 61.0)
    elif soon > now:
        history.loop.pass_to(soon + 1.0)
    else:
        history.loop.pass_to(now + 900.0)


def _waiting(history: History) -> list[float]:
    """When the buckets close of which anything is on its way."""
    found: list[float] = []
    for site in _groups(history):
        overview = _overview(site)
        found += [float(bucket.closes_at) for bucket in overview.waiting]
        if any(overview.batches.values()) or overview.held:
            found.append(history.loop.now)
    return found


def _groups(history: History) -> list[ShufflerSite]:
    """One shuffler of each storage."""
    return list({site.group: site for site in history.shufflers}.values())


def _overview(site: ShufflerSite) -> Any:
    with acting(site.up):
        return site.storage.blocking.overview()


def _settled(history: History) -> bool:
    with acting(history.aggregators[0].up):
        pending = history.aggregators[0].service.storage.pending()
    return not _waiting(history) and not pending


def _left(history: History) -> str:
    found = [f"{site.name}: {_overview(site)}" for site in _groups(history)]
    with acting(history.aggregators[0].up):
        found.append(f"{len(history.aggregators[0].service.storage.pending())} batches have no verdict")
    return "; ".join(found)


def _keys(history: History) -> None:
    """The present period and the coming ones have a key, or had one that was revoked too late to be replaced."""
    for site in history.aggregators:
        history.house(site)
    period = int(history.loop.now // PERIOD)
    with acting(history.aggregators[0].up):
        service = history.aggregators[0].service
        keys = service.storage.sealing_keys()
        for each in range(period, period + service.ring.ahead + 1):
            if not any(key.covers(each) for key in keys):
                raise Wrong("no-key", f"period {each - period:+d} has no key")


def _add_up(history: History) -> None:
    for site in _groups(history):
        accounted(history.oracle, site.group, _overview(site).counts)
    if all(site.machine.longest < WAIT for site in history.sites()):
        for site in _groups(history):
            never_unknown(history.oracle, site.group, _overview(site).counts)
    with acting(None):
        history.as_nobody(history.aggregators[0], lambda storage: _reckon(history, storage))


def _reckon(history: History, storage: Any) -> None:
    oracle = history.oracle
    batches = {id_: batch for id_ in oracle.forwarded if (batch := storage.batch(id_)) is not None}
    settled(oracle, batches)
    in_the_ledger(oracle, storage)
    estimates(oracle, storage)
