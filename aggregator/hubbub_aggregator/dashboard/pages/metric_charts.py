"""The charts of a metric: which rows, which words for each mark, and which caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hubbub_aggregator.dashboard import charts, words
from hubbub_aggregator.dashboard.pages.site import called, has_one_line, is_share
from hubbub_aggregator.dashboard.palette import LINES

if TYPE_CHECKING:
    from hubbub_aggregator.answers import Comparison, Series
    from hubbub_aggregator.dashboard.vega import Spec
    from hubbub_aggregator.models import MetricVersion, Segment, ValueModel

__all__ = ["Course", "course", "differences", "picture"]

_DRAWN = 40
"""Values in one chart; the table has more."""
_POINTS = 60
"""Of one line: more of them hide the band around it."""
_STEPS = (1, 7, 28, 91)
"""Whole weeks, where a period is a day: a week's rhythm does not become a pattern of its own."""


class Course(NamedTuple):
    spec: Spec
    caption: str
    labels: list[str]


def picture(segment: Segment, version: MetricVersion) -> tuple[Spec, str]:
    """The chart that goes with the shape of the values, and its caption."""
    sure, processed = words.share(segment.interval.confidence, 0), segment.postprocess != "none"
    rows = [_bar(value, segment, sure) for value in segment.values]
    when = _when(segment.periods.start, segment.periods.end, segment.periods.released)
    how = "post-processed, raw as diamonds with" if processed else "raw estimates with"
    joint = "; the intervals hold for all values together" if segment.interval.simultaneous else ""
    unit = f" in {segment.unit}" if segment.unit else ""
    match segment.shape:
        case "number":
            low, high = (words.amount(end) for end in version.bounds or (0.0, 0.0))
            possible = f"; values lie from {low} to {high}{unit}" if version.bounds else ""
            name = words.sentence(rows[0].label)
            return charts.number_line(rows[0], version.bounds), f"{name} with its {sure} interval, {when}{possible}"
        case "curve":
            axis = segment.axes[0]
            along = f"{axis.name}, {axis.unit}" if axis.unit else axis.name
            drawn = charts.curve(rows, axis.places, along, share=is_share(segment))
            return drawn, f"{words.sentence(axis.name)}: {how} {sure} intervals as a band, {when}{joint}"
        case "grid":
            down, across = segment.axes
            drawn = charts.grid(rows, down.labels, across.labels, (down.name, across.name))
            said = f"{words.sentence(down.name)} by {across.name}: the stronger the colour, the larger the share"
            return drawn, f"{said}, {when}{joint}"
        case "numbers":
            groups = segment.axes[0].name
            drawn = charts.dots(rows[:_DRAWN])
            return drawn, f"By {groups}{unit}: {how} {sure} intervals, {when}{joint}"
    rows = rows[:_DRAWN]
    largest = f"the {len(rows)} largest shares" if len(rows) < segment.value_count else "shares"
    how = "post-processed bars, raw diamonds with" if processed else "raw estimates with"
    return charts.bars(rows, processed=processed), f"{words.sentence(largest)}: {how} {sure} intervals, {when}{joint}"


def _bar(value: ValueModel, segment: Segment, sure: str) -> charts.Bar:
    share, unit = is_share(segment), segment.unit
    limits = words.interval(value["low"], value["high"], is_share=share, unit=unit)
    text = f"{value['label']}: {words.value(value['estimate'], is_share=share, unit=unit)}"
    if segment.postprocess != "none":
        text += f" after {segment.postprocess}; raw {words.value(value['raw_estimate'], is_share=share)}"
    return charts.Bar(
        value["label"],
        value["estimate"],
        value["low"],
        value["high"],
        f"{text}, {limits} with {sure} confidence",
        value["raw_estimate"],
    )


def course(series: Series, confidence: float) -> Course:
    """Over many periods only every so many-th is drawn, and the caption says so: the table has all."""
    if not series.segments:
        return Course({}, "", [])
    newest, shapes = series.segments[-1], {segment.metric_id: segment for segment in series.segments}
    share = is_share(newest)
    one_line = all(has_one_line(segment) for segment in series.segments)
    labels: list[str] = []
    rows: list[charts.Moment] = []
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
            estimate = words.value(value["estimate"], is_share=share, unit=newest.unit)
            limits = words.interval(value["low"], value["high"], is_share=share)
            text = f"{point.period}, {label}: {estimate}, {limits}"
            rows.append(
                charts.Moment(
                    point.period, label, value["estimate"], value["low"], value["high"], text, f"{label}#{run}"
                )
            )
    labels = labels[: len(LINES)]
    rows = [row for row in rows if row.label in labels]
    firsts = [_first(series, segment.metric_id) for segment in series.segments[1:]]
    noun = "period" if released == 1 else "periods"
    largest = f" (the {len(labels)} largest)" if newest.value_count > len(labels) and not one_line else ""
    sure = words.share(confidence, 0)
    is_joint = any(point.interval is not None and point.interval.simultaneous for point in series.points)
    joint = "; each interval holds for all values of its period together" if is_joint else ""
    every = f"; every {step}th period is drawn" if step > 1 else ""
    caption = f"Raw estimates over {released} {noun} with {sure} intervals{largest}{joint}{every}"
    edits = [one for one in firsts if one]
    return Course(charts.course(rows, labels, share=share, edits=edits), caption, labels)


def _first(series: Series, metric_id: str) -> str | None:
    return next((point.period for point in series.points if point.metric_id == metric_id), None)


def differences(answer: Comparison) -> tuple[Spec, str]:
    share = is_share(answer)
    rows = []
    for value in answer.values[:_DRAWN]:
        numbers = (value.difference, value.low, value.high)
        change, low, high = (words.change(number, is_share=share) for number in numbers)
        rows.append(
            charts.Bar(
                value.label, value.difference, value.low, value.high, f"{value.label}: {change}, {low} to {high}"
            )
        )
    sure = words.share(answer.interval.confidence, 0)
    a, b = (_when(side.periods.start, side.periods.end, side.periods.released) for side in (answer.a, answer.b))
    return charts.differences(rows, share=share), f"Change of each value with its {sure} interval: {b} against {a}"


def _when(start: str, end: str, released: int) -> str:
    return start if released == 1 else f"{start} up to {end}"
