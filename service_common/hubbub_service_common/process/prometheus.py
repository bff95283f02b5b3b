"""Metrics that a service exposes to Prometheus. Only metrics in its table can be exposed and documented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from hubbub_service_common.http.certificate import Certificate
    from hubbub_service_common.http.connection_limits import ConnectionLimits

__all__ = ["COMMON", "Families", "Family", "exposition"]


class Family(NamedTuple):
    """One metric as exposed and documented. A counter's name gets `_total`."""

    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


COMMON = {
    "connections": Family("gauge", "Connections open to the public listener."),
    "connections_cut": Family("counter", "Connections cut by this process.", ("reason",)),
    "tls_certificate_expires_timestamp_seconds": Family(
        "gauge", "Unix time at which the service's TLS certificate, or the first one in its chain, expires."
    ),
    "storage_up": Family("gauge", "Whether the storage can be read."),
    "storage_writable": Family(
        "gauge", "Whether the storage can be written, by the same check as /readyz: a full one can still be read."
    ),
    "storage_errors": Family("counter", "Failures of the storage that this process met."),
    "storage_durable": Family(
        "gauge", "Whether the storage is set up to survive a crash, as seen within the last minute."
    ),
    "clock_skew_seconds": Family(
        "gauge",
        "How far this clock is ahead of the other service's, by its Date: the worst of the last hour and of the last "
        "Date, which counts for a day. Missing if no Date came for a day.",
    ),
}
"""Metrics that both services expose."""


class Families(dict[str, Family]):
    """All metrics of a service, by their names without the prefix."""

    def __init__(self, prefix: str, families: Mapping[str, Family]) -> None:
        super().__init__(families)
        self.prefix = prefix

    def one(self, name: str, value: float) -> Metric:
        return self.many(name, [((), value)])

    def by(self, name: str, counts: Mapping[str, int]) -> Metric:
        """One sample for each value of the metric's only label."""
        return self.many(name, [((key,), count) for key, count in sorted(counts.items())])

    def many(self, name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
        """One sample for each combination of labels. KeyError for a metric that is not in the table."""
        family = self[name]
        made = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
            self.prefix + name, family.help, labels=family.labels
        )
        for labels, value in samples:
            made.add_metric(labels, value)
        return made

    def common(
        self,
        *,
        connections: ConnectionLimits | None,
        certificate: Certificate | None,
        up: bool,
        writable: bool,
        durable: bool,
        errors: int,
        skew: float | None = None,
    ) -> Iterator[Metric]:
        """The metrics in `COMMON`. `up`, `writable`: whether the storage can be read, written. `durable`: as the
        storage reports it. `skew`: of the clock.
        """
        if connections is not None:
            yield self.one("connections", connections.open)
            yield self.by("connections_cut", connections.cut)
        if certificate is not None and certificate.expires is not None:
            yield self.one("tls_certificate_expires_timestamp_seconds", certificate.expires)
        yield self.one("storage_up", float(up))
        yield self.one("storage_writable", float(writable))
        yield self.one("storage_errors", errors)
        yield self.one("storage_durable", float(durable))
        yield self.many("clock_skew_seconds", [] if skew is None else [((), skew)])


def exposition(metrics: Iterable[Metric]) -> bytes:
    """These metrics and those of the process itself, such as its memory, as text for Prometheus."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Snapshot(list(metrics)))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics
