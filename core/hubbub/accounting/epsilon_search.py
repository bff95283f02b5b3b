"""Search for the smallest ε that a certified bound allows. It returns only a point that it checked, or the ceiling."""

from __future__ import annotations

import math
from collections.abc import Callable

TOLERANCE = 1e-6
_MOST_STEPS = 100


def smallest_epsilon(
    delta_above: Callable[[float], float], delta: float, ceiling: float, guess: float, low: float = 0.0
) -> float:
    """An ε with delta_above(ε) <= delta, at most a relative 1e-6 above one where that fails, or `ceiling`.

    `delta_above` should fall with ε, and `ceiling` is assumed to be allowed. Secants follow sqrt(-ln δ),
    which is nearly linear in ε. Every third step halves the bracket, so that it always closes.
    """
    aim = math.sqrt(-math.log(delta))

    def height(epsilon: float) -> tuple[bool, float]:
        value = delta_above(epsilon)
        return value <= delta, math.sqrt(max(0.0, -math.log(value))) - aim if value > 0 else math.inf

    met, low_height = height(low)
    if met:
        return low
    high, high_height = ceiling, math.inf
    if guess > 0.5 * ceiling and not height(ceiling * (1 - 2 * TOLERANCE))[0]:
        return ceiling  # usually because there is no amplification at all
    trial = guess if low < guess < ceiling else 0.5 * (low + ceiling)
    for step in range(_MOST_STEPS):
        met, level = height(trial)
        if met:
            high, high_height = trial, level
        else:
            low, low_height = trial, level
        width = high - low
        if width <= TOLERANCE * high:
            break
        if high_height < math.inf and high_height > low_height and step % 3 != 2:
            root = low - low_height * width / (high_height - low_height)
            # step past the root by half the tolerance, so that the next point closes the bracket
            trial = root + 0.5 * TOLERANCE * high
            if high - trial < 0.5 * TOLERANCE * high:
                trial = high * (1 - 0.9 * TOLERANCE)
        elif high_height == math.inf and level < math.inf and low > 0:
            growth = 1.01 * aim / max(aim + low_height, 0.25 * aim) if step < 3 else 2.0
            trial = min(low * growth, 0.5 * (low + high))
        else:
            trial = 0.5 * (low + high)
        if not low < trial < high:
            trial = 0.5 * (low + high)
    return high
