"""Releases: the record of each accepted batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hubbub_query.columns import Columns, stacked
from hubbub_query.frame import Tabular
from hubbub_query.values import Mechanism

__all__ = ["Part", "Period", "Release", "ReleaseList", "Scope", "ShareCredit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose values these are, and which."""

    collection: str
    type: str
    reduce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Part of a bucket that was cut at random into several batches."""

    bucket_reports: int
    failure_probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCredit:
    """What holds for anyone who does not know which devices reported."""

    epsilon: float
    delta: float
    share: float
    fewest_honest_reports: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period: from its start, which is its label, up to, not including, its end."""

    index: int
    label: str
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The record of one release: immutable."""

    id: str
    scope: Scope | None = None
    metric: str
    metric_id: str
    period: Period
    unit: str
    adjacency: str = "replacement"
    mechanism: Mechanism
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int
    honest_reports_pessimistic: int | None = None
    honest_fraction: str | None = None
    share_credit: ShareCredit | None = None
    part: Part | None = None
    method: str
    reports: int
    valid: int
    """Distinct valid reports: the ones that count."""
    invalid: Mapping[str, int]
    software: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseList(Tabular):
    """Records by period."""

    releases: tuple[Release, ...]
    next: str | None
    """Where the next page begins; None after the last."""

    def columns(self) -> Columns:
        return stacked(
            {
                "metric": [one.metric],
                "period": one.period.label,
                "epsilon": one.epsilon,
                "delta": one.delta,
                "local_epsilon": one.local_epsilon,
                "reports": one.reports,
                "valid": one.valid,
                "invalid": sum(one.invalid.values()),
                "honest_reports": one.honest_reports,
                "honest_reports_pessimistic": one.honest_reports_pessimistic,
                "honest_fraction": one.honest_fraction,
                "bucket_reports": one.part.bucket_reports if one.part else None,
                "failure_probability": one.part.failure_probability if one.part else None,
                "share_epsilon": one.share_credit.epsilon if one.share_credit else None,
                "share_devices": one.share_credit.devices if one.share_credit else None,
                "mechanism": one.mechanism.name,
                "metric_id": one.metric_id,
                "id": one.id,
                "software": one.software,
            }
            for one in self.releases
        )
