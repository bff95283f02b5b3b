"""Releases: the record of each accepted batch."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.periods import PeriodModel

__all__ = ["PartModel", "ReleaseList", "ReleaseModel", "Scope"]


class Scope(ResponseModel):
    """Whose and which values these are: the devices of a collection, each reduced to one value per period."""

    collection: str
    type: str
    reduce: str


class PartModel(ResponseModel):
    """Of a bucket that was cut at random into several batches: chance decides how many of a part are honest."""

    bucket_reports: int = Field(description="Reports of the whole bucket.")
    failure_probability: float = Field(
        description="That the part holds fewer than `honest_reports` honest ones; contained in `delta`."
    )


class ReleaseModel(ResponseModel):
    """The record of one release: immutable."""

    id: str
    scope: Scope | None = Field(default=None, description="Null in records written before there was one.")
    metric: str
    metric_id: str
    period: PeriodModel
    unit: str
    adjacency: str = Field(default="replacement", description="What may differ between neighbours: one device's value.")
    mechanism: MechanismModel
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int = Field(
        description="What epsilon counts on: of the valid reports the honest fraction, in a part a little less."
    )
    honest_reports_pessimistic: int | None = Field(
        default=None,
        description="How many are sure to be honest if the fraction is one of all reports, and honest ones may be "
        "invalid: valid - (reports - floor(fraction * reports)), in a part a little less, and at least 0. Null in "
        "records from before it was kept.",
    )
    honest_fraction: str | None = Field(
        default=None,
        description="Share of the distinct valid reports assumed honest, as the codebook had it; nothing enforces it.",
    )
    part: PartModel | None = Field(default=None, description="Null where the batch is a whole bucket.")
    method: str
    reports: int
    valid: int = Field(description="Distinct valid reports: the ones that count.")
    invalid: dict[str, int]
    software: str


class ReleaseList(ResponseModel):
    releases: list[ReleaseModel]
    next: str | None = Field(description="Pass as `after` for the next page; null on the last one.")
