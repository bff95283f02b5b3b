"""How the service is doing, as `/v1/status` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field

import hubbub
from hubbub_aggregator.intake.discarded_bucket_reason import DiscardReason
from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.status import CodebookStatus, KeyStatus, Status
from hubbub_aggregator.operations.health_warnings import warnings_of
from hubbub_aggregator.operations.metrics import key_ages
from hubbub_service_common.storage.kinds_and_errors import StorageKind

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator

__all__ = ["DiscardedBucket", "FullStatus", "StorageStatus", "Warned", "status_of"]

_MOST_DISCARDED = 100
_RECENT = 400
"""Periods that are searched for discards."""
_REASONS: dict[str | None, DiscardReason] = {"revoked-key": "revoked-key", "switched-off": "switched-off"}


class AgedKey(KeyStatus):
    age_seconds: int = Field(description="Seconds since its first period began; negative if it is to come.")


class DiscardedBucket(ResponseModel):
    """A bucket that the shuffler deleted instead of forwarding it. The shuffler does not say how much that was."""

    metric: str
    period: str
    reason: DiscardReason = Field(
        default="too-few",
        description="`too-few`: the crowd was too small. `revoked-key`: sealed to a key that was revoked, by hand or "
        "by a restore without keys. `switched-off`: no codebook collects the metric any more.",
    )


class Warned(ResponseModel):
    name: str
    detail: str


class StorageStatus(ResponseModel):
    kind: StorageKind
    bytes: int | None = Field(description="Bytes on disk, or in the memory of all Redis servers; null if unknown.")


class FullStatus(Status):
    """Counts of the storage are the same in every process; `last_batch_seconds` and requests are those of this one."""

    keys: list[AgedKey]  # type: ignore[assignment]  # the same with its age
    last_batch_seconds: int | None = Field(
        description="Seconds since this process gave its last verdict; null if it has given none."
    )
    last_release: str | None = Field(description="The newest period that has a release.")
    storage_errors: int = Field(description="Failures of the storage that this process saw.")
    storage: StorageStatus
    discarded: list[DiscardedBucket] = Field(description=f"At most {_MOST_DISCARDED}, the newest first.")
    warnings: list[Warned] = Field(
        default=[], description="What is wrong but stops nothing, in the words of this process's `/readyz`."
    )
    single_operator: bool = Field(description="Whether one party runs both shuffler and aggregator, by the settings.")
    shuffler_address: str | None = Field(description="Where devices report to, if the operator has set it.")
    time: str = Field(description="When this was answered, UTC.")


def status_of(service: Aggregator) -> FullStatus:
    """Batches by state, what was refused and why, keys with their ages, codebooks."""
    found, spans = service.storage.tallied(), service.storage.spans()
    now, calendar = service.clock.now(), service.codebooks.collection.calendar
    last = service.accumulator.progress.last
    return FullStatus(
        batches={state: found.get(f"batch:{state}", 0) for state in ("pending", "accepted", "refused")},
        discards=found.get("discard:accepted", 0),
        refused_batches=_named(found, "refused:"),
        invalid_reports=_named(found, "invalid:"),
        refused_requests=dict(sorted((+service.refused).items())),
        keys=[
            AgedKey(
                id=key.id,
                first_period=calendar.period(key.first_period).label,
                last_period=calendar.period(key.last_period).label,
                state=key.state,
                age_seconds=int(age),
            )
            for key, age in key_ages(service, now)
        ],
        codebooks=[
            CodebookStatus(id=version.codebook.id.hex(), first_period=calendar.period(version.first_period).label)
            for version in service.codebooks
        ],
        trust_anchor=service.anchor,
        bundle_sequence=service.bundle().sequence,
        software=f"hubbub {hubbub.__version__}",
        last_batch_seconds=None if last is None else int(max(0.0, now - last)),
        last_release=calendar.period(max(last for _, _, last in spans.values())).label if spans else None,
        storage_errors=service.storage_errors,
        storage=StorageStatus(kind=service.storage.kind, bytes=service.storage.size()),
        discarded=_discarded(service, now) if found.get("discard:accepted") else [],
        warnings=[
            Warned(name=name, detail=detail) for name, warn in warnings_of(service).items() if (detail := warn())
        ],
        single_operator=service.single_operator,
        shuffler_address=service.shuffler_address,
        time=datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _discarded(service: Aggregator, now: float) -> list[DiscardedBucket]:
    calendar = service.codebooks.collection.calendar
    last = calendar.index_at(now)
    found: dict[tuple[int, str], DiscardReason] = {
        (period, name): _REASONS.get(reason, "too-few")
        for name, versions in service.codebooks.named().items()
        for metric in versions
        for period, reason in service.storage.discarded(metric.id, max(0, last - _RECENT), last).items()
    }
    newest = sorted(found, key=lambda one: (-one[0], one[1]))[:_MOST_DISCARDED]
    return [
        DiscardedBucket(metric=name, period=calendar.period(period).label, reason=found[period, name])
        for period, name in newest
    ]


def _named(found: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in sorted(found.items()) if name.startswith(prefix)}
