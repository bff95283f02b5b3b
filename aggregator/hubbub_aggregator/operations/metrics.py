"""Prometheus metrics, for the operator: what the storage has counted, and what this process is doing.

Every process gives the same numbers of the storage; those of a process start at zero with it. The batches and reports
that they count are public anyway, as releases or verdicts; nothing says who reported, or when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from hubbub_aggregator.intake.accumulate import REASONS, RESULTS
from hubbub_aggregator.storage import StorageError
from hubbub_service_common.process import prometheus
from hubbub_service_common.process.prometheus import COMMON, Families, Family

if TYPE_CHECKING:
    from hubbub.bundle import SealingKey
    from hubbub_aggregator.service import Aggregator

__all__ = ["FAMILIES", "Stored", "exposition", "key_ages", "snapshot", "stored_now"]

FAMILIES = Families(
    "hubbub_aggregator_",
    {
        # of the process
        "refused_requests": Family("counter", "Requests refused by this process.", ("problem",)),
        "worked_batches": Family("counter", "Batches given a verdict by this process.", ("verdict",)),
        "opened_reports": Family("counter", "Reports in batches opened by this process.", ("result",)),
        "batch_failures": Family("counter", "Failed attempts of this process to work on a batch."),
        "housekeeping_ok": Family("gauge", "Whether keys and bundle were brought up to date."),
        "last_batch_age_seconds": Family("gauge", "Time since this process gave its last verdict."),
        **COMMON,
        # of the storage
        "batches": Family("counter", "Batches with a verdict.", ("verdict",)),
        "refused_batches": Family("counter", "Batches refused for good.", ("reason",)),
        "invalid_reports": Family("counter", "Reports that did not count.", ("reason",)),
        "discarded_buckets": Family("counter", "Buckets that shufflers discarded."),
        "open_queue": Family("gauge", "Batches that wait to be opened."),
        "key_age_seconds": Family("gauge", "Time since the first period of a key began.", ("key", "state")),
        "erasure_overdue_seconds": Family(
            "gauge", "Time since the oldest private key should have been erased: an hour after its horizon; 0 if none."
        ),
        "bundle_age_seconds": Family("gauge", "Time since the bundle was signed."),
        "bundle_sequence": Family("gauge", "Sequence of the bundle."),
    },
)
"""Every metric there is."""
_INVALID = tuple(result for result in RESULTS if result != "valid")


def key_ages(service: Aggregator, now: float) -> list[tuple[SealingKey, float]]:
    """Every sealing key with the seconds since its first period began; below zero if that is to come."""
    calendar = service.codebooks.collection.calendar
    return [(key, now - calendar.period(key.first_period).start) for key in service.ring.published(now)]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the storage says at one moment."""

    tallied: Mapping[str, int]
    keys: list[tuple[SealingKey, float]]
    overdue: float
    sequence: int
    bundle_age: float
    writable: bool
    """As for /readyz."""


def exposition(service: Aggregator, stored: Stored | None) -> bytes:
    """All metrics as text, from what is known now; without those of the storage if it could not be read."""
    return prometheus.exposition(snapshot(service, stored))


def snapshot(service: Aggregator, stored: Stored | None) -> Iterator[Metric]:
    """The same metrics, one by one."""
    yield from _of_the_process(service)
    yield from FAMILIES.common(
        connections=service.connections,
        certificate=service.certificate,
        up=stored is not None,
        writable=stored is not None and stored.writable,
        durable=service.storage.durable,
        errors=service.storage_errors,
        skew=service.clock.worst_skew,
    )
    if stored is not None:
        yield from _of_the_storage(stored)


def stored_now(service: Aggregator) -> Stored | None:
    """What the storage says now; None if it can't be read."""
    now = service.clock.now()
    try:
        bundle = service.storage.bundle()
        return Stored(
            service.storage.tallied(),
            key_ages(service, now),
            service.ring.overdue(now),
            0 if bundle is None else bundle.sequence,
            0.0 if bundle is None else max(0.0, now - bundle.issued),
            service.storage_fault() is None,
        )
    except StorageError:
        service.storage_errors += 1
        return None


def _of_the_process(service: Aggregator) -> Iterator[Metric]:
    progress = service.accumulator.progress
    yield FAMILIES.by("refused_requests", service.refused)
    yield FAMILIES.by("worked_batches", progress.batches)
    yield FAMILIES.by("opened_reports", progress.reports)
    yield FAMILIES.one("batch_failures", progress.failures)
    yield FAMILIES.one("housekeeping_ok", float(service.healthy))
    if progress.last is not None:
        yield FAMILIES.one("last_batch_age_seconds", max(0.0, service.clock.now() - progress.last))


def _of_the_storage(stored: Stored) -> Iterator[Metric]:
    tallied = stored.tallied
    yield FAMILIES.by("batches", {state: tallied.get(f"batch:{state}", 0) for state in ("accepted", "refused")})
    yield FAMILIES.by("refused_batches", dict.fromkeys(REASONS, 0) | _named(tallied, "refused:"))
    yield FAMILIES.by("invalid_reports", dict.fromkeys(_INVALID, 0) | _named(tallied, "invalid:"))
    yield FAMILIES.one("discarded_buckets", tallied.get("discard:accepted", 0))
    yield FAMILIES.one("open_queue", tallied.get("batch:pending", 0))
    yield FAMILIES.many("key_age_seconds", [((str(key.id), key.state), age) for key, age in stored.keys])
    yield FAMILIES.one("erasure_overdue_seconds", stored.overdue)
    yield FAMILIES.one("bundle_age_seconds", stored.bundle_age)
    yield FAMILIES.one("bundle_sequence", stored.sequence)


def _named(found: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in found.items() if name.startswith(prefix)}
