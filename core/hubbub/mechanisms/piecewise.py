r"""Mean of a bounded number by the piecewise mechanism, on integers.

N. Wang et al., ICDE 2019, arXiv 1907.00679, section III-B: the answer comes from a window around the value, or from the
rest of a range wider than the bounds. With t = e^(eps/2) and x on [-1, 1] the continuous mechanism has

    n Var = x^2 / (t - 1) + (t + 3) / (3 (t - 1)^2)

Here the value is one of steps + 1 points and the answer one of steps*stride + window symbols. The window of point i is
the `window` symbols from i*stride on. A symbol in it has weight `high`, any other `low`, so the loss is ln(high/low).
The mean symbol is linear in i, so places that are linear in the symbol make the mean exactly unbiased. The
continuous mechanism has window : steps*stride = 1 : t.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below
from hubbub.mechanisms._grid_mean import LARGEST_TOTAL, MOST_SYMBOLS, GridMean
from hubbub.mechanisms._grid_rounding import clamped
from hubbub.mechanisms._parameters import bounds_of, integers, refuse_unfit
from hubbub.mechanisms._piecewise_windows import Windows, best_windows, few_windows
from hubbub.mechanisms._registry import register
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Bounds, Domain
from hubbub.number_format import count, probability


@register("piecewise")
@dataclass(frozen=True)
class PiecewiseMean(GridMean):
    """Windows of `window` symbols, moved by `stride` from each point to the next, weighted `high` against `low`."""

    regime: ClassVar[str] = "a mean as in the literature on many numbers at once; table is better everywhere"

    epsilon: Fraction
    bounds: Bounds
    steps: int
    stride: int
    window: int
    low: int
    high: int

    def __post_init__(self) -> None:
        self._windows.refuse_impossible(self.name, self.low, self.high)
        if self._windows.total(self.low, self.high) > LARGEST_TOTAL:
            raise InvalidParameter(
                "piecewise: the weights of a row must sum to at most 2**63; make low and high smaller"
            )
        self._refuse_if_not_private()

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, steps: int | None = None, **options: Any) -> Self:
        """`steps` defaults to a grid that costs at most about one per cent for epsilon up to 8."""
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        return cls._made(exact, bounds_of(cls, domain), best_windows(cls.name, exact, steps, MOST_SYMBOLS))

    @classmethod
    def _made(cls, epsilon: Fraction, bounds: Bounds, windows: Windows) -> Self:
        odds = exp_below(epsilon)
        low = int(LARGEST_TOTAL / windows.total(1, odds))
        return cls(epsilon, bounds, *windows, low, int(low * odds))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        found = integers(cls.name, parameters, ["steps", "stride", "window", "low", "high"])
        return cls(exact_epsilon(epsilon), bounds_of(cls, domain), *found)

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls._made(exact_epsilon(epsilon), Bounds(Fraction(-1), Fraction(3)), few_windows(epsilon))]

    def parameters(self) -> dict[str, Json]:
        return {
            "steps": self.steps,
            "stride": self.stride,
            "window": self.window,
            "low": str(self.low),
            "high": str(self.high),
        }

    @property
    def _windows(self) -> Windows:
        return Windows(self.steps, self.stride, self.window)

    @property
    def symbols(self) -> int:
        return self._windows.symbols

    @cached_property
    def rows(self) -> list[list[int]]:
        return self._windows.rows(self.low, self.high)

    @cached_property
    def places(self) -> list[Fraction]:
        return self._windows.places(self.low, self.high)

    def in_words(self) -> str:
        near = self.window * self.high
        inside = Fraction(near, near + self.steps * self.stride * self.low)
        return (
            f"{clamped(self.bounds)} and sends a random one of {self._in_reach()}: with probability "
            f"{probability(float(inside))} one of the {count(self.window)} in a window around its own number, "
            "otherwise any other, all equally likely."
        )
