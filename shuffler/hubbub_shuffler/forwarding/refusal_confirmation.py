"""Which refusals of the aggregator are final: those that this shuffler's own bundle and clock confirm.

The wrong aggregator may answer and refuse: one whose clock is wrong, one restored from an older backup, a wrong one
during a rolling change. A batch is deleted on its word only if this shuffler would say the same. Otherwise the batch is
held, sealed, until its horizon by this shuffler's bundle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.wire import sealed_bytes

if TYPE_CHECKING:
    from hubbub.bundle_body import Body
    from hubbub_shuffler.storage import Batch

__all__ = ["REFUSED_FOR_GOOD", "VERDICTS", "confirmed", "horizon"]

REFUSED_FOR_GOOD = frozenset(
    {
        "batch-too-small",
        "batch-conflict",
        "batch-too-late",
        "unknown-metric",
        "malformed-batch",
        "wrong-length",
        "unknown-key",
        "revoked-key",
    }
)
"""Refusals that no retry can cure, if the aggregator is right."""

VERDICTS = ("accepted", *sorted(REFUSED_FOR_GOOD), "refused")
"""Every verdict of the aggregator. "refused" stands for a reason that this version does not know."""


def confirmed(verdict: str, batch: Batch, body: Body | None, past: float) -> bool:
    """Whether a verdict is final.

    `body`: of our bundle, if one is valid now and our clock is not in doubt. `past`: a time that is certainly past.
    Past the horizon every refusal is final: no aggregator takes the batch any more. "batch-too-small" always is, since
    only an aggregator that has the key of that period gets as far as counting. We cannot judge "malformed-batch",
    "batch-conflict" and reasons unknown here. Nor can we judge a key or metric that our bundle does not have: an
    aggregator restored from an older copy hands out such a bundle first. A notice of a discard has no reports, and is
    not held.
    """
    if verdict in {"accepted", "batch-too-small"} or batch.kind == "discard" or 0 < horizon(batch, body) <= past:
        return True
    return body is not None and _says(body, verdict, batch)


def _says(body: Body, verdict: str, batch: Batch) -> bool:
    """Whether our bundle says the same."""
    id_, period, key_id = batch.bucket
    keys = {key.state for key in body.keys if key.id == key_id and key.covers(period)}
    metric = body.metric(id_, period)
    return {
        "unknown-key": keys == {"revoked"},
        "revoked-key": "revoked" in keys,
        "wrong-length": metric is not None and sealed_bytes(metric.report_bytes) != batch.terms.size,
    }.get(verdict, False)


def horizon(batch: Batch, body: Body | None) -> int:
    """Unix time until which the aggregator takes a batch, by our own bundle. Without a bundle: the time that was known
    when the batch was held, or 0.

    For a period in which no codebook is in force any more, the longest horizon of the listed codebooks counts.
    """
    if body is None:
        return batch.until
    codebook = body.in_force(batch.bucket.period)
    after = codebook.forward_horizon if codebook else max(each.forward_horizon for each in body.codebooks)
    return batch.terms.closes_at + after
