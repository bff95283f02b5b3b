"""An estimate: the answer to `/v1/metrics/NAME/estimate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.estimated_values import IntervalKind, Postprocess, Shaped, ValueModel
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import Privacy

__all__ = ["Estimate", "Manipulation", "Segment"]


class Manipulation(ResponseModel):
    per_thousand_fakes: float = Field(
        description="Largest shift of any estimated value if one report in a thousand is made up."
    )


class Segment(Shaped):
    """The estimate for one metric id. An edit gives a name a new id, and ids are never merged."""

    metric_id: str
    type: str
    mechanism: MechanismModel
    reports: int
    periods: PeriodRange
    complete: bool
    interval: IntervalKind
    postprocess: Postprocess
    value_count: int = Field(description="How many values the metric has; with `top`, not all of them are listed.")
    values: list[ValueModel]
    privacy: Privacy
    manipulation: Manipulation


class Estimate(ResponseModel):
    """What a metric's releases say. `segments`: one per id, oldest first. `privacy`: for all of them together."""

    metric: str
    population: Literal["reports", "superpopulation"]
    complete: bool = Field(
        description="Nothing more can come: every period is past its horizon and no batch of it waits. "
        "Until then, what has been released may be only a part."
    )
    segments: list[Segment]
    privacy: Privacy
