"""Prometheus metrics for the operator. None of them lets a small crowd be counted.

Someone who can send reports and see exact numbers can add reports of their own and find out how many others there are.
So crowds show only as below the minimum, large enough or tenfold, and accepted reports show in hundreds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from hubbub_service_common.process import prometheus
from hubbub_service_common.process.prometheus import COMMON, Families, Family
from hubbub_shuffler.forwarding.refusal_confirmation import VERDICTS

if TYPE_CHECKING:
    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from hubbub_service_common.http.certificate import Certificate
    from hubbub_service_common.http.connection_limits import ConnectionLimits
    from hubbub_shuffler.bundle.relay import Bundles
    from hubbub_shuffler.forwarding.lag import Lag
    from hubbub_shuffler.ingest.upload import Ingest
    from hubbub_shuffler.storage import AsyncStorage, Overview

__all__ = ["FAMILIES", "Sources", "exposition", "hundreds", "snapshot"]

FAMILIES = Families(
    "hubbub_shuffler_",
    {
        # of the process
        "accepted_reports": Family("counter", "Reports made durable by this process. In hundreds."),
        "refused": Family("counter", "Uploads and reports refused by this process.", ("reason",)),
        "forward_lag_seconds": Family(
            "gauge", "Age of the oldest bucket that is due or closed and waits for a verdict."
        ),
        "storage_used_bytes": Family(
            "gauge", "Bytes that the storage uses, rounded down to whole MiB; of the fullest primary."
        ),
        "storage_limit_bytes": Family(
            "gauge",
            "Bytes that the storage may use, rounded down to whole MiB: maxmemory, the disk or the quota. Missing: not "
            "known.",
        ),
        "ingest_stopped": Family("gauge", "Whether uploads are refused because the storage is full up to its mark."),
        "bundle_valid": Family("gauge", "Whether a valid bundle is at hand."),
        "bundle_age_seconds": Family("gauge", "Time since the bundle was issued."),
        "bundle_expires_seconds": Family("gauge", "Time until the bundle expires."),
        "refused_bundles": Family("counter", "Bundles refused by this process, once for each fetch.", ("reason",)),
        **COMMON,
        # of the storage
        "waiting_buckets": Family("gauge", "Buckets that wait, by how large their crowd is.", ("metric", "crowd")),
        "batches": Family("gauge", "Batches that are not settled, by state.", ("state",)),
        "held_batches": Family(
            "gauge", "Batches that the aggregator refused and that are held, by the reason it gave.", ("reason",)
        ),
        "held_reports": Family("gauge", "Reports in held batches. In hundreds.", ("reason",)),
        "settled_batches": Family("counter", "Batches settled, by verdict.", ("metric", "verdict")),
        "discarded_buckets": Family("counter", "Buckets discarded.", ("metric",)),
        "damaged_buckets": Family("counter", "Buckets that lost reports to damage of the storage.", ("metric",)),
        "storage_losses": Family(
            "counter", "Times that the storage came back without acknowledged reports; the log says how many."
        ),
        "crowds_halved": Family(
            "counter",
            "Buckets that closed with fewer than half of the reports of the metric's last bucket.",
            ("metric",),
        ),
    },
)
"""Every metric of the shuffler."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the metrics are read from."""

    ingest: Ingest
    bundles: Bundles
    lag: Lag
    connections: ConnectionLimits | None
    clock: TrustedClock
    certificate: Certificate | None = None


def hundreds(count: int) -> int:
    return count // 100 * 100


def exposition(sources: Sources, overview: Overview | None, storage: AsyncStorage, *, writable: bool) -> bytes:
    """All metrics as text. Those of the storage are left out if it can't be read."""
    return prometheus.exposition(snapshot(sources, overview, storage, writable=writable))


def snapshot(sources: Sources, overview: Overview | None, storage: AsyncStorage, *, writable: bool) -> Iterator[Metric]:
    """The same, one by one."""
    yield from _of_the_process(sources)
    yield from FAMILIES.common(
        connections=sources.connections,
        certificate=sources.certificate,
        up=overview is not None,
        writable=writable,
        durable=storage.durable,
        errors=storage.errors,
        skew=sources.clock.worst_skew,
    )
    if overview is not None:
        yield from _of_the_storage(sources.ingest, overview)


def _of_the_process(sources: Sources) -> Iterator[Metric]:
    ingest = sources.ingest
    yield FAMILIES.one("accepted_reports", hundreds(ingest.accepted))
    yield FAMILIES.by("refused", ingest.refused)
    yield FAMILIES.one("forward_lag_seconds", sources.lag.now())
    yield FAMILIES.one("ingest_stopped", float(ingest.high_water.stopped))
    if (room := ingest.high_water.room) is not None:
        yield FAMILIES.one("storage_used_bytes", room.used >> 20 << 20)
        yield FAMILIES.one("storage_limit_bytes", room.limit >> 20 << 20)
    relayed = sources.bundles.current
    yield FAMILIES.one("bundle_valid", float(relayed is not None))
    yield FAMILIES.by("refused_bundles", sources.bundles.refused)
    if relayed is not None:
        body, now = relayed.bundle.body, sources.clock.now()
        yield FAMILIES.one("bundle_age_seconds", max(0.0, now - body.issued))
        yield FAMILIES.one("bundle_expires_seconds", body.expires - now)


def _of_the_storage(ingest: Ingest, overview: Overview) -> Iterator[Metric]:
    minimum = _minimum(ingest)
    crowds = Counter((b.name, _crowd(b.reports, minimum.get(b.name, 0))) for b in overview.waiting)
    yield FAMILIES.many("waiting_buckets", sorted(crowds.items()))
    yield FAMILIES.many("batches", [((state,), count) for state, count in overview.batches.items()])
    held = overview.held
    yield FAMILIES.by("held_batches", {why: count.batches for why, count in held.items()})
    yield FAMILIES.by("held_reports", {why: hundreds(count.reports) for why, count in held.items()})
    counted = {key: count.batches for key, count in overview.counts.items() if count.batches}
    # Known series exist before their first event: a series that began with it would not be seen to rise.
    settled = dict.fromkeys(product(minimum, VERDICTS), 0) | counted
    happened = {"discarded": "discarded_buckets", "halved": "crowds_halved", "damaged": "damaged_buckets"}
    others = {*happened, "lost"}
    yield FAMILIES.many("settled_batches", [(key, n) for key, n in sorted(settled.items()) if key[1] not in others])
    for what, family in happened.items():
        counts = {name: n for (name, happening), n in counted.items() if happening == what}
        yield FAMILIES.by(family, dict.fromkeys(minimum, 0) | counts)
    yield FAMILIES.one("storage_losses", sum(n for (_, happening), n in counted.items() if happening == "lost"))


def _minimum(ingest: Ingest) -> dict[str, int]:
    admission = ingest.admission
    return admission.minimums() if admission else {}


def _crowd(reports: int, minimum: int) -> str:
    if not minimum or reports < minimum:
        return "below the minimum"
    return "large enough" if reports < 10 * minimum else "tenfold"
