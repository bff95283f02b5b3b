"""One history: the operations of a script happen in a world, one after another, and the oracle judges each step."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.world import (
    device_operations,
    fault_operations,
    operator_operations,
    sender_operations,
    service_operations,
    settling,
)
from tests.world import operations as op
from tests.world.codebooks import EDITS, GRACE, HORIZON, PERIOD, START, book, write_codebook
from tests.world.devices import Device, KeyedCoins, Life
from tests.world.event_loop import PROCESS, Busy, Idle, WorldLoop, acting
from tests.world.handlers import HANDLERS
from tests.world.network import Faults
from tests.world.oracle import Oracle, Wrong
from tests.world.process import Killed, Machine, Process, close_files_in
from tests.world.seams import InlinePool, seams
from tests.world.site import AggregatorSite, ShufflerSite
from tests.world.transmission import forward, from_device

if TYPE_CHECKING:
    from tests.world.redis_in_world import WorldRedis

__all__ = ["History", "play"]

_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  a folder of its own in it
"""Where a world's files are: no power cut is simulated, so nothing need wait for a disk."""
_MODULES = device_operations, fault_operations, operator_operations, sender_operations, service_operations
"""Loaded for their handlers."""


def play(script: op.Script, redis: WorldRedis | None = None) -> History:
    """Live through a script, and through the time after it until everything has settled. `Wrong` if something is."""
    history = History(script.world, redis)
    try:
        for number, operation in enumerate(script.operations):
            history.at = number
            history.do(operation)
        history.at = len(script.operations)
        settling.finish(history)
    except Busy as error:
        raise Wrong("busy", str(error)) from error
    finally:
        history.close()
    return history


class History:
    """A world as it is now."""

    def __init__(self, world: op.World, redis: WorldRedis | None) -> None:
        self.world, self.at = world, 0
        self.loop = WorldLoop(random.Random(f"order {world.seed}"), START)
        self._tasks: list[Any] = []
        self.loop.set_task_factory(self._task)
        self.rng = random.Random(f"values {world.seed}")
        self.oracle = Oracle(is_over=self._is_over)
        self.trace = hashlib.sha256()
        """Of everything that is sent: equal for two runs of one script."""
        self._stack = ExitStack()
        self.home = Path(tempfile.mkdtemp(prefix="hubbub-world-", dir=_MEMORY))
        self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
        self.redis = redis if world.storage == "redis" else None
        self.redis_offset = 0.0
        if world.storage == "redis":
            assert redis is not None, "a world on Redis needs a server"
            redis.reset(lambda: self.loop.now + self.redis_offset)
        self._stack.enter_context(seams(self.loop, world.seed, self.oracle.sealed, self.redis))
        logging.disable(logging.CRITICAL)
        self._stack.callback(logging.disable, logging.NOTSET)
        for edit in range(len(EDITS)):
            for metric in book(edit).metrics:
                self.oracle.learn(metric, metric.min_batch or 2)
        self.faults = {"up": Faults(), "forward": Faults()}
        self.delayed: list[Callable[[], Coroutine[Any, Any, Any]]] = []
        self.sent: list[bytes] = []
        """Bodies of uploads that left a device."""
        self.hostile: dict[int, str] = {}
        self.backups: dict[int, Path] = {}
        self.wrong: Wrong | None = None
        """What the oracle said in the middle of a step."""
        self.gone_back: set[int] = set()
        """Aggregators that were restored, and that the oracle has not looked at since."""
        self.aggregators: list[AggregatorSite] = []
        self.shufflers: list[ShufflerSite] = []
        self.devices: list[Device] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _task(self, loop: Any, coroutine: Any, **named: Any) -> Any:
        task = asyncio.Task(coroutine, loop=loop, **named)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # those of dead processes never end
        self._tasks.append(task)
        return task

    def _open(self) -> None:
        world, home = self.world, self.home
        on_redis = self.redis
        count = world.aggregators if on_redis is not None else 1
        codebook = write_codebook(home / "codebook.json")
        pool = InlinePool(self.oracle.opens)
        for number in range(max(1, count)):
            self.aggregators.append(
                AggregatorSite(number, self.loop, world.seed, home / f"a{number}", codebook, on_redis, pool)
            )
        for number in range(max(1, world.shufflers)):
            directory = home / f"s{number}"
            directory.mkdir()
            file = None if on_redis is not None else (home / "s0" if world.shared else directory) / "reports.sqlite"
            self.shufflers.append(
                ShufflerSite(
                    number,
                    self.loop,
                    world.seed,
                    directory,
                    file,
                    on_redis,
                    lambda number, request: forward(self, number, request),
                    self.oracle.claims,
                )
            )
        for site in self.sites():
            if not site.start():
                raise Wrong("died", f"{site.name} does not start")
        self.devices += [self._device(number) for number in range(world.devices)]
        for aggregator in self.aggregators:
            self.house(aggregator)
        for shuffler in self.shufflers:
            self.refresh(shuffler)

    def _device(self, number: int) -> Device:
        machine = Machine(f"d{number}", self.loop)
        lives = []
        for twin in (0, 1):
            seed = f"{self.world.seed} d{number} {twin}"
            name = f"d{number}" + "'" * twin
            coins = KeyedCoins(f"{self.world.seed} d{number}", twin)
            lives.append(
                Life(
                    name,
                    machine,
                    self.loop,
                    self.home / name,
                    seed,
                    coins,
                    lambda life, request: from_device(self, life, request),
                    self.oracle,
                )
            )
        return Device(number, (lives[0], lives[1]))

    def _is_over(self, period: int) -> bool:
        return (period + 1) * PERIOD + GRACE + HORIZON <= self.loop.now

    # -- operations

    def do(self, operation: op.Operation) -> None:
        """One operation, and then the oracle."""
        self.trace.update(f"{op.written(operation)} {self.loop.now:.3f}\n".encode())
        HANDLERS[type(operation)](self, operation)
        self.check()

    def check(self) -> None:
        """What must hold at any time."""
        for site in self.aggregators:
            if site.up is not None:
                with suppress(StorageError), acting(None):
                    if site.number in self.gone_back:
                        self.as_nobody(site, self.oracle.restored)
                        self.gone_back.discard(site.number)
                    self.as_nobody(site, self.oracle.look)
                if self.redis is not None:
                    break
        if self.wrong is not None:
            raise self.wrong
        if self.oracle.claims.wrong:
            raise Wrong("fence", self.oracle.claims.wrong)
        for device in self.devices:
            device_operations.compare(self, device)

    def as_nobody(self, site: AggregatorSite, look: Callable[[Any], None]) -> None:
        """Look into a storage as nobody: neither its process's faults nor its steps count."""
        process = site.process
        assert process is not None
        for connection in process.connections:
            connection._of = None  # type: ignore[attr-defined]  # ours
        try:
            look(site.service.storage)
        finally:
            for connection in process.connections:
                connection._of = process  # type: ignore[attr-defined]

    # -- who is there

    def sites(self) -> list[Any]:
        """Every machine with a service."""
        return [*self.aggregators, *self.shufflers]

    def site(self, party: str) -> Any:
        """The machine of this name; numbers count modulo how many there are."""
        sites: Sequence[Any] = self.shufflers if party.startswith("s") else self.aggregators
        return sites[int(party[1:] or 0) % len(sites)]

    def shuffler(self, number: int) -> ShufflerSite:
        return self.shufflers[number % len(self.shufflers)]

    def aggregator(self, number: int) -> AggregatorSite:
        return self.aggregators[number % len(self.aggregators)]

    def device(self, number: int) -> Device | None:
        return self.devices[number % len(self.devices)] if self.devices else None

    # -- what services do by themselves

    def begin(self, process: Process, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Something that a process does by itself."""
        context = copy_context()
        context.run(PROCESS.set, process)
        with self.loop.running():
            task = self.loop.create_task(context.run(work), context=context)
        process.tasks.append(task)
        return task

    def drive(self, processes: Iterable[tuple[Process, asyncio.Task[Any]]]) -> None:
        """Until each of these is done, or its process is dead or stands still."""
        waiting = list(processes)
        with suppress(Idle):
            self.loop.drive(lambda: all(task.done() or p.dead or p.paused for p, task in waiting), patience=600.0)
        for process, task in waiting:
            if task.done() and not task.cancelled() and not process.dead:
                self._judge(process, task.exception())

    def _judge(self, process: Process, error: BaseException | None) -> None:
        """A job that ended with an error: its storage may fail, nothing else may."""
        if error is None or isinstance(error, StorageError | Killed | asyncio.CancelledError | OSError):
            return
        if isinstance(error, Wrong):
            raise error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                self._judge(process, each)
            return
        raise Wrong("died", f"{process.name}: {type(error).__name__}: {error}") from error

    def _do(self, site: Any, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        process = site.able
        if process is not None:
            self.drive([(process, self.begin(process, work))])

    def refresh(self, site: ShufflerSite) -> None:
        async def work() -> None:
            await site.parts.bundles.refresh()
            await site.parts.bundles.hold()

        self._do(site, work)

    def tick(self, site: ShufflerSite) -> None:
        self._do(site, site.parts.batcher.tick)

    def house(self, site: AggregatorSite) -> None:
        async def work() -> None:
            await asyncio.to_thread(site.service.tick)

        self._do(site, work)

    def drain(self, site: AggregatorSite) -> None:
        self._do(site, site.service.accumulator.drain)

    # -- the end

    def close(self) -> None:
        for device in self.devices:
            for life in device.lives:
                life.kill()
        for site in self.sites():
            site.kill()
            for process in site.past:
                process.kill()
        for task in self._tasks:
            if not task.done():
                with suppress(BaseException):
                    task.get_coro().close()
        self._tasks.clear()
        self.loop.close()
        self._stack.close()
        close_files_in(self.home)
