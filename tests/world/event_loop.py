"""Event loop under a seed, with virtual time: the seed decides the order of ready steps.

Everything that runs belongs to a process, which its context names. A process dies or stops between two of its steps.
Work for a thread pool is a step like any other, taken when its turn comes. Nothing here waits: when nothing is ready,
time goes on to the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tests.world.process import Process

__all__ = ["PROCESS", "Busy", "Idle", "WorldLoop", "acting"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
"""The process that runs now; None for the world itself."""


BUSY = 50_000
"""Steps that may be taken without any time passing. A busy history takes some hundreds."""


class Busy(Exception):
    """Something goes round in circles: steps are taken without end, and no time passes."""


class Idle(Exception):
    """Nothing can go on: whatever is awaited will not come before something else happens."""


@contextmanager
def acting(process: Process | None) -> Iterator[None]:
    """What runs in this block is done by this process."""
    token = PROCESS.set(process)
    try:
        yield
    finally:
        PROCESS.reset(token)


class WorldLoop(asyncio.BaseEventLoop):
    """One history's loop. `now`: true time, which all clocks are set against."""

    def __init__(self, rng: random.Random, now: float) -> None:
        super().__init__()
        self.now = now
        self._rng = rng
        self._waiting: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self.steps = 0
        self._since = 0
        """Steps since time passed."""

    # -- what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._waiting.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:  # noqa: ARG002  there is one executor
        """The work is a step of its own: others may come before it, and after it."""
        done: asyncio.Future[T] = self.create_future()
        context = copy_context()

        def work() -> None:
            process = PROCESS.get()
            if done.cancelled():
                return
            try:
                if process is not None:
                    process.step()
                result = func(*args)
            except StopIteration as error:
                _settle(done, RuntimeError(error))
            except BaseException as error:  # noqa: BLE001  as an executor does
                if process is not None and process.dead:
                    return
                _settle(done, error)
            else:
                if not done.done():
                    done.set_result(result)

        self.call_soon(work, context=context)
        return done

    def _process_events(self, event_list: Any) -> None:
        pass

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task of a dead process ended badly, or nobody asked how it ended: that is part of the game."""

    # -- what the world does with it

    @contextmanager
    def running(self) -> Iterator[None]:
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(before)

    def drive(self, until: Callable[[], bool], patience: float = 300.0) -> None:
        """Go on, step by step, until this holds; Idle if it can't within so much time."""
        end = self.now + patience
        with self.running():
            while not until():
                self._one(end)

    def settle(self) -> None:
        """Go on until nothing is ready. No time passes."""
        with self.running():
            while (at := self._choose()) is not None:
                self._take(at)

    def pass_to(self, moment: float) -> None:
        """Let time go on to this moment, with all that comes due."""
        with self.running():
            while True:
                while (at := self._choose()) is not None:
                    self._take(at)
                when = self._next_timer()
                if when is None or when > moment:
                    break
                self._ring(when)
        if moment > self.now:
            self.now, self._since = moment, 0

    def _one(self, end: float) -> None:
        if (at := self._choose()) is not None:
            self._take(at)
            return
        when = self._next_timer()
        if when is None or when > end:
            raise Idle
        self._ring(when)

    def _choose(self) -> int | None:
        """The place of a step that may be taken."""
        self._waiting = [each for each in self._waiting if not each._cancelled and not _is_dead(each)]
        able = [at for at, each in enumerate(self._waiting) if not _stands_still(each)]
        if not able:
            return None
        # mostly the oldest, or histories would be all disorder and little progress
        return able[0] if len(able) == 1 or self._rng.random() < 0.5 else able[self._rng.randrange(len(able))]

    def _take(self, at: int) -> None:
        handle = self._waiting.pop(at)
        self.steps += 1
        self._since += 1
        if self._since > BUSY:
            raise Busy(f"{BUSY} steps without any time passing, the last one: {handle!r}"[:400])
        process = _process_of(handle)
        if process is not None and not process.may_step():
            if not process.dead:
                self._waiting.insert(at, handle)
            return
        handle._run()

    def _next_timer(self) -> float | None:
        while self._timers:
            when, _, handle = self._timers[0]
            if not handle._cancelled and not _is_dead(handle):
                return when
            heapq.heappop(self._timers)
        return None

    def _ring(self, when: float) -> None:
        if when > self.now:
            self.now, self._since = when, 0
        while self._timers and self._timers[0][0] <= self.now:
            _, _, handle = heapq.heappop(self._timers)
            if not handle._cancelled:
                self._waiting.append(handle)


def _settle(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever awaits it gets it; nobody else is told


def _process_of(handle: asyncio.Handle) -> Process | None:
    context: Context = handle._context  # type: ignore[attr-defined]  # asyncio's own
    return context.get(PROCESS)


def _is_dead(handle: asyncio.Handle) -> bool:
    process = _process_of(handle)
    return process is not None and process.dead


def _stands_still(handle: asyncio.Handle) -> bool:
    process = _process_of(handle)
    return process is not None and process.paused
