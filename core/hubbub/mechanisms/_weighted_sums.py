r"""Weighted sums of estimated shares, such as the share of a range of bins: estimates, exact variances and intervals.

For a channel P(y|x) over bins x, a reference law f and weights w over the bins, let pbar = P f and
J = sum_y P_y P_y' / pbar_y. The estimate

    (1/n) sum over reports of v(y),     v(y) = w' J^-1 P_y / pbar_y

is unbiased for every truth, since sum_y P(y|x) v(y) = w(x), and no linear unbiased estimate has a smaller variance
if the truth is f (Gauss and Markov). Its variance is linear in the truth g:

    n Var = sum_x g_x A(x),     A(x) = sum_y P(y|x) v(y)^2 - w(x)^2

Components that a private coin draws with chances c_l are one channel. Where a component has too many reports to list,
its counts T (which cells a set has) stand for them: with H = E[T | x] and M = E[T T'] at the reference,
J = sum_l c_l H_l' M_l^-1 H_l, and v = w' J^-1 H_l' M_l^-1 T. The reference is the uniform law: it is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _intervals
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._channel_component import Component
    from hubbub.mechanisms.base import Population
    from hubbub.mechanisms.tallies_and_estimates import Tally

__all__ = ["Channel", "Part", "WeightedSums", "information"]


class Part(NamedTuple):
    """A component with the chance that it is drawn, and the chance that its report is a near one."""

    component: Component
    drawn: float
    near: float


@dataclass(frozen=True, slots=True)
class Channel:
    """A mixture of components over `size` bins. A tally holds the counts of one component after the other."""

    size: int
    parts: tuple[Part, ...]

    def sums(self, weights: ArrayLike) -> WeightedSums:
        """Estimates of the sums with these weights: one row for each sum, one column for each bin."""
        import numpy as np

        return WeightedSums(self, np.atleast_2d(np.asarray(weights, np.float64)))

    def shares(self) -> WeightedSums:
        """Estimates of the share of each bin."""
        return _shares(self)

    def firsts(self) -> WeightedSums:
        """Estimates of the share in the first k bins, for k from 1 to one less than there are."""
        return _firsts(self)

    def precision(self) -> NDArray[np.float64]:
        """J."""
        import numpy as np

        return np.asarray(sum(part.drawn * information(part, self.size)[1] for part in self.parts))

    def typical_variance(self) -> float:
        """The number of reports times the variance of the share in the first k bins, at equal shares of all bins;
        averaged over k."""
        return float(self.firsts().contributions.mean())


def information(part: Part, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """H' M^-1 and H' M^-1 H of one component, at equal shares of all bins."""
    import numpy as np

    means = part.component.means(part.near)
    moments = part.component.second_moments(np.full(size, 1 / size), part.near)
    gain = np.asarray(np.linalg.solve(moments, means).T, np.float64)
    return gain, gain @ means


@lru_cache(maxsize=32)
def _table(channel: Channel) -> NDArray[np.float64]:
    """B: estimated shares are B times the counts of a tally, over the number of reports."""
    import numpy as np

    found = [information(part, channel.size) for part in channel.parts]
    total = sum(part.drawn * matrix for part, (_, matrix) in zip(channel.parts, found, strict=True))
    return np.asarray(np.linalg.solve(total, np.hstack([gain for gain, _ in found])))


@lru_cache(maxsize=32)
def _shares(channel: Channel) -> WeightedSums:
    import numpy as np

    return channel.sums(np.eye(channel.size))


@lru_cache(maxsize=32)
def _firsts(channel: Channel) -> WeightedSums:
    import numpy as np

    return channel.sums(np.tri(channel.size - 1, channel.size))


class WeightedSums:
    """Estimates of some weighted sums of the shares of bins."""

    def __init__(self, channel: Channel, weights: NDArray[np.float64]) -> None:
        import numpy as np

        self.channel, self.weights = channel, weights
        self._values = weights @ _table(channel)
        ends = np.cumsum([part.component.cells for part in channel.parts])[:-1]
        self._by_part = np.split(self._values, ends, axis=1)
        both = [part.component.extremes(rows) for part, rows in self._parts()]
        self.least, self.most = np.min([low for low, _ in both], axis=0), np.max([high for _, high in both], axis=0)
        """The least and the largest value of one report."""
        squares = sum(part.drawn * part.component.mean_squares(rows, part.near) for part, rows in self._parts())
        self.contributions: NDArray[np.float64] = np.asarray(squares) - weights**2
        """A: the variance of one report's value, by sum and bin of its device."""

    def _parts(self) -> list[tuple[Part, NDArray[np.float64]]]:
        return list(zip(self.channel.parts, self._by_part, strict=True))

    @property
    def influence(self) -> float:
        """Largest change of any of the sums when one report of n is replaced, times n."""
        return float((self.most - self.least).max())

    def estimate(self, tally: Tally) -> Estimate:
        """Unbiased sums. Their variances are unbiased, too, within what any truth can give."""
        import numpy as np

        _refuse_empty(tally)
        variances = np.clip(self.contributions @ self._shares_of(tally), *self._variance_limits())
        return Estimate(tally.reports, self._values @ tally.cells / tally.reports, variances / tally.reports)

    def _shares_of(self, tally: Tally) -> NDArray[np.float64]:
        return _table(self.channel) @ tally.cells / tally.reports

    def _variance_limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.contributions.min(axis=1), self.contributions.max(axis=1)

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        """Covariance of all the sums, unbiased."""
        import numpy as np

        _refuse_empty(tally)
        found = self._shares_of(tally)
        total = sum(
            part.drawn * rows @ part.component.second_moments(found, part.near) @ rows.T for part, rows in self._parts()
        )
        return np.asarray((total - (self.weights * found) @ self.weights.T) / tally.reports)

    def interval(
        self, tally: Tally, confidence: float, *, population: Population = "reports", together: int = 1
    ) -> Interval:
        """Limits of each sum, or of `together` sums at once.

        A mean of n terms of variance V and span s has normal tails at z if z^3 s / (6 sqrt(n V)) is small. If not,
        Bernstein's bound is used: P[|error| > sqrt(2 V L / n) + s L / (3 n)] <= 2 e^-L, with the largest V of a truth.
        """
        import numpy as np

        alpha = _intervals.miss(confidence, together)
        found, n, z = self.estimate(tally), tally.reports, _intervals.normal_quantile(alpha)
        span = self.most - self.least
        spread, widest = found.variances, self._variance_limits()[1] / n
        if population == "superpopulation":  # the sampling of devices adds the variance of the weights over the bins
            shares = self._shares_of(tally)
            between = self.weights**2 @ shares - (self.weights @ shares) ** 2
            width = (self.weights.max(axis=1) - self.weights.min(axis=1)) ** 2 / 4
            spread, widest = spread + np.clip(between, 0, width) / n, widest + width / n
        whom = "superpopulation" if population == "superpopulation" else "devices that reported"
        if self.is_normal_from(confidence, together) <= n:
            half, kind = z * np.sqrt(spread), "normal"
        else:
            level = math.log(2 / alpha)
            half, kind = np.sqrt(2 * widest * level) + span * level / (3 * n), "Bernstein"
        return _intervals.labelled(found.values - half, found.values + half, confidence, f"{whom}, {kind}", together)

    def is_normal_from(self, confidence: float, together: int = 1) -> float:
        """From how many reports on normal limits are used: earlier, the tails may be heavier."""
        z = _intervals.normal_quantile(_intervals.miss(confidence, together))
        least, _ = self._variance_limits()
        return float(((z**3 / 0.6 * (self.most - self.least)) ** 2 / least.clip(1e-300)).max())


def _refuse_empty(tally: Tally) -> None:
    if tally.reports < 1:
        raise InvalidParameter("there are no reports to estimate from")
