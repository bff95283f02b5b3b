"""A distribution: the answer to `/v1/metrics/NAME/distribution`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hubbub.result_shapes import Scale
from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.estimate import Manipulation
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import Privacy

__all__ = [
    "BelowModel",
    "LimitsModel",
    "NumberDistribution",
    "NumberSegment",
    "QuantileModel",
    "QuantileShift",
    "RangeShareModel",
]


class LimitsModel(ResponseModel):
    estimate: float
    low: float | None = Field(description="Null if there is no limit.")
    high: float | None = Field(description="Null if there is no limit.")


class BelowModel(ResponseModel):
    """The share of devices below an edge."""

    edge: float
    estimate: float = Field(description="Raw: unbiased, so it may lie below 0 or above 1, or fall from edge to edge.")
    low: float = Field(description="Limits of this edge by itself.")
    high: float
    band_low: float = Field(description="Limits that hold for all edges together.")
    band_high: float


class QuantileModel(ResponseModel):
    """The number below which a share of the devices lies. Its limits are edges of bins.

    Of whole numbers: the number that a share of the devices has at most. Its limits are the ends of bins.
    """

    q: float
    estimate: float
    low: float | None = Field(description="Null: it may lie below the second edge, and beyond all edges.")
    high: float | None = Field(description="Null: it may lie above the last edge but one, and beyond all edges.")
    words: str = Field(description="The same as a sentence.")


class RangeShareModel(ResponseModel):
    """The share of devices from one number up to, not including, another."""

    lower: float
    upper: float
    estimate: float
    low: float
    high: float
    is_exact: bool = Field(
        description="Whether both are edges of bins. If not, the estimate spreads the numbers of the outer bins "
        "evenly, and the limits allow for any spread."
    )


class QuantileShift(ResponseModel):
    """How far a quantile moved from the first range of periods to the second."""

    q: float
    before: QuantileModel
    after: QuantileModel
    shift: LimitsModel


class NumberSegment(ResponseModel):
    """What holds for one metric id. An edit gives a name a new id, and ids are never merged."""

    metric_id: str
    type: str
    mechanism: str
    reports: int
    periods: PeriodRange
    complete: bool
    unit: str | None
    scale: Scale
    edges: list[float]
    whole_numbers: bool = Field(description="Whether only whole numbers below the last edge count: they are counts.")
    confidence: float
    kind: str = Field(description="How limits were made, and whom they are about.")
    quantiles_together: int = Field(description="How many quantiles hold together with this confidence. 1: each does.")
    ranges_together: int = Field(description="How many ranges hold together with this confidence. 1: each does.")
    below: list[BelowModel] = Field(description="Of all edges but the first and the last.")
    quantiles: list[QuantileModel]
    ranges: list[RangeShareModel]
    mean: LimitsModel = Field(description="Of the numbers within the edges. The limits allow for any spread in a bin.")
    total: LimitsModel = Field(description="The mean times the reports: the sum over the devices that reported.")
    deviation: LimitsModel = Field(description="Standard deviation. No limits if there are too few reports for them.")
    first_bin: LimitsModel = Field(description="The share of the first bin, which also holds what lies beyond.")
    last_bin: LimitsModel = Field(description="The share of the last bin, which also holds what lies beyond.")
    hint: str | None = Field(description="What to change in the next codebook if an end bin is crowded.")
    manipulation: Manipulation


class NumberDistribution(ResponseModel):
    """What a metric's releases say about the distribution of a number. `segments`: one per id, oldest first."""

    metric: str
    population: Literal["reports", "superpopulation"]
    complete: bool
    segments: list[NumberSegment]
    shifts: list[QuantileShift] | None = Field(
        description="With `before_from` and `before_to`: how far each quantile moved since those periods."
    )
    privacy: Privacy
