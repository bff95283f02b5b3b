"""The charts of a metric: which values they show, in which order, the words of each spot, and the caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hubbub.result_shapes import cell_label
from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.charts.curve import CurveChart
from hubbub_aggregator.dashboard.charts.grid import GridChart, every_named
from hubbub_aggregator.dashboard.charts.rows import Row, RowsChart
from hubbub_aggregator.dashboard.pages.page_context import is_share, joint
from hubbub_aggregator.dashboard.pages.what_changed import is_clear
from hubbub_aggregator.dashboard.palette import LINES

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.charts.drawn import Chart
    from hubbub_aggregator.models.comparison import Comparison
    from hubbub_aggregator.models.estimate import Segment
    from hubbub_aggregator.models.estimated_values import AxisModel, Shaped, ValueModel
    from hubbub_aggregator.models.metrics import MetricVersion

__all__ = ["Picture", "differences", "in_order", "picture"]

_DRAWN = 40
"""Most values in one chart; the table has more."""
_ROWS, _COLUMNS = 60, 100
"""Most rows and columns of a grid in a chart."""
_PART = 10
"""Most letters of each of the two names of a cell, beside a chart."""
_OTHER = "other"


class Picture(NamedTuple):
    """A chart and its caption."""

    chart: Chart
    caption: str


def in_order(values: Sequence[ValueModel], shown: Shaped, *, by_size: bool) -> list[ValueModel]:
    """The largest first and "other" last, or as the codebook lists them. What runs along axes keeps its order."""
    if not by_size or shown.order != "size" or shown.axes:
        return list(values)
    return sorted(values, key=lambda one: (one["label"].casefold() == _OTHER, -one["estimate"]))


def picture(
    segment: Segment, version: MetricVersion, values: Sequence[ValueModel], lines: Sequence[str] = ()
) -> Picture:
    """The chart that goes with the shape of the values. `lines` are the values that the series follows."""
    sure, processed = formatting.share(segment.interval.confidence, 0), segment.postprocess != "none"
    when = formatting.between(segment.periods.start, segment.periods.end)
    how = "post-processed, raw as diamonds, with" if processed else "estimates with"
    said = joint(segment.interval)
    held = f"; the intervals hold {said}" if said else ""
    unit = f" in {segment.unit}" if segment.unit else ""
    rows = [_row(value, segment, sure, lines) for value in values]
    match segment.shape:
        case "number":
            low, high = (formatting.amount(end) for end in version.bounds or (0.0, 0.0))
            possible = f"; values lie from {low} to {high}{unit}" if version.bounds else ""
            name = formatting.sentence(rows[0].label)
            chart = RowsChart(rows, "dots", is_share=False, bounds=version.bounds or (rows[0].low, rows[0].high))
            return Picture(chart, f"{name} with its {sure} interval, {when}{possible}")
        case "curve":
            alone = "" if segment.interval.simultaneous else ": the whole curve leaves the band more often"
            is_histogram = "norm_sub" in segment.postprocessing
            marked = f"{sure} intervals" if is_histogram else f"{sure} intervals as a band"
            caption = f"{formatting.sentence(segment.axes[0].name)}: {how} {marked}, {when}{held}{alone}"
            return Picture(_curve(rows, segment, is_histogram=is_histogram), caption)
        case "grid":
            down, across = segment.axes
            named = f"{formatting.sentence(down.name)} by {across.name}: the stronger the colour, the larger the share"
            return Picture(_grid(rows, down, across), f"{named}, {when}{held}{_left_out(down, across)}")
        case "numbers":
            groups = segment.axes[0].name
            first = f"; the first {_DRAWN} of {len(rows)}" if len(rows) > _DRAWN else ""
            caption = f"By {groups}{unit}: {how} {sure} intervals, {when}{held}{first}"
            return Picture(RowsChart(rows[:_DRAWN], "dots", is_share=False), caption)
    rows = rows[:_DRAWN]
    largest = f"the {len(rows)} largest shares" if len(rows) < segment.value_count else "shares"
    how = "post-processed bars, raw diamonds, with" if processed else "estimates with"
    caption = f"{formatting.sentence(largest)}: {how} {sure} intervals, {when}{held}"
    return Picture(RowsChart(rows, "bars", is_share=is_share(segment)), caption)


def differences(answer: Comparison) -> Picture:
    """For a curve, a curve of changes. Otherwise the changes, or if they are many the largest ones, in their order."""
    share, names = is_share(answer), _cells(answer)
    drawn = answer.values
    if answer.shape != "curve" and len(drawn) > _DRAWN:
        least = sorted(abs(value.difference) for value in drawn)[-_DRAWN]
        drawn = [value for value in drawn if abs(value.difference) >= least][:_DRAWN]
    rows = []
    for value in drawn:
        shown = value.shown
        change, low, high = (
            formatting.change(number, is_share=share, unit=answer.unit)
            for number in (shown.value, shown.low, shown.high)
        )
        before, after = (formatting.value(side, is_share=share, unit=answer.unit) for side in (shown.a, shown.b))
        rows.append(
            Row(
                value.label,
                shown.value,
                shown.low,
                shown.high,
                change,
                f"{before} → {after}",
                f"{change}, {low} to {high}\n{before} before, {after} after",
                name=names.get(value.label, ""),
                is_clear=is_clear(value),
            )
        )
    sure = formatting.share(answer.interval.confidence, 0)
    a, b = (formatting.between(side.periods.start, side.periods.end) for side in (answer.a, answer.b))
    unit = f" in {answer.unit}" if answer.unit else " in percentage points" if share else ""
    said = f"Change of each value with its {sure} interval{unit}: {b} against {a}"
    held = joint(answer.interval)
    said += f"; the intervals hold {held}" if held else ""
    if len(rows) < answer.value_count:
        said += f"; the {len(rows)} largest changes of {formatting.count(answer.value_count)}"
    if answer.shape == "curve":
        return Picture(_curve(rows, answer, is_change=True), said)
    return Picture(RowsChart(rows, "changes", is_share=share), said + "; grey: not clearly changed")


def _row(value: ValueModel, segment: Segment, sure: str, lines: Sequence[str]) -> Row:
    share, unit, shown = is_share(segment), segment.unit, value["shown"]
    limits = formatting.interval(shown["low"], shown["high"], is_share=share, unit=unit)
    number = formatting.value(shown["value"], is_share=share, unit=unit)
    words, raw = number, None
    if segment.postprocess != "none":
        raw = value["estimate"]
        words += f" after {segment.postprocess}; raw {formatting.value(raw, is_share=share)}"
    label = value["label"]
    line = None if lines else 0
    if label in lines[: len(LINES)]:
        line = lines.index(label)
    return Row(
        label,
        shown["value"],
        shown["low"],
        shown["high"],
        number,
        formatting.interval(shown["low"], shown["high"], is_share=share),
        f"{words}\n{limits} with {sure} confidence",
        raw=raw,
        line=line,
    )


def _curve(
    rows: Sequence[Row], shown: Segment | Comparison, *, is_histogram: bool = False, is_change: bool = False
) -> CurveChart:
    axis = shown.axes[0]
    at = dict(zip(axis.labels, axis.places or range(len(axis.labels)), strict=True))
    rows = sorted(rows, key=lambda row: at[row.label])
    return CurveChart(
        rows,
        [at[row.label] for row in rows],
        _along(axis),
        is_share(shown),
        has_places=axis.places is not None,
        is_histogram=is_histogram,
        is_change=is_change,
    )


def _along(axis: AxisModel) -> str:
    return f"{axis.name}, {axis.unit}" if axis.unit else axis.name


def _grid(rows: list[Row], down: AxisModel, across: AxisModel) -> GridChart:
    return GridChart(rows, down.labels[:_ROWS], across.labels[:_COLUMNS], (_along(down), _along(across)))


def _left_out(down: AxisModel, across: AxisModel) -> str:
    """What the chart of a grid has no room for."""
    said = ""
    for axis, most, what in ((down, _ROWS, "rows"), (across, _COLUMNS, "columns")):
        if len(axis.labels) > most:
            said += f"; the first {most} of {formatting.count(len(axis.labels))} {what} are drawn"
    each = every_named(min(len(across.labels), _COLUMNS))
    return said + (f"; one in {each} columns has its name above it, every cell says its own" if each > 1 else "")


def _cells(shown: Shaped) -> Mapping[str, str]:
    """The cells of a grid by label, with each of the two names shortened separately."""
    if len(shown.axes) < 2:
        return {}
    down, across = (zip(axis.labels, shortened_all(axis.labels, _PART), strict=True) for axis in shown.axes)
    return {cell_label(row, column): f"{r} × {c}" for (row, r), (column, c) in product(down, across)}
