r"""Mean of a bounded number by the hybrid mechanism: piecewise with probability 1 - e^(-eps/2), otherwise an end.

N. Wang et al., ICDE 2019, arXiv 1907.00679, section III-C: for eps above eps* = 0.609... the two variances, one rising
with x^2 and one falling, add up to a constant. Below eps* the ends alone are best. With t = e^(eps/2), z = e^eps

    n Var = (t + 3) / (3 t (t - 1)) + (z + 1)^2 / (t (z - 1)^2)        eps > eps*
    n Var = ((z + 1) / (z - 1))^2 - x^2                                 eps <= eps*

One row of integer weights has everything: the symbols of `piecewise` times `inner`, then the lower and the upper end.
For point i of m the ends have weights outer * (high (m-i) + low i) and outer * (low (m-i) + high i). Each part alone is
unbiased.
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
from hubbub.number_format import probability

ENDS_ALONE = Fraction(6109, 10_000)
"""Just above eps*: arXiv 1907.00679, equation 6 (0.61 there)."""
SHARES = 2**16
"""The larger of `inner` and `outer`."""


@register("hybrid")
@dataclass(frozen=True)
class HybridMean(GridMean):
    """`inner` times the rows of a piecewise design, and `outer` times those of the two ends."""

    regime: ClassVar[str] = "a mean as in the literature, better than duchi above epsilon 0.61; table is better still"

    epsilon: Fraction
    bounds: Bounds
    steps: int
    stride: int
    window: int
    low: int
    high: int
    inner: int
    outer: int

    def __post_init__(self) -> None:
        self._windows.refuse_impossible(self.name, self.low, self.high)
        if min(self.inner, self.outer) < 0 or max(self.inner, self.outer) < 1 or self.symbols > MOST_SYMBOLS:
            raise InvalidParameter(
                f"hybrid: inner or outer must be positive, and at most {MOST_SYMBOLS} symbols; got {self.inner}, "
                f"{self.outer} and {self.symbols} symbols"
            )
        piecewise, ends = self._windows.total(self.low, self.high), self.steps * (self.low + self.high)
        if self.inner * piecewise + self.outer * ends > LARGEST_TOTAL:
            raise InvalidParameter("hybrid: the weights of a row must sum to at most 2**63; make low and high smaller")
        self._refuse_if_not_private()

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, steps: int | None = None, **options: Any) -> Self:
        """`steps` defaults to a grid that costs at most about one per cent for epsilon up to 8."""
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        windows = best_windows(cls.name, exact, steps, MOST_SYMBOLS - 2)
        return cls._made(exact, bounds_of(cls, domain), windows)

    @classmethod
    def _made(cls, epsilon: Fraction, bounds: Bounds, windows: Windows) -> Self:
        odds, t = exp_below(epsilon), exp_below(epsilon / 2)
        if epsilon <= ENDS_ALONE:
            windows, inner, outer = Windows(1, 1, 1), 0, 1
        else:
            each = (t - 1) * windows.steps * (odds + 1) / windows.total(1, odds)  # inner : outer
            inner, outer = (SHARES, round(SHARES / each)) if each > 1 else (round(SHARES * each), SHARES)
        low = int(LARGEST_TOTAL / (inner * windows.total(1, odds) + outer * windows.steps * (odds + 1)))
        return cls(epsilon, bounds, *windows, low, int(low * odds), inner, outer)

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        keys = ["steps", "stride", "window", "low", "high", "inner", "outer"]
        return cls(exact_epsilon(epsilon), bounds_of(cls, domain), *integers(cls.name, parameters, keys))

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
            "inner": self.inner,
            "outer": self.outer,
        }

    @property
    def _windows(self) -> Windows:
        return Windows(self.steps, self.stride, self.window)

    @property
    def symbols(self) -> int:
        """The symbols of the piecewise part come first."""
        return (self._windows.symbols if self.inner else 0) + (2 if self.outer else 0)

    @cached_property
    def rows(self) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in range(self.steps + 1)]
        if self.inner:
            whole = self._windows.rows(self.low, self.high)
            rows = [[self.inner * weight for weight in row] for row in whole]
        if self.outer:
            for i, row in enumerate(rows):
                up, down = i, self.steps - i
                row += [
                    self.outer * (self.high * down + self.low * up),
                    self.outer * (self.low * down + self.high * up),
                ]
        return rows

    @cached_property
    def places(self) -> list[Fraction]:
        places: list[Fraction] = []
        if self.inner:
            places += self._windows.places(self.low, self.high)
        if self.outer:
            reach = Fraction(self.high + self.low, 2 * (self.high - self.low))
            places += [Fraction(1, 2) - reach, Fraction(1, 2) + reach]
        return places

    def in_words(self) -> str:
        windows = self.inner * (self.window * self.high + self.steps * self.stride * self.low)
        ends = self.outer * self.steps * (self.low + self.high)
        if not windows:
            truly = probability(float(Fraction(self.high, self.low + self.high)))
            return (
                f"{clamped(self.bounds)}, draws one of the two ends, the nearer one more often, and with probability "
                f"{truly} sends that end, otherwise the other one."
            )
        chance = probability(float(Fraction(windows, windows + ends)))
        return (
            f"{clamped(self.bounds)} and sends a random one of {self._in_reach()}: with probability {chance} one that "
            "is drawn more often from a window around its own number, otherwise one of two ends, more often the nearer "
            "one."
        )
