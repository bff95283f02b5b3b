"""An estimate: what the releases of a metric say about a range of periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hubbub.errors import did_you_mean
from hubbub_query.columns import Columns, chance, guarantee, of_segment, of_values, stacked
from hubbub_query.frame import Tabular
from hubbub_query.privacy import Manipulation, Privacy
from hubbub_query.values import IntervalKind, Mechanism, PeriodRange, Shaped, Value

__all__ = ["Estimate", "Segment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Shaped):
    """The estimate for one metric id. An edit gives a name a new id, and ids are never merged."""

    metric_id: str
    type: str
    mechanism: Mechanism
    reports: int
    periods: PeriodRange
    complete: bool
    interval: IntervalKind
    postprocess: Literal["none", "norm_sub", "base_cut", "clip", "projected"]
    value_count: int
    """How many values the metric has; with `top`, not all of them are listed."""
    values: tuple[Value, ...]
    privacy: Privacy
    manipulation: Manipulation

    @property
    def leading(self) -> Value:
        """The value that stands for all of them: the one that `headline` names, else the largest."""
        if self.headline.label is None:
            return max(self.values, key=lambda value: value.estimate)
        return self[self.headline.label]

    def __getitem__(self, label: str) -> Value:
        """The value of this label."""
        for value in self.values:
            if value.label == label:
                return value
        labels = [value.label for value in self.values]
        raise KeyError(f"no value has the label {label!r}: {did_you_mean(label, labels) or f'there are {labels[:20]}'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Tabular):
    """What a metric's releases say: a segment for each id, oldest first, and what they cost together."""

    metric: str
    population: Literal["reports", "superpopulation"]
    complete: bool
    """Nothing more can come."""
    segments: tuple[Segment, ...]
    privacy: Privacy

    @property
    def newest(self) -> Segment:
        """The segment of the newest id; most metrics have only one."""
        return self.segments[-1]

    def columns(self) -> Columns:
        return stacked(
            {
                "metric": self.metric,
                **of_values(segment.values, segment, with_places=any(one.axes for one in self.segments)),
                "reports": segment.reports,
                **chance(segment.interval),
                **guarantee(self.privacy),
                "per_thousand_fakes": segment.manipulation.per_thousand_fakes,
                "from": segment.periods.start,
                "to": segment.periods.end,
                "released": segment.periods.released,
                "complete": segment.complete,
                **of_segment(segment),
                "population": self.population,
                "postprocess": segment.postprocess,
                "shape": segment.shape,
                "value_unit": segment.unit,
            }
            for segment in self.segments
        )
