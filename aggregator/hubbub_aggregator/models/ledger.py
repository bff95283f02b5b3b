"""The privacy ledger: what all releases cost together."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import Collusion

__all__ = ["LedgerAnswer", "LedgerEntry"]


class LedgerEntry(ResponseModel):
    """The loss of a device that took part in everything that this entry covers."""

    name: str = Field(description="The metric, the period, or the last period covered.")
    epsilon: float
    delta: float
    method: str
    releases: int = Field(
        description="Pairs of metric and period that are composed: released, or at least opened by the aggregator."
    )
    honest_reports: int = Field(description="The smallest number assumed for any of them.")
    if_collusion: Collusion


class LedgerAnswer(ResponseModel):
    """What has been spent: everything composed, never understated. Batches may be counted as smaller than they were."""

    collection: str
    unit: str
    periods: PeriodRange | None = Field(description="First to last period that costs something; null if there is none.")
    opened_and_refused: int = Field(
        description="Batches that proved too small once they were opened: nothing of them was released, but the "
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
