"""A series: one estimate per period, and why there is none in a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hubbub_query.columns import Columns, chance, guarantee, of_segment, of_values, stacked
from hubbub_query.frame import Tabular
from hubbub_query.privacy import Manipulation, PeriodPrivacy, Privacy
from hubbub_query.values import IntervalKind, Mechanism, PeriodRange, Shaped, Value

__all__ = ["Point", "Series", "SeriesSegment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One period: an estimate, or the state that says why there is none."""

    period: str
    state: Literal["released", "open", "deleted", "discarded", "not-released"]
    complete: bool
    """Nothing more can come for this period."""
    metric_id: str | None
    reports: int | None
    interval: IntervalKind | None
    values: tuple[Value, ...]
    privacy: PeriodPrivacy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSegment(Shaped):
    """What holds for all points of one metric id."""

    metric_id: str
    type: str
    mechanism: Mechanism
    value_count: int
    released: int
    manipulation: Manipulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Tabular):
    """One point per period, oldest first, with the gaps."""

    metric: str
    population: Literal["reports", "superpopulation"]
    periods: PeriodRange
    complete: bool
    postprocess: Literal["none", "norm_sub", "base_cut", "clip", "projected"]
    segments: tuple[SeriesSegment, ...]
    points: tuple[Point, ...]
    privacy: Privacy | None
    """Of all points together; None if there is no estimate, or if it was left out."""

    def columns(self) -> Columns:
        segments = {segment.metric_id: segment for segment in self.segments}
        with_places = any(segment.axes for segment in self.segments)
        blocks = []
        for point in self.points:
            segment = segments.get(point.metric_id or "")
            own = point.privacy
            blocks.append(
                {
                    "metric": self.metric,
                    "period": point.period,
                    "state": point.state,
                    **of_values(point.values, segment, with_places=with_places),
                    "reports": point.reports,
                    **chance(point.interval),
                    "period_epsilon": own.epsilon if own else None,
                    "period_delta": own.delta if own else None,
                    **guarantee(self.privacy),
                    "per_thousand_fakes": segment.manipulation.per_thousand_fakes if segment else None,
                    "complete": point.complete,
                    **of_segment(segment),
                    "population": self.population,
                    "postprocess": self.postprocess,
                    "shape": segment.shape if segment else None,
                    "value_unit": segment.unit if segment else None,
                }
            )
        return stacked(blocks)
