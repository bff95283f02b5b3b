r"""Ladder: sliding windows and random sets of several widths, one of which a private coin chooses.

For the distribution of a number over bins in order. A window tells where the bin is, up to its width; a set of single
bins tells which bin it is, but little of what is near; sets of wider cells lie between. The shares in the first k bins
need all of them: their mean variance is 11-29 % below that of trees of intervals, of the same epsilon
(docs/design/ladder.md). A report is unbiased for every range of bins at once, by one table of numbers that is known
before any report (`_weighted_sums`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from hubbub.mechanisms._channel_component import Component
from hubbub.mechanisms._exact_arithmetic import exact_epsilon
from hubbub.mechanisms._mixture import WHOLE, Mixture, set_rows, window_rows
from hubbub.mechanisms._mixture_weights import best_sets, design_epsilon, weighted
from hubbub.mechanisms._parameters import bins_of, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._set_component import Sets
from hubbub.mechanisms._window_component import Window
from hubbub.mechanisms.domains import Domain


@register("ladder")
@dataclass(frozen=True)
class Ladder(Mixture):
    """Sets of cells whose width is a power of two, and windows whose width is one."""

    regime: ClassVar[str] = "bins of a number: shares of all ranges, quantiles and the mean from one report"

    @classmethod
    def calibrate(
        cls, epsilon: object, domain: Domain, *, sets: object = None, windows: object = None, **options: Any
    ) -> Self:
        """The components with the least error. With `sets` or `windows`, those: rows of width, number of cells and
        weight, and rows of width and weight."""
        refuse_unfit(cls, domain, options)
        exact, size = exact_epsilon(epsilon), bins_of(cls, domain).size
        if sets is not None or windows is not None:
            return cls.of_components(exact, size, set_rows(cls.name, sets or []), window_rows(cls.name, windows or []))
        chosen = weighted(_rungs, size, design_epsilon(exact), WHOLE)
        return cls.of_components(
            exact,
            size,
            [(one.width, one.count, weight) for one, weight in chosen if isinstance(one, Sets)],
            [(one.width, weight) for one, weight in chosen if isinstance(one, Window)],
        )

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        """Sets with a bit for each cell, listed sets, cells of unequal width, and windows."""
        exact = exact_epsilon(epsilon)
        return [
            cls.of_components(exact, 3, [(1, 1, 40_000)], [(2, 25_536)]),
            cls.of_components(exact, 5, [(1, 2, 30_000), (2, 1, 20_000)], [(2, 15_536)]),
            cls.of_components(exact, 9, [(1, 1, 20_000), (4, 1, 10_000)], [(2, 15_000), (3, 20_536)]),
        ]

    @classmethod
    def _keys(cls) -> set[str]:
        return {"low", "high", "sets", "windows"}


def _rungs(size: int, epsilon: float) -> tuple[Component, ...]:
    """Single bins and, in steps of two, cells as long as there are four, and windows up to half of all bins."""
    widths = [2**power for power in range(size.bit_length())]
    sets = [best_sets(size, width, epsilon) for width in widths if width == 1 or -(-size // width) >= 4]
    return (*sets, *(Window(size, width) for width in widths if 2 <= width <= size // 2))
