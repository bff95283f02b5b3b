"""The privacy guarantee of an answer, with and without collusion."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["Collusion", "PeriodPrivacy", "Privacy"]


class PeriodPrivacy(ResponseModel):
    period: str
    epsilon: float
    delta: float
    honest_reports: int
    method: str


class Collusion(ResponseModel):
    """What holds even if shuffler and aggregator work together: pure and local."""

    epsilon: float
    delta: float


class Privacy(ResponseModel):
    unit: str
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int = Field(description="The smallest number assumed for any period.")
    method: str
    per_period: list[PeriodPrivacy]
    if_collusion: Collusion
    assumptions: list[str]
    note: str | None = None
