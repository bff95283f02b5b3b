"""Prometheus metrics, for the operator: what the storage has counted, and what this process is doing.

Numbers of the storage are the same whichever process is asked; those of the process start at zero with it. Batches and
reports in them are public anyway, as releases or verdicts; nothing says who or when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub_aggregator.storage import StorageError

if TYPE_CHECKING:
    from hubbub.bundle import SealingKey
    from hubbub_aggregator.service import Aggregator

__all__ = ["exposition", "key_ages"]

_PREFIX = "hubbub_aggregator_"


def key_ages(service: Aggregator, now: float) -> list[tuple[SealingKey, float]]:
    """Every sealing key with the seconds since its first period began; below zero for one that is to come."""
    calendar = service.codebooks.collection.calendar
    return [(key, now - calendar.period(key.first_period).start) for key in service.ring.published(now)]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the storage says at one moment."""

    tallied: Mapping[str, int]
    keys: list[tuple[SealingKey, float]]
    sequence: int
    bundle_age: float


def exposition(service: Aggregator) -> bytes:
    """All metrics as text, from what is known now; without those of the storage if it can't be read."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Snapshot(service, _stored(service)))
    return generate_latest(registry)


def _stored(service: Aggregator) -> _Stored | None:
    now = service.clock()
    try:
        bundle = service.storage.bundle()
        return _Stored(
            service.storage.tallied(),
            key_ages(service, now),
            0 if bundle is None else bundle.sequence,
            0.0 if bundle is None else max(0.0, now - bundle.issued),
        )
    except StorageError:
        service.storage_errors += 1
        return None


class _Snapshot(Collector):
    def __init__(self, service: Aggregator, stored: _Stored | None) -> None:
        self._service, self._stored = service, stored

    def collect(self) -> Iterator[Metric]:
        yield from _of_the_process(self._service)
        yield _gauge("storage_up", "Whether the storage can be read.", float(self._stored is not None))
        durable = float(self._service.storage.durable)
        yield _gauge("storage_durable", "Whether the storage was set up to survive a crash.", durable)
        if self._stored is not None:
            yield from _of_the_storage(self._stored)


def _of_the_process(service: Aggregator) -> Iterator[Metric]:
    progress = service.accumulator.progress
    yield _by("refused_requests", "Requests refused by this process.", "problem", service.refused)
    yield _by("worked_batches", "Batches given a verdict by this process.", "verdict", progress.batches)
    yield _by("opened_reports", "Reports in batches opened by this process.", "result", progress.reports)
    yield _count("batch_failures", "Attempts of this process to work on a batch that failed.", progress.failures)
    yield _count("storage_errors", "Failures of the storage that this process met.", service.storage_errors)
    yield _gauge("housekeeping_ok", "Whether keys and bundle were brought up to date.", float(service.healthy))
    if progress.last is not None:
        age = max(0.0, service.clock() - progress.last)
        yield _gauge("last_batch_age_seconds", "Time since this process gave its last verdict.", age)


def _of_the_storage(stored: _Stored) -> Iterator[Metric]:
    tallied = stored.tallied
    states = {state: tallied.get(f"batch:{state}", 0) for state in ("accepted", "refused")}
    yield _by("batches", "Batches with a verdict.", "verdict", states)
    yield _by("refused_batches", "Batches refused for good.", "reason", _named(tallied, "refused:"))
    yield _by("invalid_reports", "Reports that did not count.", "reason", _named(tallied, "invalid:"))
    yield _count("discarded_buckets", "Buckets that shufflers discarded.", tallied.get("discard:accepted", 0))
    yield _gauge("open_queue", "Batches that wait to be opened.", tallied.get("batch:pending", 0))
    ages = GaugeMetricFamily(
        f"{_PREFIX}key_age_seconds", "Time since the first period of a key began.", labels=["key", "state"]
    )
    for key, age in stored.keys:
        ages.add_metric([str(key.id), key.state], age)
    yield ages
    yield _gauge("bundle_age_seconds", "Time since the bundle was signed.", stored.bundle_age)
    yield _gauge("bundle_sequence", "Sequence of the bundle.", stored.sequence)


def _named(found: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in found.items() if name.startswith(prefix)}


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value=value)


def _by(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=[label])
    for key, count in sorted(counts.items()):
        family.add_metric([key], count)
    return family
