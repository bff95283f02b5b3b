"""Backoff: how long to wait before trying again, by a monotonic clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hubbub.randomness import Randomness
from hubbub_client._process.clock_and_entropy import monotonic, sleep

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Exponential backoff with jitter. Tests pass in their own `monotonic` and `sleep`."""

    monotonic: Callable[[], float] = monotonic
    sleep: Callable[[float], None] = sleep
    first: float = 0.5
    longest: float = 60.0

    def backoff(self, attempt: int, rng: Randomness) -> float:
        """Seconds before the next attempt (counted from 0), uniformly random below a doubling limit, so that a crowd
        that failed together does not come back together, nor in waves."""
        limit = min(self.first * 2.0 ** min(attempt, 30), self.longest)
        return limit * rng.below(1001) / 1000
