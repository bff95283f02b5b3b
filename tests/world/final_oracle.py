"""Oracle of the end of a history: nothing is on its way, so every report and every epsilon must be somewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hubbub.wire import decode_report
from hubbub_aggregator.analysis.read_releases import over
from tests.world.oracle import Oracle, Wrong
from tests.world.recompute import estimated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hubbub_aggregator.storage import Batch, Storage
    from hubbub_shuffler.storage import Count

__all__ = ["accounted", "estimates", "in_the_ledger", "never_unknown", "settled"]


def settled(oracle: Oracle, aggregator_batches: dict[bytes, Batch]) -> None:
    """Every acknowledged report is counted, or in a discard or refusal that is recorded."""
    refused: dict[bytes, str] = {}
    for id_, batch in aggregator_batches.items():
        if batch.state == "refused" and id_ in oracle.forwarded:
            refused.update(dict.fromkeys(oracle.forwarded[id_].sealed, batch.reason or "?"))
    for group, reports in oracle.acknowledged.items():
        for report in sorted(reports):
            header, sealed = decode_report(report)
            content = oracle.contents.get(sealed)
            if content is None or header.metric not in oracle.metrics or content.nonce in oracle.junk:
                continue  # junk is not promised anything
            pair = header.metric, header.period
            if content.header != header or content.nonce in oracle.counted[pair] or content.nonce in oracle.forgiven:
                continue
            if header.key in oracle.revoked:
                continue  # nobody may open it any more; the shuffler's counts say so
            excused = (group, (*pair, header.key)) in oracle.discarded or group in oracle.torn
            if excused or refused.get(sealed) == "batch-too-small":
                continue
            if oracle.is_over(header.period) and (group, sealed) in oracle.left_under:
                continue  # it left, and no aggregator takes it any more; the shuffler's counts say so
            raise Wrong(
                "lost",
                f"{oracle.metrics[header.metric].name} of period {header.period}, acknowledged by {group}: "
                "not counted, in no discard, in no refused batch",
            )


def accounted(oracle: Oracle, group: str, counts: Mapping[tuple[str, str], Count]) -> None:
    """Every report that a storage took is somewhere in its counts: a duplicate, discarded, or with a verdict."""
    if group in oracle.torn:
        return
    taken, left = Counter[str](), Counter[str]()
    for (name, what), count in counts.items():
        if what == "lost" and count.reports:
            raise Wrong("lost", f"{group} says that it lost {count.reports} reports")
        if what == "ingested":
            taken[name] += count.reports
        elif what not in {"halved", "lost"}:
            left[name] += count.reports
    if taken != left:
        raise Wrong("unrecorded", f"{group}: of {dict(taken)} reports {dict(left)} are accounted for")


def never_unknown(oracle: Oracle, group: str, counts: Mapping[tuple[str, str], Count]) -> None:
    """No aggregator forgets a key or a metric that devices have: not by one look at a wrong clock, nor by an edit."""
    if oracle.went_back or oracle.forgiven or group in oracle.torn:
        return
    for (name, what), count in counts.items():
        if what in {"unknown-key", "unknown-metric", "wrong-length"} and count.reports:
            raise Wrong("lost", f"{count.reports} reports of {name} were refused as {what}")


def in_the_ledger(oracle: Oracle, storage: Storage) -> None:
    """Every batch that was opened is in the ledger, with what it cost."""
    known = {release.id for release in (*storage.releases(), *storage.expired(), *storage.opened_and_refused())}
    for id_ in oracle.opened_batches:
        batch = storage.batch(id_)
        if batch is not None and batch.state != "pending" and id_ not in known:
            raise Wrong("ledger", f"batch {id_.hex()} was opened, is {batch.state}, and is in no ledger")


def estimates(oracle: Oracle, storage: Storage) -> None:
    """What analysts are told, against a recomputation from the reports that count."""
    for (id_, period), nonces in oracle.counted.items():
        metric = oracle.metrics[id_]
        crowd = over(storage, metric, range(period, period + 1))
        if crowd is None or crowd.tally.reports != len(nonces):
            continue  # all or some of its releases were seen when their nonces were erased
        told = metric.estimate(crowd.tally).values.tolist()
        expected = estimated(metric, oracle.payloads(id_, period, set(nonces)).values())
        if any(abs(one - other) > 1e-9 for one, other in zip(told, expected, strict=True)):
            raise Wrong("estimate", f"{metric.name} of period {period}: {told}, by recomputation {expected}")
