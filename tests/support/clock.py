"""Clocks that a test sets: a right one, and the wall clock of a machine that may be wrong."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Clock", "WrongClock"]


@dataclass
class Clock:
    """Seconds since 1970, which move when a test says so."""

    now: float

    def __call__(self) -> float:
        return self.now


@dataclass
class WrongClock:
    """A machine: its wall clock is `offset` seconds wrong, and time goes on all the same, by `running`."""

    start: float
    running: float = 0.0
    offset: float = 0.0

    def right(self) -> float:
        """The right time."""
        return self.start + self.running

    def wall(self) -> float:
        """What its clock says."""
        return self.right() + self.offset

    def monotonic(self) -> float:
        return self.running
