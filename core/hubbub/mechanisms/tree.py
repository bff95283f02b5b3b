r"""Tree: random sets on each level of a tree of intervals, whose level a private coin chooses.

The runner-up to `ladder`, and what is usual for ranges under local privacy (Cormode, Kulkarni and Srivastava,
"Answering Range Queries Under Local Differential Privacy", PVLDB 12(10), 2019: one level per device). Here each node
has four children, the levels have the best weights, and one linear estimate takes the place of the two passes that make
a tree consistent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from hubbub.mechanisms._channel_component import Component
from hubbub.mechanisms._exact_arithmetic import exact_epsilon
from hubbub.mechanisms._mixture import WHOLE, Mixture, set_rows
from hubbub.mechanisms._mixture_weights import best_sets, design_epsilon, weighted
from hubbub.mechanisms._parameters import bins_of, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._set_component import Sets
from hubbub.mechanisms.domains import Domain

BRANCHES = 4


@register("tree")
@dataclass(frozen=True)
class Tree(Mixture):
    """Sets of cells whose width is a power of four."""

    regime: ClassVar[str] = "the same as `ladder`, with 1.2 to 1.4 times its variance: to compare with"

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, sets: object = None, **options: Any) -> Self:
        """The levels with the weights of the least error. With `sets`, those: rows of width, number of cells and
        weight."""
        refuse_unfit(cls, domain, options)
        exact, size = exact_epsilon(epsilon), bins_of(cls, domain).size
        if sets is not None:
            return cls.of_components(exact, size, set_rows(cls.name, sets))
        chosen = weighted(_levels, size, design_epsilon(exact), WHOLE)
        levels = [(one.width, one.count, weight) for one, weight in chosen if isinstance(one, Sets)]
        return cls.of_components(exact, size, levels)

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        exact = exact_epsilon(epsilon)
        return [
            cls.of_components(exact, 5, [(1, 2, 45_000), (4, 1, 20_536)]),
            cls.of_components(exact, 9, [(1, 1, 30_000), (4, 1, 35_536)]),
        ]

    @classmethod
    def _keys(cls) -> set[str]:
        return {"low", "high", "sets"}


def _levels(size: int, epsilon: float) -> tuple[Component, ...]:
    widths = [BRANCHES**power for power in range(size.bit_length())]
    return tuple(best_sets(size, width, epsilon) for width in widths if width < size)
