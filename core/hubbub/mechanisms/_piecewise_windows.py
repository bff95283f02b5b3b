"""The sliding window of `piecewise` and `hybrid`: likely symbols that move with the value.

The window of point i is the `window` symbols from i*stride on. A symbol in it has weight `high`, any other `low`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exp_below
from hubbub.mechanisms._grid_mean import FINEST_GRID, MOST_SYMBOLS


class Windows(NamedTuple):
    """The positions of the windows."""

    steps: int
    stride: int
    window: int

    @property
    def travel(self) -> int:
        """Number of symbols outside any one window."""
        return self.steps * self.stride

    @property
    def symbols(self) -> int:
        return self.travel + self.window

    def total(self, low: Fraction | int, high: Fraction | int) -> Fraction | int:
        """The sum of each point's weights."""
        return self.window * high + self.travel * low

    def refuse_impossible(self, name: str, low: int, high: int) -> None:
        """Raise InvalidParameter if these numbers are not a valid design."""
        if not 1 <= self.steps <= FINEST_GRID or min(self.stride, self.window) < 1 or self.symbols > MOST_SYMBOLS:
            raise InvalidParameter(
                f"{name}: steps must be from 1 to {FINEST_GRID}, stride and window positive, "
                f"and steps * stride + window at most {MOST_SYMBOLS}"
            )
        if not 1 <= low < high:
            raise InvalidParameter(f"{name}: low must be positive and below high, got {low} and {high}")

    def rows(self, low: int, high: int) -> list[list[int]]:
        """Weights of the symbols for each point."""
        starts = [i * self.stride for i in range(self.steps + 1)]
        return [[low] * a + [high] * self.window + [low] * (self.travel - a) for a in starts]

    def places(self, low: int, high: int) -> list[Fraction]:
        """1/2 + (j - middle) / (gain steps), since in row i the mean symbol is the middle plus gain (i - steps/2)."""
        rise = 2 * (high - low) * self.window * self.travel
        total = int(self.total(low, high))
        return [Fraction(rise // 2 + (2 * j - self.symbols + 1) * total, rise) for j in range(self.symbols)]


def best_windows(name: str, epsilon: Fraction, steps: int | None, symbols: int) -> Windows:
    """Windows with window : travel near 1 : e^(eps/2), and as many symbols as allowed."""
    t = exp_below(epsilon / 2)
    if steps is None:
        window = max(int(symbols / (1 + t)), 1)
        travel = min(round(window * t), symbols - window)
        stride = -(-travel // min(max(8 * math.ceil(epsilon), 16), FINEST_GRID))
        steps = travel // stride
    elif isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= FINEST_GRID:
        problem = f"{name}: steps must be a whole number from 1 to {FINEST_GRID}, got {steps!r}"
        raise InvalidParameter(problem, "correct it, or leave it out")
    else:
        stride = max(min(round(2 * t / steps), (symbols - 1) // steps), 1)
    return Windows(steps, stride, min(max(round(steps * stride / t), 1), symbols - steps * stride))


def few_windows(epsilon: float) -> Windows:
    """For examples: a grid just fine enough that rounding is small compared with the noise."""
    return Windows(16, 1, 3) if 2 < epsilon <= 4 else Windows(6, 1, 3)
