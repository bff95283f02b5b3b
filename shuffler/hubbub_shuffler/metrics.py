"""Prometheus metrics, for the operator only, and none from which a small crowd could be counted.

Whoever may send reports and see numbers can find out how many others sent some, by adding his own. So crowds show only
as smaller than the minimum, large enough or ten times that; reports that were taken show in hundreds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from hubbub_service_common import prometheus
from hubbub_service_common.prometheus import COMMON, Families, Family
from hubbub_shuffler.forward import VERDICTS

if TYPE_CHECKING:
    from hubbub_service_common.certificate import Certificate
    from hubbub_shuffler.bundles import Bundles
    from hubbub_shuffler.guard import Guard
    from hubbub_shuffler.ingest import Ingest
    from hubbub_shuffler.lag import Lag
    from hubbub_shuffler.storage import Overview

__all__ = ["FAMILIES", "Sources", "exposition", "hundreds", "snapshot"]

FAMILIES = Families(
    "hubbub_shuffler_",
    {
        # of the process
        "accepted_reports": Family("counter", "Reports made durable by this process. In hundreds."),
        "refused": Family("counter", "Uploads and reports refused by this process.", ("reason",)),
        "connections_cut": Family("counter", "Connections cut by this process.", ("reason",)),
        "connections": Family("gauge", "Connections open."),
        "forward_lag_seconds": Family("gauge", "Age of the oldest closed bucket that waits for a verdict."),
        "bundle_valid": Family("gauge", "Whether a valid bundle is at hand."),
        "bundle_age_seconds": Family("gauge", "Time since the bundle was issued."),
        "bundle_expires_seconds": Family("gauge", "Time until the bundle expires."),
        "refused_bundles": Family("counter", "Bundles refused by this process, once for each fetch.", ("reason",)),
        **COMMON,
        # of the storage
        "waiting_buckets": Family("gauge", "Buckets that wait, by how large their crowd is.", ("metric", "crowd")),
        "batches": Family("gauge", "Batches that are not settled, by state.", ("state",)),
        "settled_batches": Family("counter", "Batches settled, by verdict.", ("metric", "verdict")),
        "discarded_buckets": Family("counter", "Buckets discarded.", ("metric",)),
        "crowds_halved": Family(
            "counter", "Buckets that closed with fewer than half of the reports of the metric's last one.", ("metric",)
        ),
    },
)
"""Every metric there is."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the metrics are read from."""

    ingest: Ingest
    bundles: Bundles
    lag: Lag
    guard: Guard | None
    clock: Callable[[], float]
    certificate: Certificate | None = None


def hundreds(count: int) -> int:
    return count // 100 * 100


def exposition(sources: Sources, overview: Overview | None, *, durable: bool = True) -> bytes:
    """All metrics as text, from what is known now; without those of the storage if it can't be read.

    `durable`: what the storage says of itself.
    """
    return prometheus.exposition(snapshot(sources, overview, durable=durable))


def snapshot(sources: Sources, overview: Overview | None, *, durable: bool) -> Iterator[Metric]:
    """The same, one by one."""
    yield from _of_the_process(sources)
    yield from FAMILIES.common(certificate=sources.certificate, up=overview is not None, durable=durable)
    if overview is not None:
        yield from _of_the_storage(sources.ingest, overview)


def _of_the_process(sources: Sources) -> Iterator[Metric]:
    ingest = sources.ingest
    yield FAMILIES.one("accepted_reports", hundreds(ingest.accepted))
    yield FAMILIES.by("refused", ingest.refused)
    if sources.guard is not None:
        yield FAMILIES.by("connections_cut", sources.guard.cut)
        yield FAMILIES.one("connections", sources.guard.connections)
    yield FAMILIES.one("forward_lag_seconds", sources.lag.now())
    relayed = sources.bundles.current
    yield FAMILIES.one("bundle_valid", float(relayed is not None))
    yield FAMILIES.by("refused_bundles", sources.bundles.refused)
    if relayed is not None:
        body, now = relayed.bundle.body, sources.clock()
        yield FAMILIES.one("bundle_age_seconds", max(0.0, now - body.issued))
        yield FAMILIES.one("bundle_expires_seconds", body.expires - now)


def _of_the_storage(ingest: Ingest, overview: Overview) -> Iterator[Metric]:
    minimum = _minimum(ingest)
    crowds = Counter((b.name, _crowd(b.reports, minimum.get(b.name, 0))) for b in overview.waiting)
    yield FAMILIES.many("waiting_buckets", sorted(crowds.items()))
    yield FAMILIES.many("batches", [((state,), count) for state, count in overview.batches.items()])
    counted = {key: count.batches for key, count in overview.counts.items() if count.batches}
    # Known ones are there before the first event: one that began to exist with it would not be seen to rise.
    settled = dict.fromkeys(product(minimum, VERDICTS), 0) | counted
    happened = {"discarded": "discarded_buckets", "halved": "crowds_halved"}
    yield FAMILIES.many("settled_batches", [(key, n) for key, n in sorted(settled.items()) if key[1] not in happened])
    for what, family in happened.items():
        counts = {name: n for (name, happening), n in counted.items() if happening == what}
        yield FAMILIES.by(family, dict.fromkeys(minimum, 0) | counts)


def _minimum(ingest: Ingest) -> dict[str, int]:
    admission = ingest.admission
    return admission.minimums() if admission else {}


def _crowd(reports: int, minimum: int) -> str:
    if not minimum or reports < minimum:
        return "below the minimum"
    return "large enough" if reports < 10 * minimum else "tenfold"
