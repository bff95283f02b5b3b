"""The metrics that a service exposes to Prometheus: what is not in its table can neither be exposed nor documented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["COMMON", "Families", "Family"]


class Family(NamedTuple):
    """One metric as it is exposed and documented; a counter's name gets `_total`."""

    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


COMMON = {
    "tls_certificate_expires_timestamp_seconds": Family(
        "gauge", "End of the certificate with which it speaks TLS, or of the first to end in its chain, in Unix time."
    ),
    "storage_up": Family("gauge", "Whether the storage can be read."),
    "storage_durable": Family(
        "gauge", "Whether the storage is set up to survive a crash, as seen within the last minute."
    ),
}
"""What both services say of themselves."""


class Families(dict[str, Family]):
    """All metrics of a service, by their names without the prefix."""

    def __init__(self, prefix: str, families: Mapping[str, Family]) -> None:
        super().__init__(families)
        self.prefix = prefix

    def one(self, name: str, value: float) -> Metric:
        return self.many(name, [((), value)])

    def by(self, name: str, counts: Mapping[str, int]) -> Metric:
        """One sample for each value of its one label."""
        return self.many(name, [((key,), count) for key, count in sorted(counts.items())])

    def many(self, name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
        """One sample for each combination of labels; KeyError for a metric that is not in the table."""
        family = self[name]
        made = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
            self.prefix + name, family.help, labels=family.labels
        )
        for labels, value in samples:
            made.add_metric(labels, value)
        return made
