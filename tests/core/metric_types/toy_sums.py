"""The part that toys share which publish sums of the shares that a mechanism estimates."""

from __future__ import annotations

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from hubbub.mechanisms import Estimate, Interval, Tally
from hubbub.mechanisms._frequency_oracle import NamesOneItem
from hubbub.metric_types import MetricType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms import Mechanism
    from hubbub.mechanisms.base import Population


class SumsOfShares(MetricType):
    """Values that are weighted sums of shares."""

    __slots__ = ()

    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """A row for each value of the result, a column for each input of the mechanism."""

    def estimate(self, mechanism: Mechanism[Any], tally: Tally) -> Estimate:
        import numpy as np

        assert isinstance(mechanism, NamesOneItem)
        weights, found = self.weights(), mechanism.estimate(tally)
        variances = np.diag(weights @ mechanism.covariance(tally) @ weights.T)
        return Estimate(tally.reports, weights @ found.values, np.asarray(variances))

    def interval(
        self,
        mechanism: Mechanism[Any],
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",  # noqa: ARG002  a toy
        simultaneous: bool = False,
    ) -> Interval:
        together = len(self.labels()) if simultaneous else 1
        found = self.estimate(mechanism, tally)
        far = NormalDist().inv_cdf(1 - (1 - confidence) / 2 / together) * found.stderr
        return Interval(found.values - far, found.values + far, confidence, "normal", together)

    def influence(self, mechanism: Mechanism[Any]) -> float:
        weights = self.weights()
        return mechanism.influence() * float((weights.max(axis=1) - weights.min(axis=1)).max())

    def expected_error(self, mechanism: Mechanism[Any], reports: int) -> float:
        """Where all inputs are held alike: the root of the mean of the variances of all values."""
        import numpy as np

        assert isinstance(mechanism, NamesOneItem)
        weights, alike = self.weights(), mechanism.tally(mechanism.outputs())
        variances = np.diag(weights @ mechanism.covariance(alike) @ weights.T) * alike.reports
        return float(np.sqrt(variances.mean() / reports)) if reports else math.inf

    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        import numpy as np

        return np.asarray(self.weights() @ self.domain.truth(inputs, counts))
