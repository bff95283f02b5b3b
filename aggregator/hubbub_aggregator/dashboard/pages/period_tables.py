"""Tables of a metric's page that the API does not have: its course, and periods without a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.pages.metric_series import STATES

if TYPE_CHECKING:
    from hubbub_aggregator.models.estimated_values import ValueModel
    from hubbub_aggregator.models.series import Series

__all__ = ["Gap", "Trend", "gaps", "trend"]

_COLUMNS = 5
_GAPS = 30


@dataclass(frozen=True, slots=True)
class Trend:
    """The course as a table: the names of its columns, and for each period its values under them."""

    labels: list[str]
    rows: list[tuple[str, list[ValueModel | None], str]]


@dataclass(frozen=True, slots=True)
class Gap:
    period: str
    words: str


def trend(series: Series) -> Trend:
    """The newest periods first. Each value is under its name: before an edit the order may differ."""
    released = [point for point in reversed(series.points) if point.state == "released"]
    labels = list(dict.fromkeys(value["label"] for point in released for value in point.values))[:_COLUMNS]
    rows = []
    for point in released:
        values = {value["label"]: value for value in point.values}
        rows.append((point.period, [values.get(label) for label in labels], formatting.count(point.reports)))
    return Trend(labels, rows)


def gaps(series: Series) -> tuple[list[Gap], int]:
    """What became of periods without an estimate, newest first; the oldest of many are only counted."""
    found = [Gap(one.period, STATES[one.state]) for one in reversed(series.points) if one.state != "released"]
    return found[:_GAPS], len(found)
