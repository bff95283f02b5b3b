"""A series of estimates over periods."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.estimate import Manipulation
from hubbub_aggregator.models.estimated_values import IntervalKind, Postprocess, Shaped, ValueModel
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import PeriodPrivacy, Privacy

__all__ = ["Point", "Series", "SeriesSegment", "State"]

State: TypeAlias = Literal["released", "open", "deleted", "discarded", "not-released"]


class Point(ResponseModel):
    """One period: an estimate, or why there is none."""

    period: str
    state: State = Field(
        description="`open`: something may still come. `deleted`: released once, and past its retention. `discarded`: "
        "the shuffler deleted it, mostly for too few reports; `/v1/status` says why. `not-released`: the period is "
        "over and nothing was released."
    )
    complete: bool = Field(description="Nothing more can come for this period.")
    metric_id: str | None
    reports: int | None
    interval: IntervalKind | None
    values: list[ValueModel]
    privacy: PeriodPrivacy | None = Field(description="This period's own guarantee.")


class SeriesSegment(Shaped):
    """What holds for all points of one metric id."""

    metric_id: str
    type: str
    mechanism: MechanismModel
    value_count: int
    released: int
    manipulation: Manipulation


class Series(ResponseModel):
    """One estimate per period, oldest first, with the gaps. `privacy` is for all points together."""

    metric: str
    population: Literal["reports", "superpopulation"]
    periods: PeriodRange
    complete: bool
    postprocess: Postprocess
    segments: list[SeriesSegment]
    points: list[Point]
    privacy: Privacy | None = Field(description="Null if there is no estimate, or if the request left this out.")
