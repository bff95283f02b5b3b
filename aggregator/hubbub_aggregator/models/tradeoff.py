"""The trade-off of a metric: what its local epsilon costs in error, between a trusted server and the local bound."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["TradeoffAnswer", "TradeoffPoint"]


class TradeoffPoint(ResponseModel):
    """What one cap on the local epsilon buys."""

    local_epsilon: float
    mechanism: str = Field(description="With the least error that is certified to meet the release target.")
    standard_error: float
    local_bound: float | None = Field(
        description="The least error of any randomizer of this local epsilon (of a mean: the least known). "
        "Null where no figure is known."
    )


class TradeoffAnswer(ResponseModel):
    """Standard error of one share, or of a mean over the width of its bounds, over the local epsilon."""

    metric: str
    metric_id: str
    reports: int = Field(description="The crowd: as asked for, or that of the newest release, or `min_batch`.")
    honest_reports: int
    epsilon: float = Field(description="The release target.")
    delta: float
    local_epsilon: float = Field(description="The local epsilon in use.")
    standard_error: float = Field(description="The error of the mechanism in use, from this crowd.")
    cap: float | None = Field(description="`local_epsilon_cap`, if the codebook was compiled with one.")
    central_gaussian: float = Field(
        description="The error of a trusted server that adds Gaussian noise, at the same target."
    )
    points: list[TradeoffPoint]
    sides: list[str] = Field(description="A sentence for each side of the trade: less epsilon, and more.")
