"""Processes of a world and their machines: each machine has a clock that can be set, each process can die or stop."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.world.event_loop import WorldLoop

__all__ = ["Killed", "Machine", "Process", "close_files_in"]


class Killed(BaseException):
    """The process ends here, as after kill -9. Only the function that it was in the middle of is unwound."""


@dataclass
class Machine:
    """A wall clock that is `offset` seconds wrong, and a clock that only runs."""

    name: str
    loop: WorldLoop
    offset: float = 0.0
    longest: float = 0.0
    """Seconds for which the clock has been wrong without a break, at most."""
    _since: float = 0.0

    def set(self, by: float) -> None:
        """Set the clock this much further ahead."""
        if self.offset:
            self.longest = max(self.longest, self.loop.now - self._since)
        else:
            self._since = self.loop.now
        self.offset += by

    def wall(self) -> float:
        return self.loop.now + self.offset

    def monotonic(self) -> float:
        return self.loop.now - 1_900_000_000.0


@dataclass(eq=False)
class Process:
    """One life of a program. `step` is called between any two of its steps."""

    machine: Machine
    rng: random.Random
    dead: bool = False
    paused: bool = False
    dies_in: int | None = None
    stops_in: int | None = None
    fails_in: int | None = None
    fails_done: bool = False
    """Whether the call that fails is done all the same."""
    full: bool = False
    connections: list[sqlite3.Connection] = field(default_factory=list)
    when_dead: list[Callable[[], None]] = field(default_factory=list)
    tasks: list[Any] = field(default_factory=list)
    """What it is in the middle of."""

    @property
    def name(self) -> str:
        return self.machine.name

    def entropy(self, size: int) -> bytes:
        return self.rng.randbytes(size)

    def may_step(self) -> bool:
        """Called before each step that the loop takes for this process."""
        if self.dies_in is not None:
            if self.dies_in <= 0:
                self.kill()
                return False
            self.dies_in -= 1
        if self.stops_in is not None:
            if self.stops_in <= 0:
                self.stops_in, self.paused = None, True
                return False
            self.stops_in -= 1
        return True

    def step(self) -> None:
        """Called before each storage call, and between the transactions of one."""
        if self.dead:
            raise Killed
        if self.dies_in is not None:
            if self.dies_in <= 0:
                self.kill()
                raise Killed
            self.dies_in -= 1

    def fails_now(self) -> bool:
        """Whether the storage fails at this call."""
        if self.fails_in is None:
            return False
        if self.fails_in > 0:
            self.fails_in -= 1
            return False
        self.fails_in = None
        return True

    def kill(self) -> None:
        if self.dead:
            return
        self.dead = True
        for connection in self.connections:
            sqlite3.Connection.close(connection)
        self.connections.clear()
        for tell in self.when_dead:
            tell()
        self.when_dead.clear()


def close_files_in(folder: Path) -> None:
    """Close what processes that were killed had open, as their operating system would have done."""
    numbers = Path("/proc/self/fd")
    found = (
        [entry for entry in numbers.iterdir() if _target(entry).startswith(f"{folder}/")] if numbers.is_dir() else []
    )
    if found:
        gc.collect()  # what an object owns, the object closes
    for entry in found:
        if _target(entry).startswith(f"{folder}/"):
            with suppress(OSError):
                os.close(int(entry.name))


def _target(entry: Path) -> str:
    with suppress(OSError):
        return os.readlink(entry)
    return ""
