"""Exploration of a simulated world: histories by their numbers, in several processes, until the time is over.

A history is its number and its storage, so each can be played again from one line. A failure is shortened and printed
as a script, which can be kept in tests/world/scripts.
"""

from __future__ import annotations

import gc
import multiprocessing
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from queue import Empty
from typing import Any

from tests.support.redis_server import one_server
from tests.world.generate import script_of
from tests.world.history import play
from tests.world.operations import OPERATIONS, Script, Storage
from tests.world.oracle import Wrong
from tests.world.redis_in_world import WorldRedis
from tests.world.shorten import shortened

__all__ = ["Failure", "Found", "explore", "failure_of", "redis_for"]

_PAIRS = len(OPERATIONS) ** 2
_TRIES = 400
"""Scripts that are played to shorten one."""
_EVERY = 2.0
"""Seconds between two reports of a worker."""


@dataclass(frozen=True)
class Failure:
    """A history that went wrong, shortened."""

    number: int
    storage: Storage
    why: str
    script: str
    trace: str

    def __str__(self) -> str:
        again = f"make world SEED={self.number} STORAGE={self.storage}"
        return f"{self.why}\n\nThe whole history: {again}\nShortened:\n\n{self.script}\n{self.trace}"


@dataclass
class Found:
    """What an exploration has seen so far."""

    histories: int = 0
    operations: int = 0
    counted: int = 0
    """Metrics and periods with a release."""
    pairs: set[tuple[str, str]] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    def __add__(self, other: Found) -> Found:
        return Found(
            self.histories + other.histories,
            self.operations + other.operations,
            self.counted + other.counted,
            self.pairs | other.pairs,
            self.failures + other.failures,
        )

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.histories:,} histories, {self.operations:,} operations, "
            f"{len(self.pairs):,} of {_PAIRS:,} pairs, {len(self.failures)} failures"
        )


@contextmanager
def redis_for(storage: Storage) -> Iterator[WorldRedis | None]:
    """A server for a world on Redis, which keeps nothing on disk."""
    if storage == "sqlite":
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-world-redis-") as name,
        one_server(Path(name), "--appendonly", "no") as server,
        closing(server.client()) as client,
    ):
        yield WorldRedis(server.url, client)


def _kind(error: BaseException) -> str:
    """What counts as the same failure while a script is shortened."""
    return error.kind if isinstance(error, Wrong) else type(error).__name__


def failure_of(script: Script, redis: WorldRedis | None, *, tries: int = _TRIES) -> Failure | None:
    """Play a script; if it goes wrong, shorten it."""
    try:
        play(script, redis)
    except Exception as error:  # noqa: BLE001  whatever it is, it is what we look for
        first = error
    else:
        return None

    def fails(candidate: Script) -> bool:
        try:
            play(candidate, redis)
        except Exception as error:  # noqa: BLE001
            return _kind(error) == _kind(first)
        return False

    short = shortened(script, fails, tries)
    last: BaseException = first
    with suppress(AssertionError):
        try:
            play(short, redis)
        except Exception as error:  # noqa: BLE001
            last = error
    trace = "".join(traceback.format_exception(last)[-6:])
    return Failure(script.world.seed, script.world.storage, f"{type(last).__name__}: {last}", str(short), trace)


def _work(queue: Any, storage: Storage, numbers: Iterator[int], until: float) -> None:
    """Play one history after the other, and tell what was seen every few seconds."""
    gc.freeze()  # of what is loaded by now, no later collection looks at anything
    with redis_for(storage) as redis:
        seen, told = Found(), time.monotonic()
        for number in numbers:
            now = time.monotonic()
            if now > told + _EVERY or now > until:
                queue.put(seen)
                seen, told = Found(), now
            if now > until:
                break
            _one(script_of(number, storage), redis, seen)
        else:
            queue.put(seen)
    queue.put(None)


def _one(script: Script, redis: WorldRedis | None, seen: Found) -> None:
    names = [each.name for each in script.operations]
    seen.histories += 1
    seen.operations += len(names)
    seen.pairs.update(pairwise(names))
    try:
        seen.counted += len(play(script, redis).oracle.counted)
    except Exception:  # noqa: BLE001
        failure = failure_of(script, redis)
        seen.failures.append(failure or _flaky(script))


def _flaky(script: Script) -> Failure:
    why = "it went wrong, and did not when it was played again: something is not decided by the seed"
    return Failure(script.world.seed, script.world.storage, why, str(script), "")


def explore(
    seconds: float,
    storages: tuple[Storage, ...],
    jobs: int,
    first: int,
    tell: Callable[[Found], None],
    histories: int | None = None,
) -> Found:
    """Explore in `jobs` processes, which take turns with the storages, from this number on.

    `histories`: most of each process. `tell` is called with what was seen so far.
    """
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    until = time.monotonic() + seconds
    workers = [
        context.Process(
            target=_work,
            args=(queue, storages[job % len(storages)], _numbers(first, job, jobs, histories), until),
            daemon=True,
        )
        for job in range(jobs)
    ]
    for worker in workers:
        worker.start()
    found, left = Found(), len(workers)
    while left:
        try:
            news: Found | None = queue.get(timeout=_EVERY)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                raise RuntimeError("a worker ended without a word") from None
            continue
        if news is None:
            left -= 1
            continue
        found += news
        tell(found)
    for worker in workers:
        worker.join()
    return found


def _numbers(first: int, job: int, jobs: int, histories: int | None) -> Any:
    """Which histories a worker plays: an iterator that can be sent to another process."""
    return (
        count(first + job, jobs)
        if histories is None
        else iter(range(first + job, first + job + jobs * histories, jobs))
    )
