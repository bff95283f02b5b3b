"""Results as columns: the tables of the aggregator's CSV, without its prose, as lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from hubbub.result_shapes import cell_label

if TYPE_CHECKING:
    from hubbub_query.privacy import Privacy
    from hubbub_query.values import IntervalKind, Shaped, Value

__all__ = [
    "COUNTS",
    "FLAGS",
    "TEXTS",
    "TIME",
    "Columns",
    "chance",
    "guarantee",
    "of_segment",
    "of_values",
    "placed",
    "stacked",
]

Columns: TypeAlias = dict[str, list[Any]]
TEXTS = (
    *(
        "metric",
        "state",
        "statistic",
        "value",
        "row",
        "column",
        "from",
        "to",
        "a_from",
        "a_to",
        "b_from",
        "b_to",
        "metric_id",
    ),
    *("type", "mechanism", "population", "postprocess", "shape", "value_unit", "first", "last"),
    *("covers", "name", "collection", "id", "software", "honest_fraction", "kind"),
)
COUNTS = (
    *("reports", "a_reports", "b_reports", "released", "together", "honest_reports", "honest_reports_pessimistic"),
    *(
        "bucket_reports",
        "valid",
        "invalid",
        "releases",
        "opened_and_refused",
        "released_periods",
        "min_batch",
        "share_devices",
        "group",
    ),
)
FLAGS = ("simultaneous", "complete", "enabled")
TIME = "period"
"""What columns hold; all others hold numbers."""


def stacked(blocks: Iterable[Mapping[str, Any]]) -> Columns:
    """Blocks below each other. In each, a cell that is no list stands in all rows of the block."""
    columns: Columns = {}
    for block in blocks:
        length = next(len(cells) for cells in block.values() if isinstance(cells, list))
        columns = columns or {name: [] for name in block}
        for name, cells in block.items():
            columns[name] += cells if isinstance(cells, list) else [cells] * length
    return columns


def of_values(values: Sequence[Value], shape: Shaped | None, *, with_places: bool) -> dict[str, list[Any]]:
    """Columns of values; of a gap, one row without any."""
    labels = [value.label for value in values]
    shown = {"shown": "value", "shown_low": "low", "shown_high": "high"}
    raw = ("estimate", "low", "high", "stderr", "total", "total_low", "total_high")
    columns: dict[str, list[Any]] = {
        "value": labels,
        **(placed(labels, shape) if with_places else {}),
        **{name: [getattr(value.shown, of) for value in values] for name, of in shown.items()},
        **{name: [getattr(value, name) for value in values] for name in raw},
    }
    return columns if values else {name: [None] for name in columns}


def placed(labels: Sequence[str], shape: Shaped | None) -> dict[str, list[Any]]:
    """For each label its row, its column, and its place on the scale of a curve."""
    match shape.axes if shape else ():
        case [axis]:
            places = axis.places or [None] * len(axis.labels)
            known: dict[str, Any] = {label: (label, None, at) for label, at in zip(axis.labels, places, strict=True)}
        case [down, across]:
            cells = product(down.labels, across.labels)
            known = {cell_label(row, column): (row, column, None) for row, column in cells}
        case _:
            known = {}
    found = [known.get(label, (None, None, None)) for label in labels]
    return {name: [one[at] for one in found] for at, name in enumerate(("row", "column", "place"))}


def chance(interval: IntervalKind | None) -> dict[str, Any]:
    """How sure the limits are, and for how many values at once."""
    names = ("confidence", "together", "simultaneous")
    return {name: getattr(interval, name, None) for name in names}


def guarantee(privacy: Privacy | None) -> dict[str, Any]:
    """The guarantee of the whole table, and the worst of a single period."""
    if privacy is None:
        names = ("epsilon", "delta", "collusion_epsilon", "largest_period_epsilon", "honest_reports")
        return dict.fromkeys(names)
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "collusion_epsilon": privacy.if_collusion.epsilon,
        "largest_period_epsilon": max(period.epsilon for period in privacy.per_period),
        "honest_reports": privacy.honest_reports,
    }


def of_segment(segment: Any) -> dict[str, Any]:
    """What a segment is of."""
    return {
        "metric_id": segment.metric_id if segment else None,
        "type": segment.type if segment else None,
        "mechanism": segment.mechanism.name if segment else None,
    }
