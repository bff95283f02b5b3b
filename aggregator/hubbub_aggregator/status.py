"""How the service is doing, as `/v1/status` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

import hubbub
from hubbub_aggregator.metrics import key_ages
from hubbub_aggregator.models import CodebookStatus, KeyStatus, Status

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator

__all__ = ["FullStatus", "status_of"]


class AgedKey(KeyStatus):
    age_seconds: int = Field(description="Since its first period began; below zero for one that is to come.")


class FullStatus(Status):
    """What the storage has counted is the same in every process; `last_batch_seconds` and requests are this one's."""

    keys: list[AgedKey]  # type: ignore[assignment]  # the same with its age
    last_batch_seconds: int | None = Field(
        description="Since this process gave its last verdict; null if it has not given one."
    )
    last_release: str | None = Field(description="The newest period that has a release.")
    storage_errors: int = Field(description="Failures of the storage that this process met.")


def status_of(service: Aggregator) -> FullStatus:
    """Batches by state, what was refused and why, keys with their ages, codebooks."""
    found, spans = service.storage.tallied(), service.storage.spans()
    now, calendar = service.clock(), service.codebooks.collection.calendar
    last = service.accumulator.progress.last
    return FullStatus(
        batches={state: found.get(f"batch:{state}", 0) for state in ("pending", "accepted", "refused")},
        discards=found.get("discard:accepted", 0),
        refused_batches=_named(found, "refused:"),
        invalid_reports=_named(found, "invalid:"),
        refused_requests=dict(sorted(service.refused.items())),
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
        bundle_sequence=service.publisher.current(now).sequence,
        software=f"hubbub {hubbub.__version__}",
        last_batch_seconds=None if last is None else int(max(0.0, now - last)),
        last_release=calendar.period(max(last for _, _, last in spans.values())).label if spans else None,
        storage_errors=service.storage_errors,
    )


def _named(found: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in sorted(found.items()) if name.startswith(prefix)}
