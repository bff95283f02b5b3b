"""A distribution: quantiles, ranges, mean and a band of a number in bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hubbub_query.columns import Columns, guarantee, stacked
from hubbub_query.frame import Tabular
from hubbub_query.privacy import Manipulation, Privacy
from hubbub_query.values import PeriodRange

__all__ = ["Below", "Limits", "NumberDistribution", "NumberSegment", "Quantile", "QuantileShift", "RangeShare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A number with its limits; None where there is none."""

    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """The share of devices below an edge, with limits of its own, and those of the band over all edges."""

    edge: float
    estimate: float
    low: float
    high: float
    band_low: float
    band_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """The number below which a share q of the devices lies. A limit is None if it may lie beyond the edges."""

    q: float
    estimate: float
    low: float | None
    high: float | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeShare:
    """The share of devices from `lower` up to, not including, `upper`. `is_exact`: both are edges of bins."""

    lower: float
    upper: float
    estimate: float
    low: float
    high: float
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileShift:
    """How far a quantile moved since other periods."""

    q: float
    before: Quantile
    after: Quantile
    shift: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSegment:
    """The distribution for one metric id."""

    metric_id: str
    type: str
    mechanism: str
    reports: int
    periods: PeriodRange
    complete: bool
    unit: str | None
    scale: Literal["linear", "log"]
    edges: tuple[float, ...]
    confidence: float
    kind: str
    quantiles_together: int
    """How many quantiles hold together with this confidence; 1: each does."""
    ranges_together: int
    below: tuple[Below, ...]
    quantiles: tuple[Quantile, ...]
    ranges: tuple[RangeShare, ...]
    mean: Limits
    total: Limits
    """The mean times the reports."""
    deviation: Limits
    first_bin: Limits
    last_bin: Limits
    hint: str | None
    manipulation: Manipulation

    def __getitem__(self, q: float) -> Quantile:
        """The quantile of this share."""
        for one in self.quantiles:
            if one.q == q:
                return one
        raise KeyError(f"no quantile was asked for {q}: there are {[one.q for one in self.quantiles]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberDistribution(Tabular):
    """What a metric's releases say about a number in bins: a segment for each id, oldest first."""

    metric: str
    population: Literal["reports", "superpopulation"]
    complete: bool
    segments: tuple[NumberSegment, ...]
    shifts: tuple[QuantileShift, ...] | None
    privacy: Privacy

    @property
    def newest(self) -> NumberSegment:
        """The segment of the newest id."""
        return self.segments[-1]

    def columns(self) -> Columns:
        """One row per share below an edge, with the band."""
        return stacked(
            {
                "metric": self.metric,
                "edge": [one.edge for one in segment.below],
                "estimate": [one.estimate for one in segment.below],
                "low": [one.low for one in segment.below],
                "high": [one.high for one in segment.below],
                "band_low": [one.band_low for one in segment.below],
                "band_high": [one.band_high for one in segment.below],
                "reports": segment.reports,
                "confidence": segment.confidence,
                **guarantee(self.privacy),
                "from": segment.periods.start,
                "to": segment.periods.end,
                "complete": segment.complete,
                "metric_id": segment.metric_id,
                "population": self.population,
                "value_unit": segment.unit,
            }
            for segment in self.segments
        )
