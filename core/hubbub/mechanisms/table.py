r"""Mean of a bounded number by a precomputed optimal table: the least worst-case variance that epsilon allows.

A symbol y has an interval of grid points, a weight w_y and a moment m_y. Points in its interval draw it with weight
w_y * high, all others with w_y * low, so the loss is ln(high/low), whatever the table. Weights cover every point
equally, with sum C, so all rows sum to N = C (high - low) + low * sum of w. The moments over a point rise by the same
2A from each point to the next, from -A steps to A steps, so places 1/2 + s m_y / w_y make the mean exactly unbiased:

    s = N / (2 A steps (high - low))

The tables are solutions of a linear programme for a grid of epsilons (scripts/make_mean_tables.py;
docs/design/mean-tables.md says why this form loses nothing). Only high and low depend on the epsilon asked for: a table
is unbiased and private at any epsilon, and nearly optimal at those near its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import decimal_text, exact_epsilon, exp_below
from hubbub.mechanisms._grid_mean import FINEST_GRID, LARGEST_TOTAL, MOST_SYMBOLS, GridMean
from hubbub.mechanisms._grid_rounding import clamped
from hubbub.mechanisms._parameters import bounds_of, integer, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Bounds, Domain

LARGEST_MOMENT = 2**53 - 1


class Column(NamedTuple):
    """A symbol that points `first` .. `last` lean to. Its place is the middle plus a multiple of moment / weight."""

    first: int
    last: int
    weight: int
    moment: int


class Design(NamedTuple):
    """A table without `low` and `high`: the epsilon that it is optimal for, and what does not depend on epsilon."""

    epsilon: Fraction
    variance: float
    """Worst case on [-1, 1] at this epsilon: the least of all such tables, by linear programme."""
    steps: int
    columns: tuple[Column, ...]


@register("table")
@dataclass(frozen=True)
class TableMean(GridMean):
    """`columns` lists the symbols that do not lean to the right. The mirror images of those that lean left follow."""

    regime: ClassVar[str] = "a mean: within 3 % of the least worst-case variance up to epsilon 4, 10 % up to 10"

    epsilon: Fraction
    bounds: Bounds
    steps: int
    low: int
    high: int
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= FINEST_GRID or not 1 <= self.low < self.high:
            raise InvalidParameter(f"table: steps must be from 1 to {FINEST_GRID}, and low positive and below high")
        self._refuse_malformed_columns()
        if sum(self.rows[0]) > LARGEST_TOTAL:
            raise InvalidParameter("table: the weights of a row must sum to at most 2**63; make low and high smaller")
        self._refuse_if_not_private()

    def _refuse_malformed_columns(self) -> None:
        intervals = [(column.first, column.last) for column in self.columns]
        if not intervals or intervals != sorted(set(intervals)) or self.symbols > MOST_SYMBOLS:
            raise InvalidParameter(
                f"table: give distinct intervals in order, at most {MOST_SYMBOLS} with mirror images"
            )
        for first, last, weight, moment in self.columns:
            if not (0 <= first <= last <= self.steps - first and weight > 0 and abs(moment) <= LARGEST_MOMENT):
                raise InvalidParameter(f"table: the column {[first, last, weight, moment]} is out of range")
            if first + last == self.steps and moment:
                raise InvalidParameter(f"table: a column that is its own mirror image has moment 0, got {moment}")
        covers = [sum(c.weight for c in self._all if c.first <= i <= c.last) for i in range(self.steps + 1)]
        if len(set(covers)) != 1:
            raise InvalidParameter("table: the weights must cover every grid point equally")
        moments = [sum(c.moment for c in self._all if c.first <= i <= c.last) for i in range(self.steps + 1)]
        rises = {after - before for before, after in pairwise(moments)}
        if len(rises) != 1 or min(rises) <= 0:
            raise InvalidParameter("table: the moments must rise by the same from each grid point to the next")

    @classmethod
    def calibrate(
        cls, epsilon: object, domain: Domain, *, points: int | None = None, design: object = None, **options: Any
    ) -> Self:
        """The shipped table nearest to epsilon. With `points`, the nearest with at most that many grid points; with
        `design`, the nearest to that epsilon instead, so that the table need not be the best one before shuffling."""
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        nearest_to = exact if design is None else exact_epsilon(design)
        if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 3):
            problem = f"table: points must be a whole number of at least 3, got {points!r}"
            raise InvalidParameter(problem, "correct it, or leave it out")
        return cls._made(exact, bounds_of(cls, domain), _nearest(nearest_to, points))

    @classmethod
    def variants(cls, domain: Domain) -> list[Mapping[str, Any]]:  # noqa: ARG003  the tables are for any bounds
        """The shipped tables of more than three points, named by their epsilon."""
        return [{"design": decimal_text(design.epsilon)} for design in designs() if design.steps > 2]

    @classmethod
    def _made(cls, epsilon: Fraction, bounds: Bounds, design: Design) -> Self:
        odds, symbols = exp_below(epsilon), _with_mirrors(design.steps, design.columns)
        cover, weight = sum(c.weight for c in symbols if c.first == 0), sum(c.weight for c in symbols)
        low = int(LARGEST_TOTAL / (cover * odds + weight - cover))
        return cls(epsilon, bounds, design.steps, low, int(low * odds), design.columns)

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        if not isinstance(parameters, Mapping) or set(parameters) != {"steps", "low", "high", "columns"}:
            raise InvalidParameter("table takes the parameters steps, low, high and columns")
        steps, low, high = (integer(cls.name, key, parameters[key]) for key in ("steps", "low", "high"))
        columns = parameters["columns"]
        if not isinstance(columns, list) or not all(
            isinstance(column, list) and len(column) == 4 and all(type(entry) is int for entry in column)
            for column in columns
        ):
            raise InvalidParameter("table: each column is a first point, last point, weight and moment, whole numbers")
        made = tuple(Column(*column) for column in columns)
        return cls(exact_epsilon(epsilon), bounds_of(cls, domain), steps, low, high, made)

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        """One table for every epsilon: its size must not change with it, and testing every grid would take long."""
        small = _nearest(Fraction(1), points=9)
        return [cls._made(exact_epsilon(epsilon), Bounds(Fraction(-1), Fraction(3)), small)]

    def parameters(self) -> dict[str, Json]:
        columns: list[Json] = [list(column) for column in self.columns]
        return {"steps": self.steps, "low": str(self.low), "high": str(self.high), "columns": columns}

    @cached_property
    def _all(self) -> tuple[Column, ...]:
        return _with_mirrors(self.steps, self.columns)

    @property
    def symbols(self) -> int:
        return len(self._all)

    @cached_property
    def rows(self) -> list[list[int]]:
        return [
            [c.weight * (self.high if c.first <= i <= c.last else self.low) for c in self._all]
            for i in range(self.steps + 1)
        ]

    @cached_property
    def places(self) -> list[Fraction]:
        at_the_top = sum(c.moment for c in self._all if c.last == self.steps)  # A steps
        unit = Fraction(sum(self.rows[0]), 2 * at_the_top * (self.high - self.low))
        return [Fraction(1, 2) + unit * c.moment / c.weight for c in self._all]

    def in_words(self) -> str:
        return (
            f"{clamped(self.bounds)} and sends one of {self._in_reach()}, drawn from a table of probabilities that the "
            f"codebook states; each of {self.steps + 1} steps between the bounds has a row, leaning to its own step, "
            "but may give any of the numbers."
        )


def _with_mirrors(steps: int, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    mirrors = [Column(steps - c.last, steps - c.first, c.weight, -c.moment) for c in reversed(columns)]
    return (*columns, *(c for c in mirrors if c.first + c.last > steps))


def _nearest(epsilon: Fraction, points: int | None) -> Design:
    """The shipped design whose epsilon is nearest, as a ratio, of those with at most `points` points."""
    fitting = [design for design in designs() if points is None or design.steps < points]
    return min(fitting, key=lambda design: max(epsilon / design.epsilon, design.epsilon / epsilon))


@lru_cache(maxsize=1)
def designs() -> list[Design]:
    """Every shipped table, by rising epsilon. They are read when a codebook is compiled, not when it is used."""
    document = json.loads(files("hubbub.mechanisms").joinpath("mean_tables.json").read_text())
    return [
        Design(
            Fraction(design["epsilon"]),
            float(design["variance"]),
            design["points"] - 1,
            tuple(Column(*column) for column in design["columns"]),
        )
        for design in document["designs"]
    ]
