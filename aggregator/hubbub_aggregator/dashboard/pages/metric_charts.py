"""The charts of a metric: which rows, which words for each mark, and which caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hubbub_aggregator.dashboard import charts, words
from hubbub_aggregator.dashboard.pages.site import is_share
from hubbub_aggregator.dashboard.palette import LINES

if TYPE_CHECKING:
    from hubbub_aggregator.answers import Comparison, Series
    from hubbub_aggregator.dashboard.vega import Spec
    from hubbub_aggregator.models import MetricVersion, Segment, ValueModel

__all__ = ["Course", "course", "differences", "histogram"]

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


def histogram(segment: Segment, version: MetricVersion) -> tuple[Spec, str]:
    share, sure = is_share(segment.type), words.share(segment.interval.confidence, 0)
    processed = segment.postprocess != "none"

    def text(value: ValueModel) -> str:
        name = value["label"] if share else "mean"
        limits = words.interval(value["low"], value["high"], is_share=share)
        estimate = words.value(value["estimate"], is_share=share)
        if processed:
            raw = words.value(value["raw_estimate"], is_share=share)
            return f"{name}: {estimate} after {segment.postprocess}; raw {raw}, {limits} with {sure} confidence"
        return f"{name}: {estimate}, {limits} with {sure} confidence"

    rows = [
        charts.Bar(value["label"], value["estimate"], value["low"], value["high"], text(value), value["raw_estimate"])
        for value in segment.values[:_DRAWN]
    ]
    when = _when(segment.periods.start, segment.periods.end, segment.periods.released)
    if not share:
        low, high = (words.amount(end) for end in version.bounds or (0.0, 0.0))
        possible = f"; values lie from {low} to {high}" if version.bounds else ""
        return charts.number_line(rows[0], version.bounds), f"Mean with its {sure} interval, {when}{possible}"
    drawn = f"the {len(rows)} largest shares" if len(rows) < segment.value_count else "shares"
    how = "post-processed bars, raw diamonds with" if processed else "raw estimates with"
    joint = "; the intervals hold for all values together" if segment.interval.simultaneous else ""
    return charts.bars(rows, processed=processed), f"{words.sentence(drawn)}: {how} {sure} intervals, {when}{joint}"


def course(series: Series, confidence: float) -> Course:
    """Over many periods only every so many-th is drawn, and the caption says so: the table has all."""
    kinds = {segment.type for segment in series.segments}
    if not kinds:
        return Course({}, "", [])
    share = is_share(series.segments[-1].type)
    boolean = kinds == {"boolean"}
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
        for value in point.values:
            if boolean and value["value"] is not True:
                continue
            label = "yes" if boolean else value["label"]
            if label not in labels:
                labels.append(label)
            estimate = words.value(value["estimate"], is_share=share)
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
    largest = f" (the {len(labels)} largest)" if series.segments[-1].value_count > len(labels) and not boolean else ""
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
    share = is_share(answer.type)
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
