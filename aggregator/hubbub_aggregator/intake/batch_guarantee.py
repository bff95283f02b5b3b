"""The promise of a batch: how many of its valid reports count as honest, the guarantee, and whether that is enough.

Of `valid` distinct valid reports of a whole bucket, floor(h * valid) are honest, by the codebook's assumption. A part
of a cut bucket is a random sample of it: its count holds except with a failure probability of δ/10, and ε is certified
at the other nine tenths, so that the stated δ covers both (docs/explanation/accounting.md, section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import hubbub
from hubbub.codebook import decimal_text
from hubbub_aggregator.publication.codebook_versions import Governed, required_batch

if TYPE_CHECKING:
    from hubbub.accounting import Guarantee, ShareCredit
    from hubbub.wire import BatchHeader
    from hubbub_aggregator.storage import Storage

__all__ = ["Promise", "promise_of"]


@dataclass(frozen=True, slots=True)
class Promise:
    """How many reports hide each report of a batch, and how well."""

    valid: int
    honest: int
    pessimistic: int
    """The honest reports if the fraction applied to all reports, and honest ones could be invalid."""
    guarantee: Guarantee
    """For the honest reports; for one report if none counts as honest, since a device can count on itself."""
    delta: Fraction
    """Of the whole promise."""
    failure: Fraction | None
    """The share of `delta` for a part with fewer honest reports than `honest`; None for a whole bucket."""
    enough: bool
    credit: ShareCredit | None
    """What holds in addition for those who do not know which devices reported. It follows from the threshold, not from
    this batch, and is for released batches only."""


def promise_of(storage: Storage, governed: Governed, header: BatchHeader, valid: int) -> Promise:
    """The promise of `valid` distinct valid reports. Junk and copies in the batch do not improve it."""
    from hubbub.accounting import (
        FAILURE_SHARE,
        credit_of,
        guarantee,
        honest_reports,
        honest_reports_in_part,
        pessimistic_honest_reports,
    )

    metric, collection = governed.metric, governed.collection
    share, delta = collection.honest_fraction, collection.release_delta
    failure = delta * FAILURE_SHARE if header.in_other_batches else None
    smallest = required_batch(storage, metric, collection)
    if failure is None:
        honest, least = honest_reports(valid, share), honest_reports(smallest, share)
    else:
        honest = honest_reports_in_part(valid, share, failure)
        least = _least_honest(storage, governed, delta - failure) if honest else 1
    fewest = max(smallest, metric.min_batch or 0)
    enough = honest >= least and valid >= fewest
    return Promise(
        valid=valid,
        honest=honest,
        pessimistic=pessimistic_honest_reports(valid, header.count, share, failure),
        guarantee=guarantee(metric.mechanism, max(1, honest), delta - (failure or 0)),
        delta=delta,
        failure=failure,
        enough=enough,
        credit=credit_of(metric, collection, fewest) if enough else None,
    )


def _least_honest(storage: Storage, governed: Governed, delta: Fraction) -> int:
    """Fewest honest reports that meet the release target's ε at this δ. Computed once, then remembered."""
    metric, epsilon = governed.metric, governed.collection.release_epsilon
    question = " ".join(
        ["min_reports", metric.mechanism.fingerprint.hex(), decimal_text(epsilon), str(delta), hubbub.__version__]
    )
    known = storage.remembered(question)
    if known is not None:
        return known
    from hubbub.accounting import min_reports

    found = min_reports(metric.mechanism, epsilon, delta)
    storage.remember(question, found)
    return found
