"""A comparison of two ranges of periods."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.estimate import Manipulation
from hubbub_aggregator.models.estimated_values import IntervalKind, Shaped
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import Privacy

__all__ = ["Comparison", "DifferenceModel", "ShownDifference", "Side"]


class ShownDifference(ResponseModel):
    """The same for people: nothing outside of what is possible, and the difference within its limits."""

    a: float
    b: float
    value: float = Field(description="b minus a, as shown.")
    low: float
    high: float


class DifferenceModel(ResponseModel):
    """How one value changed from range a to range b."""

    value: bool | str | None
    label: str
    a: float = Field(description="The raw estimate in range a.")
    b: float = Field(description="The raw estimate in range b.")
    difference: float = Field(description="b minus a, raw.")
    stderr: float = Field(description="The variances of both ranges add: their noise is independent.")
    low: float | None = Field(description="Raw lower limit of the difference, not clipped.")
    high: float | None = Field(description="Raw upper limit of the difference, not clipped.")
    shown: ShownDifference
    p_value: float | None = Field(
        description="For the hypothesis of no change, for this value alone: the smallest 1 - confidence at which the "
        "interval excludes zero. Not below 2.6e-12. Null if the request left p-values out."
    )
    adjusted_p_value: float | None = Field(
        description="For all values together: p_value times their number (Bonferroni)."
    )


class Side(ResponseModel):
    """One of the two ranges."""

    metric_id: str
    mechanism: MechanismModel
    reports: int
    periods: PeriodRange
    complete: bool


class Comparison(Shaped):
    """Range b against range a, which share no release."""

    metric: str
    type: str
    estimand: str = Field(description="What the difference is about, and what it can't tell.")
    complete: bool
    a: Side
    b: Side
    interval: IntervalKind
    correction: str = Field(description="How intervals and p-values account for looking at several values.")
    value_count: int
    values: list[DifferenceModel]
    privacy: Privacy | None = Field(description="Of both ranges together. Null if the request left it out.")
    manipulation: Manipulation
