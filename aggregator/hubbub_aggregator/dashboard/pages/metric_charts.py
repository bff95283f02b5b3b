"""The charts of a metric: which rows, which words for each mark, and which caption."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hubbub.result_shapes import cell_label
from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard import curve_and_grid_charts, formatting, vega_specs
from hubbub_aggregator.dashboard.pages.page_context import called, has_one_line, is_share, joint
from hubbub_aggregator.dashboard.palette import LINES

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.chart_style import Spec
    from hubbub_aggregator.models.comparison import Comparison
    from hubbub_aggregator.models.estimate import Segment
    from hubbub_aggregator.models.estimated_values import AxisModel, Shaped, ValueModel
    from hubbub_aggregator.models.metrics import MetricVersion
    from hubbub_aggregator.models.series import Series

__all__ = ["Course", "course", "differences", "picture"]

_DRAWN = 40
"""Most values in one chart; the table has more."""
_ROWS, _COLUMNS = 60, 100
"""Most rows and columns of a grid in a chart."""
_PART = 10
"""Most letters of each of the two names of a cell, beside a chart."""
_POINTS = 60
"""Most points of one line: more of them would hide the band around it."""
_STEPS = (1, 7, 28, 91)
"""Periods from one drawn point to the next: whole weeks of days, so that a weekly rhythm makes no false pattern."""


class Course(NamedTuple):
    spec: Spec
    caption: str
    labels: list[str]


def picture(segment: Segment, version: MetricVersion) -> tuple[Spec, str]:
    """The chart that goes with the shape of the values, and its caption."""
    sure, processed = formatting.share(segment.interval.confidence, 0), segment.postprocess != "none"
    rows = [_bar(value, segment, sure) for value in segment.values]
    when = _when(segment.periods.start, segment.periods.end, segment.periods.released)
    how = "post-processed, raw as diamonds, with" if processed else "estimates with"
    said = joint(segment.interval)
    held = f"; the intervals hold {said}" if said else ""
    unit = f" in {segment.unit}" if segment.unit else ""
    match segment.shape:
        case "number":
            low, high = (formatting.amount(end) for end in version.bounds or (0.0, 0.0))
            possible = f"; values lie from {low} to {high}{unit}" if version.bounds else ""
            name = formatting.sentence(rows[0].label)
            return vega_specs.number_line(rows[0], version.bounds), f"{name} with its {sure} interval, {when}{possible}"
        case "curve":
            axis = segment.axes[0]
            drawn = curve_and_grid_charts.curve(rows, axis.labels, axis.places, _along(axis), share=is_share(segment))
            alone = "" if segment.interval.simultaneous else ": the whole curve leaves the band more often"
            return drawn, f"{formatting.sentence(axis.name)}: {how} {sure} intervals as a band, {when}{held}{alone}"
        case "grid":
            down, across = segment.axes
            named = f"{formatting.sentence(down.name)} by {across.name}: the stronger the colour, the larger the share"
            return _grid(rows, down, across), f"{named}, {when}{held}{_left_out(down, across)}"
        case "numbers":
            groups = segment.axes[0].name
            drawn = curve_and_grid_charts.dots(rows[:_DRAWN])
            first = f"; the first {_DRAWN} of {len(rows)}" if len(rows) > _DRAWN else ""
            return drawn, f"By {groups}{unit}: {how} {sure} intervals, {when}{held}{first}"
    rows = rows[:_DRAWN]
    largest = f"the {len(rows)} largest shares" if len(rows) < segment.value_count else "shares"
    how = "post-processed bars, raw diamonds, with" if processed else "estimates with"
    return vega_specs.bars(
        rows, processed=processed
    ), f"{formatting.sentence(largest)}: {how} {sure} intervals, {when}{held}"


def _along(axis: AxisModel) -> str:
    return f"{axis.name}, {axis.unit}" if axis.unit else axis.name


def _grid(rows: list[vega_specs.Bar], down: AxisModel, across: AxisModel) -> Spec:
    return curve_and_grid_charts.grid(
        rows, down.labels[:_ROWS], across.labels[:_COLUMNS], (_along(down), _along(across))
    )


def _left_out(down: AxisModel, across: AxisModel) -> str:
    """What the chart of a grid has no room for."""
    said = ""
    for axis, most, what in ((down, _ROWS, "rows"), (across, _COLUMNS, "columns")):
        if len(axis.labels) > most:
            said += f"; the first {most} of {formatting.count(len(axis.labels))} {what} are drawn"
    each = curve_and_grid_charts.every_named(down.labels[:_ROWS], across.labels[:_COLUMNS], _along(down))
    return said + (f"; one in {each} columns has its name above it, every cell says its own" if each > 1 else "")


def _bar(value: ValueModel, segment: Segment, sure: str) -> vega_specs.Bar:
    share, unit, shown = is_share(segment), segment.unit, value["shown"]
    limits = formatting.interval(shown["low"], shown["high"], is_share=share, unit=unit)
    text = f"{value['label']}: {formatting.value(shown['value'], is_share=share, unit=unit)}"
    raw = None
    if segment.postprocess != "none":
        raw = value["estimate"]
        text += f" after {segment.postprocess}; raw {formatting.value(raw, is_share=share)}"
    return vega_specs.Bar(
        value["label"], shown["value"], shown["low"], shown["high"], f"{text}, {limits} with {sure} confidence", raw
    )


def course(series: Series, confidence: float) -> Course:
    """Over many periods only some are drawn, evenly spaced. The caption says so, and the table has all of them."""
    if not series.segments:
        return Course({}, "", [])
    newest, shapes = series.segments[-1], {segment.metric_id: segment for segment in series.segments}
    share = is_share(newest)
    one_line = all(has_one_line(segment) for segment in series.segments)
    labels: list[str] = []
    rows: list[vega_specs.Moment] = []
    run, before = 0, None
    released = sum(point.state == "released" for point in series.points)
    step = next(step for step in _STEPS if len(series.points) <= step * _POINTS or step == _STEPS[-1])
    for left, point in zip(range(len(series.points) - 1, -1, -1), series.points, strict=True):
        if point.state != "released" or point.metric_id != before:
            run += 1
        before = point.metric_id if point.state == "released" else None
        if left % step:  # counted from the newest, which is always drawn
            continue
        shape = shapes.get(point.metric_id or "", newest)
        for value in point.values:
            if one_line and value["label"] != shape.headline.label:
                continue
            label = called(value, shape) if one_line else value["label"]
            if label not in labels:
                labels.append(label)
            shown = value["shown"]
            estimate = formatting.value(shown["value"], is_share=share, unit=newest.unit)
            limits = formatting.interval(shown["low"], shown["high"], is_share=share)
            text = f"{point.period}, {label}: {estimate}, {limits}"
            rows.append(
                vega_specs.Moment(
                    point.period, label, shown["value"], shown["low"], shown["high"], text, f"{label}#{run}"
                )
            )
    labels = labels[: len(LINES)]
    rows = [row for row in rows if row.label in labels]
    firsts = [_first(series, segment.metric_id) for segment in series.segments[1:]]
    noun = "period" if released == 1 else "periods"
    largest = f" (the {len(labels)} largest)" if newest.value_count > len(labels) and not one_line else ""
    sure = formatting.share(confidence, 0)
    kinds = {joint(point.interval) for point in series.points} - {""}
    held = "".join(f"; the intervals of a period hold {kind}" for kind in sorted(kinds))
    every = f"; every {step}th period is drawn" if step > 1 else ""
    caption = f"Estimates over {released} {noun} with {sure} intervals{largest}{held}{every}"
    edits = [one for one in firsts if one]
    return Course(vega_specs.course(rows, labels, share=share, edits=edits), caption, labels)


def _first(series: Series, metric_id: str) -> str | None:
    return next((point.period for point in series.points if point.metric_id == metric_id), None)


def differences(answer: Comparison) -> tuple[Spec, str]:
    """For a curve, a curve of changes. Otherwise the changes, or if they are many the largest ones, in their order."""
    share, names = is_share(answer), _cells(answer)
    drawn = answer.values
    if answer.shape != "curve" and len(drawn) > _DRAWN:
        least = sorted(abs(value.difference) for value in drawn)[-_DRAWN]
        drawn = [value for value in drawn if abs(value.difference) >= least][:_DRAWN]
    rows = []
    for value in drawn:
        shown = value.shown
        numbers = (shown.value, shown.low, shown.high)
        change, low, high = (formatting.change(number, is_share=share, unit=answer.unit) for number in numbers)
        text = f"{value.label}: {change}, {low} to {high}"
        name = names.get(value.label, "")
        rows.append(vega_specs.Bar(value.label, *numbers, text, name=name))
    sure = formatting.share(answer.interval.confidence, 0)
    a, b = (_when(side.periods.start, side.periods.end, side.periods.released) for side in (answer.a, answer.b))
    unit = f" in {answer.unit}" if answer.unit else ""
    largest = f"; the {len(rows)} largest changes of {formatting.count(answer.value_count)}"
    said = f"Change of each value with its {sure} interval{unit}: {b} against {a}"
    held = joint(answer.interval)
    said += f"; the intervals hold {held}" if held else ""
    said += largest if len(rows) < answer.value_count else ""
    if answer.shape == "curve":
        axis = answer.axes[0]
        return curve_and_grid_charts.curve(
            rows, axis.labels, axis.places, _along(axis), share=share, changes=True
        ), said
    return vega_specs.differences(rows, share=share), said


def _cells(shown: Shaped) -> Mapping[str, str]:
    """The cells of a grid by label, with each of the two names shortened separately."""
    if len(shown.axes) < 2:
        return {}
    down, across = (zip(axis.labels, shortened_all(axis.labels, _PART), strict=True) for axis in shown.axes)
    return {cell_label(row, column): f"{r} × {c}" for (row, r), (column, c) in product(down, across)}


def _when(start: str, end: str, released: int) -> str:
    return start if released == 1 else f"{start} up to {end}"
