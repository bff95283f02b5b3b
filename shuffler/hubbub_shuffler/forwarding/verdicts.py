"""Which refusals of the aggregator are the last word: those that this shuffler's own bundle and clock confirm.

Whatever answers at the aggregator's address can refuse: one whose clock is wrong, one restored from an older backup, a
wrong one in a rolling change. A batch is deleted on its word only if we would say the same; else it is held, sealed,
until our own horizon.
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
"""Problems that no retry can cure, if they are what the aggregator says."""

VERDICTS = ("accepted", *sorted(REFUSED_FOR_GOOD), "refused")
"""Every last word that the aggregator has; "refused" is for a reason that this version does not know."""


def confirmed(verdict: str, batch: Batch, body: Body | None, past: float) -> bool:
    """Whether a verdict is the last word.

    `body`: of our bundle, if one is valid now and our clock is not in doubt; `past`: a time that is past for sure. Past
    the horizon every refusal is: nobody takes the batch any more. "batch-too-small" always is, since only one who has
    the key of that period gets as far as counting. Of "malformed-batch", "batch-conflict" and reasons unknown here we
    have no view of our own. Nor of a key or metric that our bundle does not have: an aggregator that was restored from
    an older copy hands out such a bundle first. A notice of a discard has no reports, and is not held.
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
    """Until when the aggregator takes it, by our own bundle; without one what was known when it was held, or 0.

    For a period in which no codebook is in force any more it is the longest of those that are listed.
    """
    if body is None:
        return batch.until
    codebook = body.in_force(batch.bucket.period)
    after = codebook.forward_horizon if codebook else max(each.forward_horizon for each in body.codebooks)
    return batch.terms.closes_at + after
