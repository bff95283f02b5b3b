"""Backoff: how long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["backoff"]

_MOST_DOUBLINGS = 30
_DRAW_BYTES = 4


def backoff(attempts: int, *, longest: float, entropy: Callable[[int], bytes], first: float = 1.0) -> float:
    """Seconds to wait after this many failed attempts: doubling from `first`, never above `longest`.

    Half of the wait is random, so that callers that failed together do not all come back at once. `entropy` returns as
    many random bytes as it is asked for.
    """
    ceiling = min(longest, first * 2.0 ** min(attempts, _MOST_DOUBLINGS))
    return ceiling / 2 * (1 + int.from_bytes(entropy(_DRAW_BYTES)) / 2.0 ** (8 * _DRAW_BYTES))
