"""Faults in a simulated world: time, clocks, processes that die or stand still, storages that fail or are full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.world import operations as op
from tests.world.codebooks import PERIOD
from tests.world.devices import tear
from tests.world.event_loop import acting
from tests.world.handlers import carries_out
from tests.world.site import ShufflerSite

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.process import Process

__all__ = ["give_an_empty_file", "wake"]


@carries_out(op.Pass)
def pass_time(history: History, given: op.Pass) -> None:
    now = history.loop.now
    begin = (now // PERIOD + 1) * PERIOD if given.end else now
    history.loop.pass_to(begin + max(0, given.seconds))


@carries_out(op.SetClock)
def set_clock(history: History, given: op.SetClock) -> None:
    history.oracle.clocks_moved = True
    if given.party == "r":
        history.redis_offset += given.by
    elif given.party.startswith("d"):
        if device := history.device(int(given.party[1:] or 0)):
            device.lives[0].machine.set(given.by)  # twins share it
    else:
        history.site(given.party).machine.set(given.by)


def _processes(history: History, party: str) -> list[Process]:
    if party.startswith("d"):
        device = history.device(int(party[1:] or 0))
        if device is None:
            return []
        device.comparable = False  # a step of one twin is not the same step of the other
        return [process for life in device.lives if (process := life.process) is not None]
    process = history.site(party).up
    return [] if process is None else [process]


@carries_out(op.Crash)
def crash(history: History, given: op.Crash) -> None:
    for process in _processes(history, given.party):
        if given.steps <= 0:
            process.kill()
        else:
            process.dies_in = given.steps
    if given.party.startswith("d") and given.steps <= 0 and (device := history.device(int(given.party[1:] or 0))):
        for life in device.lives:
            life.kill()


@carries_out(op.Start)
def start(history: History, given: op.Start) -> None:
    if not given.party.startswith("d"):
        history.site(given.party).replace()


@carries_out(op.Pause)
def pause(history: History, given: op.Pause) -> None:
    if not given.party.startswith("d"):
        for process in _processes(history, given.party):
            process.stops_in = max(0, given.steps)


@carries_out(op.Resume)
def resume(history: History, given: op.Resume) -> None:
    if not given.party.startswith("d"):
        wake(history, given.party)


def wake(history: History, party: str) -> None:
    """The processes of a machine go on where they stood still, also those that were replaced meanwhile."""
    site = history.site(party)
    for process in [*site.past, *([site.up] if site.up is not None else [])]:
        process.stops_in, process.paused = None, False
        running = [task for task in process.tasks if not task.done()]
        process.tasks = running
        history.drive([(process, task) for task in running])
    for process in site.past:
        process.kill()  # it has done what it had begun; a supervisor ends it
    site.past.clear()


@carries_out(op.Fail)
def fail(history: History, given: op.Fail) -> None:
    for process in _processes(history, given.party):
        process.fails_in, process.fails_done = max(0, given.calls), bool(given.done)


@carries_out(op.Full)
def full(history: History, given: op.Full) -> None:
    if given.party == "r" and history.redis is not None:
        history.redis.set_full(bool(given.on))
    elif given.party.startswith("d"):
        for process in _processes(history, given.party):
            process.full = bool(given.on)
    elif history.redis is None and given.party != "r":
        site = history.site(given.party)
        site.full = bool(given.on)
        if site.up is not None:
            site.up.full = site.full


@carries_out(op.TornPage)
def torn_page(history: History, given: op.TornPage) -> None:
    """Of a device or a shuffler. An aggregator's file is its operator's to restore: `restore` does that."""
    if given.party.startswith("d"):
        if device := history.device(int(given.party[1:] or 0)):
            device.comparable = False  # which page is which depends on what was recorded: the page says so
            device.lives[0].tear(given.page)
    elif history.redis is None and given.party.startswith("s"):
        site = history.site(given.party)
        assert isinstance(site, ShufflerSite)
        assert site.file is not None
        sharing = [each for each in history.shufflers if each.group == site.group]
        for each in sharing:
            each.kill()
        history.oracle.torn.add(site.group)
        tear(site.file, given.page)
        if not all(each.start() for each in sharing) or not _readable(site):
            give_an_empty_file(history, site)


def _readable(site: ShufflerSite) -> bool:
    try:
        with acting(site.up):
            site.storage.blocking.overview()
    except StorageError:
        return False
    return True


def give_an_empty_file(history: History, site: ShufflerSite) -> None:
    """What an operator does about a file that SQLite can't read, as docs/how-to/monitor.md says."""
    sharing = [each for each in history.shufflers if each.group == site.group]
    assert site.file is not None
    for each in sharing:
        each.kill()
    for file in site.file.parent.glob(f"{site.file.name}*"):
        file.unlink()
    for each in sharing:
        each.start()
