"""Mechanisms over bins in order that answer for any weighted sum of the bins' shares: estimator, variance, interval."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from hubbub.mechanisms import _intervals
from hubbub.mechanisms._weighted_sums import Channel, WeightedSums
from hubbub.mechanisms.base import Kind, Mechanism, Population, Report
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class AnswersRanges(Mechanism[Report]):
    """A mechanism whose law is a mixture of components over bins."""

    __slots__ = ()

    kind: ClassVar[Kind] = "frequency"

    @abstractmethod
    def channel(self) -> Channel:
        """The components with their chances."""

    def weighted_sums(self, weights: ArrayLike) -> WeightedSums:
        return self.channel().sums(weights)

    def precision(self) -> NDArray[np.float64]:
        return self.channel().precision()

    def influence(self) -> float:
        return self.channel().shares().influence

    def estimate(self, tally: Tally) -> Estimate:
        return self.channel().shares().estimate(tally)

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        """Covariance of all estimates, for differences and sums of bins."""
        return self.channel().shares().covariance(tally)

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        together = _intervals.comparisons(self.channel().size, simultaneous, complementary=True)
        return self.channel().shares().interval(tally, confidence, population=population, together=together)

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        import numpy as np

        return np.asarray(self.channel().shares().contributions @ np.asarray(truth, np.float64))

    def typical_variance(self) -> float:
        """Of the share in the first k bins, averaged over k and for equal shares of all bins."""
        return self.channel().typical_variance()
