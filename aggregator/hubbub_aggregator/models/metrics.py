"""The list of metrics: the answer to `/v1/metrics`."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.estimated_values import Shaped
from hubbub_aggregator.models.mechanism import MechanismModel

__all__ = ["MetricList", "MetricVersion", "NamedMetric"]


class MetricVersion(Shaped):
    id: str
    type: str
    mechanism: MechanismModel
    value_count: int = Field(description="How many values are estimated: one for a mean.")
    bounds: tuple[float, float] | None = Field(default=None, description="The range of the numbers of a mean.")
    inputs: int | None = Field(
        default=None, description="How many different inputs the mechanism has; null for a range of numbers."
    )
    min_batch: int | None = Field(
        description="Fewest reports of a period that are released: by the codebook, or by the shuffler's own floor "
        "if that is known (`shuffler_floor`) and higher."
    )
    enabled: bool = Field(description="False if the metric is switched off, by its codebook or by a command.")
    released_periods: int
    first: str | None
    last: str | None


class NamedMetric(ResponseModel):
    name: str
    description: str
    in_force: bool
    versions: list[MetricVersion] = Field(description="Every id this name has had, the newest last.")


class MetricList(ResponseModel):
    collection: str
    period: str
    metrics: list[NamedMetric]
