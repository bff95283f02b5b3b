r"""Pure frequency oracles: a report supports an item with probability p if it is held, q if not.

With C supporting reports of n, for a frequency f of the devices that reported,

    fhat = (C/n - q) / (p - q)                      unbiased
    n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q)

exactly, since noise is the only randomness (Wang, Blocki, Li and Jha, USENIX Security 2017, section 3, give
the same for a small f; the term linear in f is exact). A population frequency adds f (1 - f).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _intervals
from hubbub.mechanisms.base import Kind, Mechanism, Population, Report
from hubbub.mechanisms.domains import Categories
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.number_format import count, probability

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness


class PureOracle(Mechanism[Report]):
    """Estimator, variance and interval of every mechanism that has a p and a q."""

    __slots__ = ()

    kind: ClassVar[Kind] = "frequency"

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """Probability that a report supports the item its device holds."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """Probability that a report supports a given item its device does not hold."""

    def supports(self, tally: Tally) -> NDArray[np.int64]:
        """Reports that support each item."""
        return tally.cells

    def estimate(self, tally: Tally) -> Estimate:
        return estimate(self.supports(tally), tally.reports, float(self.p), float(self.q))

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        return interval(
            self.supports(tally),
            tally.reports,
            float(self.p),
            float(self.q),
            confidence=confidence,
            population=population,
            simultaneous=simultaneous,
            complementary=self.complementary,
        )

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        return variance(truth, float(self.p), float(self.q))

    def typical_variance(self) -> float:
        assert isinstance(self.domain, Categories)  # noqa: S101  a frequency is of categories; for the type checker
        return at(1 / self.domain.size, float(self.p), float(self.q))


def refuse_empty(reports: int) -> None:
    """Raise InvalidParameter if there is no report to estimate from."""
    if reports < 1:
        raise InvalidParameter("there are no reports to estimate from")


def variance(frequencies: ArrayLike, p: float, q: float) -> NDArray[np.float64]:
    """n Var of each estimated frequency, given the true ones."""
    import numpy as np

    return np.asarray(at(0.0, p, q) + np.asarray(frequencies, np.float64) * (1 - p - q) / (p - q))


def at(frequency: float, p: float, q: float) -> float:
    """n Var at one frequency. Without numpy, because a device may compare mechanisms, too."""
    return q * (1 - q) / (p - q) ** 2 + frequency * (1 - p - q) / (p - q)


def estimate(counts: NDArray[np.int64], reports: int, p: float, q: float) -> Estimate:
    """Unbiased frequencies. The variance is linear in f, so at fhat it is unbiased, too."""
    import numpy as np

    refuse_empty(reports)
    values = (counts / reports - q) / (p - q)
    # no true frequency has a smaller variance than the smaller of those at f = 0 and f = 1
    least = min(at(0.0, p, q), at(1.0, p, q))
    return Estimate(reports, values, np.maximum(variance(values, p, q), least) / reports)


class NamesOneItem(PureOracle[Report]):
    """A pure oracle whose report supports exactly one item, so that one item's gain is the others' loss."""

    __slots__ = ()

    complementary: ClassVar[bool] = True

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """A report is the truth with probability p - q, otherwise uniform over all d items, since p + (d - 1) q = 1."""
        import numpy as np

        from hubbub.mechanisms._crowd_simulation import per_item

        assert isinstance(self.domain, Categories)  # noqa: S101  as above
        held = per_item(values, counts, self.domain.size, self.name)
        kept = rng.binomial(held, float(self.p - self.q))
        reports = int(held.sum())
        drawn = rng.multinomial(reports - int(kept.sum()), np.ones(self.domain.size))
        return Tally(self.fingerprint, reports, kept + drawn)

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        r"""Covariance of all estimates, for differences and sums of items.

        Off the diagonal n Cov = -(q^2 + q (p - q) (f_i + f_j)) / (p - q)^2, since no report supports both items.
        """
        import numpy as np

        found, p, q = self.estimate(tally), float(self.p), float(self.q)
        sums = found.values[:, None] + found.values[None, :]
        matrix = -(q * q + q * (p - q) * sums) / (p - q) ** 2 / tally.reports
        np.fill_diagonal(matrix, variance(found.values, p, q) / tally.reports)
        return np.asarray(matrix)


class UncorrelatedItems(PureOracle[Report]):
    """A pure oracle whose reports support any two items independently, whatever the device holds.

    The errors of different items are then uncorrelated: the variance of a sum or difference is the sum of variances.
    """

    __slots__ = ()

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        """Covariance of all estimates, a diagonal matrix. For long lists use the variances of `estimate` instead."""
        import numpy as np

        found = self.estimate(tally)
        return np.diag(variance(found.values, float(self.p), float(self.q)) / tally.reports)


def interval(
    counts: NDArray[np.int64],
    reports: int,
    p: float,
    q: float,
    *,
    confidence: float,
    population: Population,
    simultaneous: bool,
    complementary: bool = True,
) -> Interval:
    """Exact limits if the counts have little spread, otherwise score limits. Clopper-Pearson for a superpopulation.

    They may lie below 0 or above 1, as the unbiased estimates may, and always have the estimate between them.
    """
    refuse_empty(reports)
    together = _intervals.comparisons(len(counts), simultaneous, complementary)
    alpha = _intervals.miss(confidence, together)
    found = estimate(counts, reports, p, q).values
    if population == "superpopulation":
        low, high = _intervals.clopper_pearson(counts, reports, alpha)
        low, high, kind = (low - q) / (p - q), (high - q) / (p - q), "superpopulation, Clopper-Pearson"
    elif reports * min(p * (1 - p), q * (1 - q)) <= _intervals.LITTLE_SPREAD:
        inverted = _intervals.two_binomials(counts, reports, alpha, p, q)
        low, high = _intervals.continued(inverted, _score(counts, reports, alpha, p, q))
        kind = "devices that reported, exact"
    else:
        low, high = _score(counts, reports, alpha, p, q)
        kind = "devices that reported, score"
    low, high = _intervals.around(found, (low, high))
    return _intervals.labelled(low, high, confidence, kind, together)


def _score(counts: NDArray[np.int64], reports: int, alpha: float, p: float, q: float) -> _intervals.Limits:
    low, high = _intervals.corrected_counts(counts, reports, alpha, p, q)
    values = ((low / reports - q) / (p - q), (high / reports - q) / (p - q))
    return _intervals.score(values, reports, alpha, at(0.0, p, q), (1 - p - q) / (p - q))


def opposite(p: Fraction, q: Fraction) -> str:
    """The law of a report that says one of two values, in words."""
    return (
        f"Each device tells the truth with probability {probability(float(p))} and says the opposite with probability "
        f"{probability(float(q))}; it tosses that coin itself, and no one else learns the outcome."
    )


def one_of_many(p: Fraction, q: Fraction, size: int) -> str:
    """The law of a report that names one value, in words."""
    if size == 2:
        return opposite(p, q)
    return (
        f"Each device tells the truth with probability {probability(float(p))}, and otherwise names one of the other "
        f"{count(size - 1)} values, all equally likely; no one else learns which of the two happened."
    )
