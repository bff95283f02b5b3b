r"""Mean of a bounded number by discrete Laplace noise on a grid of integers.

The value is clamped and rounded at random, without bias, to one of m + 1 grid points. Then an integer k is added, with
P[k] proportional to alpha^|k|, alpha = exp(-eps/m). The whole range is m steps, so the ratio is at most
alpha^-m = e^eps. On a range of width 1, with r the rounding fraction,

    n Var = [ 2 alpha / (1 - alpha)^2 + r (1 - r) ] / m^2

The noise is drawn exactly, by Algorithm 2 of Canonne, Kamath and Steinke (arXiv 2004.00010). A report is clamped
to a fixed range that reaches so far out that the resulting bias is below 2**-40 of the noise scale. Clamping the
output is post-processing and costs no privacy. Float Laplace noise is not private (Mironov, CCS 2012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue, MalformedReport, MalformedTally
from hubbub.mechanisms import _intervals
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below
from hubbub.mechanisms._frequency_oracle import refuse_empty
from hubbub.mechanisms._grid_rounding import clamped, position, positions, round_many_to_grid, round_to_grid
from hubbub.mechanisms._parameters import bounds_of, integers, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms.amplification_data import Amplification, Table
from hubbub.mechanisms.base import Json, Kind, Mechanism, Population
from hubbub.mechanisms.domains import Bounds, Domain
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.number_format import amount
from hubbub.randomness import discrete_laplace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

CLAMPED = Fraction(2_772_588_722_240, 10**11)
"""40 ln 2, rounded up: a draw is clamped with probability below 2**-40."""
FINEST = 10**6
"""Epsilon is rounded down to a fraction with at most this denominator."""
FINEST_GRID = 64
"""Steps of the finest grid. The accountant looks at all pairs of points, and the rounding is already small compared
with the noise."""
FEW_REPORTS = 100
"""Up to this many reports the noise law itself gives the interval. Beyond it, the sum is normal for all purposes."""


@register("laplace")
@dataclass(frozen=True, slots=True)
class DiscreteLaplaceMean(Mechanism[int]):
    """Noise exp(-|k| rate/scale) on a grid of `steps`. Reports are from -reach to steps + reach."""

    kind: ClassVar[Kind] = "mean"
    regime: ClassVar[str] = "a mean with the classical noise: twice the best variance, easily explained"

    epsilon: Fraction
    bounds: Bounds
    steps: int
    scale: int
    rate: int
    reach: int

    def __post_init__(self) -> None:
        if min(self.steps, self.scale, self.rate, self.reach) < 1 or self.steps > FINEST_GRID:
            raise InvalidParameter(f"laplace: all parameters must be positive, and steps at most {FINEST_GRID}")
        if self.reach < _reach(self.scale, self.rate):
            raise InvalidParameter(
                f"laplace: a reach of {self.reach} would clamp reports often enough to bias the mean"
            )
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Bounds)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, steps: int | None = None, **options: Any) -> Self:
        """`steps` defaults to a grid that is, after shuffling, within 0.1 % of continuous noise for epsilon up to 4."""
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        if steps is None:
            steps = min(max(16, 1 << math.ceil(16 * exact - 1).bit_length()), FINEST_GRID)
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= FINEST_GRID:
            problem = f"laplace: steps must be a whole number from 1 to {FINEST_GRID}, got {steps!r}"
            raise InvalidParameter(problem, "correct it, or leave it out")
        spent = exact if exact.denominator <= FINEST else Fraction(int(exact * FINEST), FINEST)
        ratio = steps / spent
        return cls(
            exact,
            bounds_of(cls, domain),
            steps,
            ratio.numerator,
            ratio.denominator,
            _reach(ratio.numerator, ratio.denominator),
        )

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        found = integers(cls.name, parameters, ["steps", "scale", "rate", "reach"])
        return cls(exact_epsilon(epsilon), bounds_of(cls, domain), *found)

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        grids = (1, 3) if epsilon >= 0.1 else (1,)  # a small epsilon has a long law
        return [cls.calibrate(epsilon, Bounds(Fraction(-1), Fraction(3)), steps=steps) for steps in grids]

    def parameters(self) -> dict[str, Json]:
        return {
            "steps": self.steps,
            "scale": str(self.scale),
            "rate": str(self.rate),
            "reach": str(self.reach),
        }

    @property
    def domain(self) -> Bounds:
        return self.bounds

    @property
    def alpha(self) -> float:
        """Ratio of neighbouring noise probabilities."""
        return math.exp(-self.rate / self.scale)

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> int:
        point = round_to_grid(value, self.bounds, self.steps, "laplace", rng)
        noisy = point + discrete_laplace(rng, self.scale, self.rate)
        return min(max(noisy, -self.reach), self.steps + self.reach)

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        points = round_many_to_grid(values, self.bounds, self.steps, "laplace", rng)
        noisy = points + rng.discrete_laplace(self.scale, self.rate, len(points))
        return np.asarray(np.clip(noisy, -self.reach, self.steps + self.reach))

    @property
    def report_bytes(self) -> int:
        return ((self.steps + 2 * self.reach).bit_length() + 7) // 8

    def encode(self, report: int) -> bytes:
        if not -self.reach <= report <= self.steps + self.reach:
            raise InvalidValue(f"a laplace report is from {-self.reach} to {self.steps + self.reach}, got {report}")
        return (report + self.reach).to_bytes(self.report_bytes)

    def decode(self, payload: bytes) -> int:
        if len(payload) != self.report_bytes:
            raise MalformedReport(f"a laplace report has {self.report_bytes} bytes, got {len(payload)}")
        report = int.from_bytes(payload) - self.reach
        if report > self.steps + self.reach:
            raise MalformedReport(f"a laplace report is at most {self.steps + self.reach}, got {report}")
        return report

    def in_words(self) -> str:
        fall = self.alpha  # ratio of each step of noise to the one before
        spread = math.sqrt(2 * fall) / (1 - fall) / self.steps * float(self.bounds.width)
        return (
            f"{clamped(self.bounds)}, rounds it at random to one of {self.steps + 1} steps and adds discrete Laplace "
            f"noise with a standard deviation of about {amount(spread)}."
        )

    def face(self, report: int) -> Fraction:
        return self.bounds.lower + self.bounds.width * Fraction(report, self.steps)

    # -- the claim ------------------------------------------------------------------------------

    def inputs(self) -> list[Fraction]:
        return [self.bounds.lower + self.bounds.width * point / self.steps for point in range(self.steps + 1)]

    def outputs(self) -> range:
        return range(-self.reach, self.steps + self.reach + 1)

    def loss(self) -> Fraction:
        return Fraction(self.steps * self.rate, self.scale)

    def likelihood(self, report: int, value: Any) -> float:
        up, whole = position(value, self.bounds, "laplace")
        below, rest = divmod(up * self.steps, whole)
        share = rest / whole
        return (1 - share) * self._noise(report, below) + (share * self._noise(report, below + 1) if rest else 0.0)

    def _noise(self, report: int, point: int) -> float:
        """P[report | grid point]. Each of the two outermost reports stands for a whole tail."""
        tail = report in (-self.reach, self.steps + self.reach)
        density = 1 / (1 + self.alpha) if tail else -math.expm1(-self.rate / self.scale) / (1 + self.alpha)
        return density * math.exp(-abs(report - point) * self.rate / self.scale)

    def amplification(self) -> Amplification:
        r"""All pairs of grid points, up to mirroring. Nothing is assumed about which is the worst.

        With c = (1 - alpha)/(1 + alpha) and R_a(y) = c alpha^|y-a|, the blanket min over a of R_a(y) is attained
        at the end that is farther from y. Below 0 and above m all ratios are constant, so two atoms hold the tails.
        """
        m = self.steps
        rising = [exp_below(Fraction(k * self.rate, self.scale)) for k in range(m + 1)]  # alpha^-k
        alpha = 1 / rising[1]
        density, tail = (1 - alpha) / (1 + alpha), 1 / (1 + alpha)
        far = [max(y, m - y) for y in range(m + 1)]
        # y = 0 and y = m stand for the half-lines that end there
        mass = [(tail if y in (0, m) else density) / rising[far[y]] for y in range(m + 1)]

        ratios = tuple(tuple(rising[far[y] - abs(y - a)] for y in range(m + 1)) for a in range(m + 1))
        pairs = tuple((a, b) for a in range(m + 1) for b in range(a + 1, m + 1) if a + b <= m)
        return Amplification(Table(tuple(mass), ratios, pairs))

    def influence(self) -> float:
        return float(self.bounds.width * (self.steps + 2 * self.reach) / self.steps)

    # -- at the aggregator ----------------------------------------------------------------------

    @property
    def cells(self) -> int:
        return 2

    def tally(self, reports: ArrayLike) -> Tally:
        """The sum and the sum of squares."""
        import numpy as np

        array = np.asarray(reports)
        if array.size and array.dtype.kind not in "iu":
            raise InvalidValue(f"laplace reports are whole numbers, got an array of {array.dtype}")
        array = array.astype(np.int64)
        if array.size and not -self.reach <= int(array.min()) <= int(array.max()) <= self.steps + self.reach:
            raise InvalidValue(f"a laplace report is from {-self.reach} to {self.steps + self.reach}")
        if len(array) * (self.steps + self.reach) ** 2 >= 2**63:
            raise MalformedTally("there are too many reports for one 64-bit sum of squares; tally them in parts")
        return Tally(self.fingerprint, len(array), np.array([array.sum(), (array * array).sum()], np.int64))

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Draw the number of devices at each grid point, then each point's counts of reports."""
        import numpy as np

        from hubbub.mechanisms._crowd_simulation import per_grid_point

        points = per_grid_point(values, counts, self.bounds, self.steps, "laplace", rng)
        reports, cells = np.array(self.outputs()), np.zeros(2, np.int64)
        for point in np.flatnonzero(points):
            seen = rng.multinomial(int(points[point]), self._noise_law(int(point)))
            cells += [seen @ reports, seen @ reports**2]
        return Tally(self.fingerprint, int(points.sum()), cells)

    def _noise_law(self, point: int) -> NDArray[np.float64]:
        """`_noise` of every report."""
        import numpy as np

        law = np.exp(-np.abs(np.array(self.outputs()) - point) * (self.rate / self.scale))
        law[1:-1] *= -math.expm1(-self.rate / self.scale)
        return np.asarray(law / (1 + self.alpha))

    def _refuse_impossible(self, tally: Tally) -> None:
        total, squares = int(tally.cells[0]), int(tally.cells[1])
        # Cauchy and Schwarz: n sum y^2 >= (sum y)^2
        if squares * tally.reports < total * total or squares > tally.reports * (self.steps + self.reach) ** 2:
            raise MalformedTally("no set of laplace reports has this sum and sum of squares")

    def estimate(self, tally: Tally) -> Estimate:
        import numpy as np

        refuse_empty(tally.reports)
        values = self._rescale(tally.cells[:1] / tally.reports)
        return Estimate(tally.reports, values, np.array([self._unit() ** 2 * self._spread() / tally.reports]))

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,  # noqa: ARG002  there is only one value
    ) -> Interval:
        """The quantiles of the noise, whose law is known. For few reports they are exact."""
        refuse_empty(tally.reports)
        alpha = _intervals.miss(confidence)
        centre = tally.cells[:1] / tally.reports
        if population == "superpopulation":
            half, kind = self._superpopulation(tally, alpha), "superpopulation, Student"
        elif tally.reports <= FEW_REPORTS:
            half, kind = (
                _noise_quantile(self.scale, self.rate, tally.reports, alpha),
                "devices that reported, noise law",
            )
        else:
            half = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(self._spread() / tally.reports)
            kind = "devices that reported, normal"
        low, high = self._rescale(centre - half), self._rescale(centre + half)
        return _intervals.labelled(low, high, confidence, kind)

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        import numpy as np

        scaled = positions(truth, self.bounds, "laplace") * self.steps
        rest = scaled - np.floor(scaled)
        return np.array([self._unit() ** 2 * (self._noise_variance() + (rest * (1 - rest)).mean())])

    def typical_variance(self) -> float:
        return (2 / self.steps) ** 2 * self._spread()

    def _unit(self) -> float:
        """One grid step, in the metric's unit."""
        return float(self.bounds.width) / self.steps

    def _rescale(self, grid: NDArray[np.float64]) -> NDArray[np.float64]:
        return float(self.bounds.lower) + self._unit() * grid

    def _noise_variance(self) -> float:
        """2 alpha / (1 - alpha)^2, in a form that stays precise when alpha is near one."""
        return 0.5 / math.sinh(self.rate / self.scale / 2) ** 2

    def _spread(self) -> float:
        """Variance of the noise plus the most that rounding can add, in grid steps squared."""
        return self._noise_variance() + 0.25

    def _superpopulation(self, tally: Tally, alpha: float) -> float:
        """Half the width, from the spread that the reports show, but at least what noise and rounding cause."""
        from scipy.special import stdtrit

        n, total, squares = tally.reports, int(tally.cells[0]), int(tally.cells[1])
        if n < 2:
            return math.inf
        spread = (squares - total * total / n) / (n - 1)
        return float(stdtrit(n - 1, 1 - alpha / 2)) * math.sqrt(max(spread, self._spread()) / n)


@lru_cache(maxsize=1024)
def _noise_quantile(scale: int, rate: int, reports: int, alpha: float) -> float:
    """Half width that the mean of `reports` noises, each with a fair rounding error, exceeds with chance alpha.

    The law is computed by convolution on a lattice of half steps. A very fine grid is first made
    coarser, to a noise of 256 steps' scale, which changes every quantile by less than one in ten thousand.
    """
    import numpy as np

    coarse = min(1.0, 256 * rate / scale)
    ratio = rate / scale / coarse
    window = int((80 + 12 * math.sqrt(2 * reports)) / ratio) + reports + 1
    size = 1 << (4 * window).bit_length()
    k = np.arange(-window, window + 1)
    law = np.zeros(size)
    law[(2 * k) % size] = math.tanh(ratio / 2) * np.exp(-np.abs(k) * ratio)
    rounding = np.zeros(size)
    if coarse == 1.0:
        rounding[[1, -1]] = 0.5
    else:
        rounding[0] = 1.0
    summed = np.fft.irfft((np.fft.rfft(law) * np.fft.rfft(rounding)) ** reports, size)
    beyond = 2 * np.cumsum(summed[size // 2 :: -1])[::-1]  # P[|sum| >= j half steps], by symmetry
    return float(np.argmax(beyond <= alpha)) / 2 / reports / coarse


def _reach(scale: int, rate: int) -> int:
    """Steps beyond which a draw falls with probability below 2**-40."""
    return math.ceil(CLAMPED * scale / rate)
