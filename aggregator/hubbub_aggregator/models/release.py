"""Releases: the record of each accepted batch."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.period_range import PeriodModel

__all__ = ["PartModel", "ReleaseList", "ReleaseModel", "Scope", "ShareCreditModel"]


class Scope(ResponseModel):
    """Whose values these are, and which: those of a collection's devices, each reduced to one value per period."""

    collection: str
    type: str
    reduce: str


class PartModel(ResponseModel):
    """Part of a bucket that was cut at random into several batches: chance decides how many of a part are honest."""

    bucket_reports: int = Field(description="Reports of the whole bucket.")
    failure_probability: float = Field(
        description="The chance that the part holds fewer than `honest_reports` honest ones; contained in `delta`."
    )


class ShareCreditModel(ResponseModel):
    """What holds for anyone who does not know which devices reported, beside `epsilon`, which needs no such secret."""

    epsilon: float = Field(description="Over the devices' private coins. It follows from `fewest_honest_reports`.")
    delta: float = Field(description="That of the release; a tenth of it is the chance that fewer devices were there.")
    share: float
    fewest_honest_reports: int = Field(description="Below this, nothing is released, whatever the coins say.")
    devices: int = Field(description="Honest devices that toss the coin, at least; otherwise delta has happened.")


class ReleaseModel(ResponseModel):
    """The record of one release: immutable."""

    id: str
    scope: Scope | None = Field(default=None, description="Null in records from before it was kept.")
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
        description="Honest reports that epsilon relies on: the honest fraction of the valid ones, in a part a little "
        "less."
    )
    honest_reports_pessimistic: int | None = Field(
        default=None,
        description="Reports that are certainly honest if the fraction applies to all reports, and honest ones may be "
        "invalid: valid - (reports - floor(fraction * reports)), in a part a little less, and at least 0. Null in "
        "records from before it was kept.",
    )
    honest_fraction: str | None = Field(
        default=None,
        description="Share of the distinct valid reports that the codebook assumed honest; nothing enforces it.",
    )
    share_credit: ShareCreditModel | None = Field(
        default=None,
        description="Null without a `share` and a `missing`, and in records from before it was kept.",
    )
    part: PartModel | None = Field(default=None, description="Null if the batch is a whole bucket.")
    method: str
    reports: int
    valid: int = Field(description="Distinct valid reports: the ones that count.")
    invalid: dict[str, int]
    software: str


class ReleaseList(ResponseModel):
    releases: list[ReleaseModel]
    next: str | None = Field(description="Pass as `after` for the next page; null on the last one.")
