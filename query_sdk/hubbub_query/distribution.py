"""A distribution: quantiles, ranges, mean and a band of a number in bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    whole_numbers: bool
    """Whether only whole numbers below the last edge count."""
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
        """One row per number: `statistic` says which, `at` is its edge, share or start, and `until` a range's end."""
        return stacked(self._columns_of(segment) for segment in self.segments)

    def _columns_of(self, segment: NumberSegment) -> Columns:
        rows: list[tuple[Any, ...]] = [
            ("below", one.edge, None, one.estimate, one.low, one.high, one.band_low, one.band_high)
            for one in segment.below
        ]
        rows += [("quantile", one.q, None, one.estimate, one.low, one.high, None, None) for one in segment.quantiles]
        rows += [("range", one.lower, one.upper, one.estimate, one.low, one.high, None, None) for one in segment.ranges]
        rows += [
            (name, None, None, one.estimate, one.low, one.high, None, None)
            for name in ("mean", "total", "deviation", "first_bin", "last_bin")
            for one in [getattr(segment, name)]
        ]
        if segment is self.newest:
            rows += [
                ("shift", one.q, None, one.shift.estimate, one.shift.low, one.shift.high, None, None)
                for one in self.shifts or ()
            ]
        names = ("statistic", "at", "until", "estimate", "low", "high", "band_low", "band_high")
        return {
            "metric": self.metric,
            **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
            "reports": segment.reports,
            "confidence": segment.confidence,
            **guarantee(self.privacy),
            "per_thousand_fakes": segment.manipulation.per_thousand_fakes,
            "from": segment.periods.start,
            "to": segment.periods.end,
            "released": segment.periods.released,
            "complete": segment.complete,
            "metric_id": segment.metric_id,
            "type": segment.type,
            "mechanism": segment.mechanism,
            "population": self.population,
            "value_unit": segment.unit,
        }
