r"""Mean mechanisms that round to a grid and then draw one of a few symbols: law, estimator and claims.

The value is rounded at random, without bias, to one of steps + 1 points. The point's row of integer weights, which have
the same sum in all rows, gives the law of the symbol. Each symbol stands for a place (0 the lower bound, 1 the upper).
Places are such that the mean place in row i is i/steps exactly, so that for a value at place x between points a and b

    E[place] = x        Var = V(x) + (x - a)(b - x),  V linear between the points' variances

Everything here is computed from those integers. Nothing is assumed about how a mechanism made them, except that
mirrored points have mirrored rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hubbub.mechanisms import _intervals, _sum_quantile
from hubbub.mechanisms._exact_arithmetic import log_above
from hubbub.mechanisms._frequency_oracle import refuse_empty
from hubbub.mechanisms._grid_rounding import position, positions, round_many_to_grid, round_to_grid
from hubbub.mechanisms._symbols import SymbolMechanism
from hubbub.mechanisms.amplification_data import Amplification, Table
from hubbub.mechanisms.base import Kind, Population
from hubbub.mechanisms.domains import Bounds, Domain
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.number_format import amount, count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

FINEST_GRID = 64
"""Steps of the finest grid. The limit is there because the accountant looks at all pairs of points."""
MOST_SYMBOLS = 256
"""A report is one byte."""
LARGEST_TOTAL = 2**63
"""Largest sum of a row's weights. One draw decides, and bulk draws have at most 63 bits."""
_POINTS = 9
_SHARES = (1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16)
"""The values for which an interval must hold: this many points up to the middle, and these shares of the way between
two points. At a point rounding adds no error; between points, at a large epsilon, it is the only error."""
FEW_REPORTS = 100
"""Up to this many reports an interval allows for the largest possible variance, beyond it for the one that the reports
show."""


class Law(NamedTuple):
    """The rows as floats, for estimators. Places are relative to the middle of the range."""

    chances: NDArray[np.float64]
    places: NDArray[np.float64]
    points: NDArray[np.float64]
    variances: NDArray[np.float64]


class GridMean(SymbolMechanism):
    """A mean from one symbol. Subclasses are frozen dataclasses without slots, so that derived values are cached."""

    kind: ClassVar[Kind] = "mean"
    bounds: Bounds
    steps: int

    @property
    @abstractmethod
    def rows(self) -> Sequence[Sequence[int]]:
        """Weights of the symbols for each grid point."""

    @property
    @abstractmethod
    def places(self) -> Sequence[Fraction]:
        """The place that each symbol stands for: 0 is the lower bound, 1 the upper."""

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Bounds)

    @property
    def domain(self) -> Bounds:
        return self.bounds

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.rows]

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> int:
        point = round_to_grid(value, self.bounds, self.steps, self.name, rng)
        return rng.pick(self._cumulative[point])

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        points = round_many_to_grid(values, self.bounds, self.steps, self.name, rng)
        drawn = rng.below(self._cumulative[0][-1], len(points))
        reports = np.zeros(len(points), np.int64)
        for point, cumulative in enumerate(self._cumulative):
            mine = points == point
            reports[mine] = np.searchsorted(np.array(cumulative[:-1], np.int64), drawn[mine], side="right")
        return reports

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Draw the number of devices at each grid point after rounding, then each point's counts of symbols."""
        from hubbub.mechanisms._crowd_simulation import per_grid_point

        points = per_grid_point(values, counts, self.bounds, self.steps, self.name, rng)
        return self._simulate_columns(points, self._law.chances, rng)

    def face(self, report: int) -> Fraction:
        return self.bounds.lower + self.bounds.width * self.places[report]

    def _in_reach(self) -> str:
        """The numbers that a report can be, in words."""
        least, most = (amount(float(self.face(self.places.index(end)))) for end in (min(self.places), max(self.places)))
        return f"{count(self.symbols)} numbers from {least} to {most}"

    # -- the claim ------------------------------------------------------------------------------

    def inputs(self) -> list[Fraction]:
        return [self.bounds.lower + self.bounds.width * point / self.steps for point in range(self.steps + 1)]

    def loss(self) -> Fraction:
        return log_above(max(Fraction(max(column), min(column)) for column in zip(*self.rows, strict=True)))

    def likelihood(self, report: int, value: Any) -> float:
        up, whole = position(value, self.bounds, self.name)
        below, rest = divmod(up * self.steps, whole)
        share, rows = Fraction(rest, whole), self.rows
        weight = (1 - share) * rows[below][report] + (share * rows[below + 1][report] if rest else 0)
        return float(weight / sum(rows[0]))

    def amplification(self) -> Amplification:
        """All pairs of grid points, up to mirroring. Symbols with proportional weights at all points form one class."""
        total, last = sum(self.rows[0]), self.steps
        classes: dict[tuple[int, ...], int] = {}
        for column in zip(*self.rows, strict=True):
            common = math.gcd(*column)
            shape = tuple(weight // common for weight in column)
            classes[shape] = classes.get(shape, 0) + common
        least = {shape: min(shape) for shape in classes}
        masses = tuple(Fraction(common * least[shape], total) for shape, common in classes.items())
        # few weights occur in a column, and equal ratios are one object, which the accountant rounds once
        kinds = [{weight: Fraction(weight, least[shape]) for weight in set(shape)} for shape in classes]
        ratios = tuple(
            tuple(kind[shape[i]] for shape, kind in zip(classes, kinds, strict=True)) for i in range(last + 1)
        )
        pairs = tuple((a, b) for a in range(last + 1) for b in range(a + 1, last + 1) if a + b <= last)
        return Amplification(Table(masses, ratios, pairs))

    def influence(self) -> float:
        return float(self.bounds.width * (max(self.places) - min(self.places)))

    @cached_property
    def _variances(self) -> list[float]:
        """Variance of the place at each grid point. Without numpy, because compiling a codebook compares them."""
        places, total = [float(place) for place in self.places], float(sum(self.rows[0]))
        points = [i / self.steps for i in range(self.steps + 1)]
        return [
            math.fsum(weight * (place - point) ** 2 for weight, place in zip(row, places, strict=True)) / total
            for point, row in zip(points, self.rows, strict=True)
        ]

    def typical_variance(self) -> float:
        return 4 * self._worst(self._variances)

    def _worst(self, levels: Sequence[float]) -> float:
        """The largest variance of any value, given the variances at the points. Between two points it is a parabola."""
        step = 1 / self.steps
        found = []
        for low, high in pairwise(levels):
            share = min(max(0.5 + (high - low) / (2 * step * step), 0.0), 1.0)
            found.append(low + share * (high - low) + step * step * share * (1 - share))
        return max(found)

    # -- at the aggregator ----------------------------------------------------------------------

    @cached_property
    def _law(self) -> Law:
        import numpy as np

        chances = np.array(self.rows, np.float64) / float(sum(self.rows[0]))
        half = Fraction(1, 2)
        places = np.array([float(place - half) for place in self.places])
        points = np.arange(self.steps + 1) / self.steps - 0.5
        return Law(chances, places, points, np.array(self._variances))

    @cached_property
    def _seen(self) -> float:
        """The b for which V - b E[place^2] is most nearly the same at all points: the share that the reports show."""
        import numpy as np

        law = self._law
        squares = law.points**2 - (law.points**2).mean()
        if not squares.any():
            return 0.0
        slope = float(squares @ (law.variances + law.points**2) / (squares @ squares))
        return float(np.clip(1 - 1 / slope, 0, 1)) if slope > 0 else 0.0

    def estimate(self, tally: Tally) -> Estimate:
        import numpy as np

        refuse_empty(tally.reports)
        middle, width = float(self.bounds.lower + self.bounds.width / 2), float(self.bounds.width)
        mean = tally.cells @ self._law.places / tally.reports
        return Estimate(
            tally.reports, np.array([middle + width * mean]), np.array([width**2 * self._stated(tally) / tally.reports])
        )

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,  # noqa: ARG002  there is only one value
    ) -> Interval:
        """To each side, as many standard deviations as the sum of errors can stray, whatever the devices hold."""
        refuse_empty(tally.reports)
        n, alpha = tally.reports, _intervals.miss(confidence)
        far = _strays(self, n, alpha)
        few = n <= FEW_REPORTS
        if population == "superpopulation":
            half, kind = self._superpopulation(tally, alpha, far), "superpopulation, Student"
        else:
            variance = self._worst(self._variances) if few else self._stated(tally)
            half = far * math.sqrt(variance / n) + self._gap / (2 * n)
            kind = "devices that reported, error law" + (" at its widest" if few else "")
        centre = self.estimate(tally).values
        half *= float(self.bounds.width)
        return _intervals.labelled(centre - half, centre + half, confidence, kind)

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        import numpy as np

        scaled = positions(truth, self.bounds, self.name) * self.steps
        rest = scaled - np.floor(scaled)
        between = np.interp(scaled, np.arange(self.steps + 1), self._law.variances)
        return np.array([float(self.bounds.width) ** 2 * (between + rest * (1 - rest) / self.steps**2).mean()])

    @cached_property
    def _gap(self) -> float:
        """The largest distance from one place to the next. A sum moves in such jumps and shows nothing between them."""
        import numpy as np

        return float(np.diff(np.sort(self._law.places)).max())

    def _stated(self, tally: Tally) -> float:
        """The largest average variance of one report that fits the reports.

        They show E[place^2], and its share in V is known.
        """
        seen, law = self._seen, self._law
        square = float(tally.cells @ law.places**2) / tally.reports
        unseen = self._worst((law.variances - seen * (law.variances + law.points**2)).tolist())
        return max(unseen + seen * square, min(self._variances))

    def _superpopulation(self, tally: Tally, alpha: float, far: float) -> float:
        """Half the width, from the spread that the reports show, but at least what noise and rounding cause."""
        from scipy.special import stdtrit

        n, places = tally.reports, self._law.places
        if n < 2:
            return math.inf
        mean = float(tally.cells @ places) / n
        spread = float(tally.cells @ (places - mean) ** 2) / (n - 1)
        student = float(stdtrit(n - 1, 1 - alpha / 2))
        return max(student, far) * math.sqrt(max(spread, self._worst(self._variances)) / n) + self._gap / (2 * n)


@lru_cache(maxsize=1024)
def _strays(mechanism: GridMean, reports: int, alpha: float) -> float:
    """How far the sum of errors strays, for devices at and between some points up to the middle.

    Their mirror images stray as far to the other side.
    """
    import numpy as np

    law, middle = mechanism._law, mechanism.steps // 2
    held = np.unique(np.linspace(0, middle, min(middle + 1, _POINTS)).round())
    between = [cell + share for cell in {0, (mechanism.steps - 1) // 2} for share in _SHARES]
    held = np.concatenate([held, between])
    below = np.minimum(held.astype(int), mechanism.steps - 1)
    share = (held - below)[:, None]
    chances = (1 - share) * law.chances[below] + share * law.chances[below + 1]
    points = held / mechanism.steps - 0.5
    return _sum_quantile.quantile(law.places - points[:, None], chances, reports, alpha)
