"""Records: what was released, about whom, under which guarantee; and the cost of reading a batch that was refused.

They are written once, with the verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import hubbub
from hubbub.codebook import decimal_text

if TYPE_CHECKING:
    from hubbub.accounting import ShareCredit
    from hubbub_aggregator.intake.batch_guarantee import Promise
    from hubbub_aggregator.publication.codebook_versions import Governed
    from hubbub_aggregator.storage import Batch

__all__ = ["UNIT", "refusal_record", "release_record"]

UNIT = "one device's report to this metric in this period"


def release_record(batch: Batch, governed: Governed, promise: Promise, invalid: Mapping[str, int]) -> str:
    """The record of one accepted batch, as JSON."""
    return _text(_record(batch, governed, promise, promise.valid, invalid))


def refusal_record(
    batch: Batch, governed: Governed, promise: Promise, valid: int | None, invalid: Mapping[str, int], reason: str
) -> str:
    """The record of a batch that the aggregator opened, and so read, and then refused. `valid`: None if unknown.

    If no report was valid, nothing was read that was not counted elsewhere.
    """
    record = _record(batch, governed, promise, valid, invalid)
    nothing = {"epsilon": 0.0, "delta": 0.0, "method": "nothing new"} if valid == 0 else {}
    return _text(record | nothing | {"released": False, "reason": reason})


def _credit(credit: ShareCredit | None) -> dict[str, Any] | None:
    if credit is None:
        return None
    return {
        "epsilon": credit.epsilon,
        "delta": credit.delta,
        "share": float(credit.share),
        "fewest_honest_reports": credit.reports,
        "devices": credit.devices,
    }


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def _record(
    batch: Batch, governed: Governed, promise: Promise, valid: int | None, invalid: Mapping[str, int]
) -> dict[str, Any]:
    metric, collection, found = governed.metric, governed.collection, promise.guarantee
    period = collection.calendar.period(batch.header.period)
    after = collection.calendar.period(batch.header.period + 1)
    part = None
    if promise.failure is not None:
        bucket = batch.header.count + batch.header.in_other_batches
        part = {"bucket_reports": bucket, "failure_probability": float(promise.failure)}
    return {
        "id": batch.id.hex(),
        "scope": {"collection": collection.name, "type": metric.type, "reduce": metric.reduce},
        "metric": metric.name,
        "metric_id": metric.id.hex(),
        "period": {"index": period.index, "label": period.label, "from": period.label, "to": after.label},
        "unit": UNIT,
        "adjacency": found.adjacency,
        "mechanism": {
            "name": metric.mechanism.name,
            "epsilon": float(metric.epsilon),
            "parameters": metric.mechanism.parameters(),
        },
        "local_epsilon": found.local_epsilon,
        "epsilon": found.epsilon,
        "delta": float(promise.delta),
        "honest_reports": promise.honest,
        "honest_reports_pessimistic": promise.pessimistic,
        "honest_fraction": decimal_text(collection.honest_fraction),
        "part": part,
        "share_credit": _credit(promise.credit),
        "method": found.method,
        "reports": batch.header.count,
        "valid": valid,
        "invalid": dict(sorted(invalid.items())),
        "software": f"hubbub {hubbub.__version__}",
    }
