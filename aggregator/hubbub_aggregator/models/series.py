"""What the aggregator answers about change, course and cost: comparison, series and ledger, as pydantic models."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from hubbub_aggregator.models.estimate import (
    Answer,
    Collusion,
    IntervalKind,
    Manipulation,
    MechanismModel,
    PeriodPrivacy,
    PeriodRange,
    Postprocess,
    Privacy,
    Shaped,
    ValueModel,
)

__all__ = [
    "Comparison",
    "DifferenceModel",
    "LedgerAnswer",
    "LedgerEntry",
    "Point",
    "Series",
    "SeriesSegment",
    "Side",
    "State",
]

State: TypeAlias = Literal["released", "open", "deleted", "discarded", "not-released"]


class DifferenceModel(Answer):
    """How one value changed from range a to range b."""

    value: bool | str | None
    label: str
    a: float = Field(description="The estimate in range a.")
    b: float = Field(description="The estimate in range b.")
    difference: float = Field(description="b minus a.")
    stderr: float = Field(description="The variances of both ranges add: their noise is independent.")
    low: float | None
    high: float | None
    p_value: float = Field(
        description="For no change of this value, looked at alone: the smallest 1 - confidence at which the interval "
        "excludes zero. Not below 2.6e-12."
    )
    adjusted_p_value: float = Field(description="For all values together: p_value times their number (Bonferroni).")


class Side(Answer):
    """One of the two ranges."""

    metric_id: str
    mechanism: MechanismModel
    reports: int
    periods: PeriodRange
    complete: bool


class Comparison(Shaped):
    """Range b against range a, over releases that both do not share."""

    metric: str
    type: str
    estimand: str = Field(description="What the difference is about, and what it can't tell.")
    complete: bool
    a: Side
    b: Side
    interval: IntervalKind
    correction: str = Field(description="How intervals and p-values account for several values being looked at.")
    value_count: int
    values: list[DifferenceModel]
    privacy: Privacy
    manipulation: Manipulation


class Point(Answer):
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


class Series(Answer):
    """One estimate per period, oldest first, with the gaps. `privacy` is for all points together."""

    metric: str
    population: Literal["reports", "superpopulation"]
    periods: PeriodRange
    complete: bool
    postprocess: Postprocess
    segments: list[SeriesSegment]
    points: list[Point]
    privacy: Privacy | None = Field(
        description="Null where there is no estimate to guard, or where it was asked to leave this out."
    )


class LedgerEntry(Answer):
    """What a device lost that took part in everything this entry covers."""

    name: str = Field(description="The metric, the period, or the last period covered.")
    epsilon: float
    delta: float
    method: str
    releases: int = Field(
        description="Pairs of metric and period that are composed: released, or at least opened by the aggregator."
    )
    honest_reports: int = Field(description="The smallest number counted on.")
    if_collusion: Collusion


class LedgerAnswer(Answer):
    """What has been spent: everything composed, never understated. Batches may be counted as smaller than they were."""

    collection: str
    unit: str
    periods: PeriodRange | None = Field(description="First to last period that costs something; null if there is none.")
    opened_and_refused: int = Field(
        description="Batches that were too small when they had been opened: nothing of them was released, the "
        "aggregator has read them, and the numbers here contain what that cost."
    )
    total: LedgerEntry | None = Field(description="Over all metrics and periods.")
    per_metric: list[LedgerEntry] = Field(description="Each metric over all its periods and all ids of its name.")
    per_period: list[LedgerEntry] = Field(description="One device-period over all metrics; the newest periods.")
    over_time: list[LedgerEntry] = Field(
        description="Everything up to and including a period, at up to eight periods, the newest last."
    )
    assumptions: list[str]
    note: str | None = None
