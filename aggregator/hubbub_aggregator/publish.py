"""Release records: what was released, of whom, and under which guarantee. They are written once, with the tally."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import hubbub
from hubbub.codebook import decimal_text

if TYPE_CHECKING:
    from hubbub.accounting import Guarantee
    from hubbub_aggregator.codebooks import Governed
    from hubbub_aggregator.storage import Batch

__all__ = ["UNIT", "release_record"]

UNIT = "one device's report to this metric in this period"


def release_record(
    batch: Batch, governed: Governed, promise: Guarantee, *, valid: int, invalid: Mapping[str, int]
) -> str:
    """The record of one accepted batch, as JSON. `promise` is for the honest reports that are counted on."""
    metric, collection = governed.metric, governed.collection
    period = collection.calendar.period(batch.header.period)
    after = collection.calendar.period(batch.header.period + 1)
    record: dict[str, Any] = {
        "id": batch.id.hex(),
        "scope": {"collection": collection.name, "type": metric.type, "reduce": metric.reduce},
        "metric": metric.name,
        "metric_id": metric.id.hex(),
        "period": {"index": period.index, "label": period.label, "from": period.label, "to": after.label},
        "unit": UNIT,
        "adjacency": promise.adjacency,
        "mechanism": {
            "name": metric.mechanism.name,
            "epsilon": float(metric.epsilon),
            "parameters": metric.mechanism.parameters(),
        },
        "local_epsilon": promise.local_epsilon,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "honest_reports": promise.reports,
        "honest_fraction": decimal_text(collection.honest_fraction),
        "method": promise.method,
        "reports": batch.header.count,
        "valid": valid,
        "invalid": dict(sorted(invalid.items())),
        "software": f"hubbub {hubbub.__version__}",
    }
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
