"""Prometheus metrics, for the operator only, and none from which a small crowd could be counted.

Whoever may send reports and see numbers can find out how many others sent some, by adding his own. So crowds show only
as smaller than the minimum, large enough or ten times that; reports that were taken show in hundreds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from hubbub_shuffler.bundles import Bundles
    from hubbub_shuffler.guard import Guard
    from hubbub_shuffler.ingest import Ingest
    from hubbub_shuffler.lag import Lag
    from hubbub_shuffler.storage import Overview

__all__ = ["Sources", "exposition", "hundreds"]

_PREFIX = "hubbub_shuffler_"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the metrics are read from."""

    ingest: Ingest
    bundles: Bundles
    lag: Lag
    guard: Guard | None
    clock: Callable[[], float]


def hundreds(count: int) -> int:
    return count // 100 * 100


def exposition(sources: Sources, overview: Overview | None, *, durable: bool = True) -> bytes:
    """All metrics as text, from what is known now; without those of the storage if it can't be read.

    `durable`: what the storage says of itself.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Snapshot(sources, overview, durable))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, sources: Sources, overview: Overview | None, durable: bool) -> None:
        self._sources, self._overview, self._durable = sources, overview, durable

    def collect(self) -> Iterator[Metric]:
        yield from _of_the_process(self._sources)
        yield _gauge("storage_up", "Whether the storage can be read.", float(self._overview is not None))
        yield _gauge("storage_durable", "Whether the storage was set up to survive a crash.", float(self._durable))
        if self._overview is not None:
            yield from _of_the_storage(self._sources.ingest, self._overview)


def _of_the_process(sources: Sources) -> Iterator[Metric]:
    ingest = sources.ingest
    yield _count("accepted_reports", "Reports made durable by this process. In hundreds.", hundreds(ingest.accepted))
    yield _by("refused", "Uploads and reports refused by this process.", "reason", ingest.refused)
    if sources.guard is not None:
        yield _by("connections_cut", "Connections cut by this process.", "reason", sources.guard.cut)
        yield _gauge("connections", "Connections open.", sources.guard.connections)
    yield _gauge("forward_lag_seconds", "Age of the oldest closed bucket that waits for a verdict.", sources.lag.now())
    relayed = sources.bundles.current
    yield _gauge("bundle_valid", "Whether a valid bundle is at hand.", float(relayed is not None))
    if relayed is not None:
        body, now = relayed.bundle.body, sources.clock()
        yield _gauge("bundle_age_seconds", "Time since the bundle was issued.", max(0.0, now - body.issued))
        yield _gauge("bundle_expires_seconds", "Time until the bundle expires.", body.expires - now)


def _of_the_storage(ingest: Ingest, overview: Overview) -> Iterator[Metric]:
    minimum = _minimum(ingest)
    waiting = GaugeMetricFamily(
        f"{_PREFIX}waiting_buckets", "Buckets that wait, by how large their crowd is.", labels=["metric", "crowd"]
    )
    crowds = Counter((b.name, _crowd(b.reports, minimum.get(b.name, 0))) for b in overview.waiting)
    for (name, crowd), buckets in sorted(crowds.items()):
        waiting.add_metric([name, crowd], buckets)
    yield waiting
    batches = GaugeMetricFamily(f"{_PREFIX}batches", "Batches that are not settled, by state.", labels=["state"])
    for state, count in overview.batches.items():
        batches.add_metric([state], count)
    yield batches
    settled = CounterMetricFamily(
        f"{_PREFIX}settled_batches", "Batches settled, by verdict.", labels=["metric", "verdict"]
    )
    discarded = CounterMetricFamily(f"{_PREFIX}discarded_buckets", "Buckets discarded.", labels=["metric"])
    for (name, what), counted in overview.counts.items():
        if what == "discarded":
            discarded.add_metric([name], counted.batches)
        elif counted.batches:
            settled.add_metric([name, what], counted.batches)
    yield settled
    yield discarded


def _minimum(ingest: Ingest) -> dict[str, int]:
    admission = ingest.admission
    return admission.minimums() if admission else {}


def _crowd(reports: int, minimum: int) -> str:
    if not minimum or reports < minimum:
        return "below the minimum"
    return "large enough" if reports < 10 * minimum else "tenfold"


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, text, value=value)


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value=value)


def _by(name: str, text: str, label: str, counts: Counter[str]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=[label])
    for key, count in sorted(counts.items()):
        family.add_metric([key], count)
    return family
