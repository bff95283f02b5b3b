"""One simulated period, and scores over many of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hubbub.bins_summary import Asked
from hubbub.errors import InvalidParameter
from hubbub.randomness import WORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.bins_summary import Summary
    from hubbub.codebook import Metric
    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.simulation.rows_as_devices import Column

__all__ = ["Scores", "Trial", "run"]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What one period's release says about each value, with the truth of the devices that reported."""

    reports: int
    truth: NDArray[np.float64]
    estimate: NDArray[np.float64]
    stderr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    summary: Summary | None = None
    """Of a number in bins: quantiles, mean, and shares below the edges, each with limits of its own."""

    @property
    def below(self) -> NDArray[np.float64]:
        """The true shares below the edges of bins."""
        return np.cumsum(self.truth)[:-1]

    @property
    def error(self) -> NDArray[np.float64]:
        return self.estimate - self.truth

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which intervals contain the truth, with a tolerance for the last digit of a float."""
        slack = 1e-12 * np.maximum(1.0, np.abs(self.truth))
        return np.asarray((self.low - slack <= self.truth) & (self.truth <= self.high + slack))


def run(column: Column, held: NDArray[np.int64], rng: CrowdRandomness, confidence: float = 0.95) -> Trial:
    """Simulate a period in which `held` devices hold each input (`Column.held`): coins, reports, estimate."""
    metric = column.metric
    if metric.share < 1:
        held = rng.binomial(held, metric.share_threshold / WORD)
    reports = int(held.sum())
    if not reports:
        raise InvalidParameter(
            f"no device reports {metric.name}, because its column is empty here; use more devices, or declare `missing`"
        )
    tally = metric.mechanism.simulate(column.inputs, held, rng)
    found, limits = metric.estimate(tally), metric.interval(tally, confidence)
    summary = metric.summary(tally, Asked(confidence, simultaneous=False))
    return Trial(reports, column.truth(held), found.values, found.stderr, limits.low, limits.high, summary)


@dataclass(slots=True, eq=False)
class Scores:
    """Error, recall and coverage over all trials of a metric. The first trial is kept, to be shown."""

    metric: Metric
    top: int = 10
    """How many of the largest values are looked for, at most half of all."""
    first: Trial | None = None
    trials: int = 0
    intervals: int = 0
    covered: int = 0
    largest: float = 0.0
    """Largest error of any value in any trial."""
    edges: int = 0
    """How many shares below edges were looked at, over all trials. 0 for a metric without bins."""
    _edge_squares: float = 0.0
    _edges_covered: int = 0
    _squares: float = 0.0
    _stated: float = 0.0
    _recalls: list[float] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        self.first = self.first or trial
        self.trials += 1
        self.intervals += len(trial.truth)
        self.covered += int(trial.covered.sum())
        if trial.summary is not None:
            found = np.array([[one.estimate, one.low, one.high] for one in trial.summary.below]).T
            self.edges += len(trial.below)
            self._edge_squares += float(((found[0] - trial.below) ** 2).sum())
            self._edges_covered += int(((found[1] <= trial.below) & (trial.below <= found[2])).sum())
        self.largest = max(self.largest, float(np.abs(trial.error).max()))
        self._squares += float((trial.error**2).sum())
        self._stated += float((trial.stderr**2).sum())
        if self.asked_top:
            self._recalls.append(_recall(trial, self.asked_top))

    @property
    def asked_top(self) -> int:
        """How many of the largest values are looked for, or 0 if there is nothing to rank."""
        size = len(self.metric.values.labels())
        return min(self.top, size // 2) if size > 2 else 0

    @property
    def rms(self) -> float:
        """Root of the mean squared error over values and trials."""
        return float(np.sqrt(self._squares / self.intervals))

    @property
    def stated(self) -> float:
        """The same mean, of the standard errors that the estimates state."""
        return float(np.sqrt(self._stated / self.intervals))

    @property
    def cdf_mse(self) -> float:
        """Mean squared error of the shares below edges."""
        return self._edge_squares / self.edges

    @property
    def cdf_coverage(self) -> float:
        """Share of the intervals of shares below edges, each by itself, that contain the truth."""
        return self._edges_covered / self.edges

    @property
    def coverage(self) -> float:
        """Share of all intervals that contain the truth."""
        return self.covered / self.intervals

    @property
    def recall(self) -> float | None:
        """Mean share of the largest values that the largest estimates name. None if nothing is ranked."""
        return float(np.mean(self._recalls)) if self._recalls else None


def _recall(trial: Trial, top: int) -> float:
    """The share of the `top` largest values that are named. Of values that tie for the last place, any counts."""
    named = np.argsort(-trial.estimate, kind="stable")[:top]
    least = np.partition(trial.truth, -top)[-top]
    return float((trial.truth[named] >= least).mean())
