"""The series of a metric: what each period says or why it says nothing, and where the codebook was edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.charts.series import Column, Edit, Reading, SeriesChart
from hubbub_aggregator.dashboard.pages.page_context import called, has_one_line, is_share, joint
from hubbub_aggregator.dashboard.palette import LINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hubbub_aggregator.models.estimated_values import ValueModel
    from hubbub_aggregator.models.metrics import MetricVersion
    from hubbub_aggregator.models.series import Point, Series, SeriesSegment

__all__ = ["STATES", "Course", "course", "edited"]

STATES = {
    "open": "No number yet: reports may still come.",
    "discarded": "No number: the shuffler discarded it, mostly for too few reports.",
    "deleted": "Released once, and deleted after its retention.",
    "not-released": "No number: nothing was released.",
}
"""Why a period has no number."""


class Course(NamedTuple):
    """The series as a chart, with its caption and the values that it follows."""

    chart: SeriesChart
    caption: str
    labels: list[str]
    """As the API names them."""


def course(series: Series, versions: Sequence[MetricVersion], confidence: float) -> Course | None:
    """All periods of an answer as a chart. None if nothing was released in them."""
    if not series.segments:
        return None
    newest = series.segments[-1]
    segments = {segment.metric_id: segment for segment in series.segments}
    one_line = all(has_one_line(segment) for segment in series.segments)
    followed = _followed(series, segments, one_line=one_line)
    columns = [_column(point, segments, followed, newest, one_line=one_line) for point in series.points]
    released = sum(point.state == "released" for point in series.points)
    first, last = series.points[0].period, series.points[-1].period
    largest = f", the {len(followed)} largest values" if newest.value_count > len(followed) and not one_line else ""
    kinds = {joint(point.interval) for point in series.points} - {""}
    held = "".join(f", which hold {kind}" for kind in sorted(kinds))
    caption = f"{released} of {len(columns)} periods, {formatting.span(first, last)}{largest}, with "
    caption += f"{formatting.share(confidence, 0)} intervals{held}"
    chart = SeriesChart(columns, [name for name, _ in followed], is_share(newest), _edits(series, versions))
    return Course(chart, caption, [label for _, label in followed])


def edited(old: MetricVersion, new: MetricVersion) -> str:
    """What an edit changed, in a few words: the first of what matters most to a reader."""
    if old.type != new.type:
        return f"edited: now {new.type}"
    if old.value_count != new.value_count:
        return f"edited: {formatting.count(old.value_count)} → {formatting.count(new.value_count)} values"
    if old.bounds != new.bounds and old.bounds and new.bounds:
        before, after = (" to ".join(map(formatting.amount, one.bounds or ())) for one in (old, new))
        return f"edited: {before} → {after}"
    before, after = (formatting.epsilon(one.mechanism.epsilon) for one in (old, new))
    if before != after:
        return f"edited: local ε {before} → {after}"
    if old.mechanism.name != new.mechanism.name:
        return f"edited: {old.mechanism.name} → {new.mechanism.name}"
    return "edited"


def _followed(series: Series, segments: Mapping[str, SeriesSegment], *, one_line: bool) -> list[tuple[str, str]]:
    """Name and label of each line: the newest period's values first, then those of before an edit."""
    if one_line:
        shape = series.segments[-1]
        label = str(shape.headline.label)
        return [(shape.headline.name or label, label)]
    labels = dict.fromkeys(
        value["label"]
        for point in reversed(series.points)
        for value in (_kept(point, segments) if point.state == "released" else ())
    )
    return [(label, label) for label in list(labels)[: len(LINES)]]


def _kept(point: Point, segments: Mapping[str, SeriesSegment]) -> list[ValueModel]:
    """The values of a point, the largest first if they are a list of shares."""
    values, shape = point.values, segments[str(point.metric_id)]
    return sorted(values, key=lambda one: -one["estimate"]) if shape.order == "size" else values


def _column(
    point: Point,
    segments: Mapping[str, SeriesSegment],
    followed: Sequence[tuple[str, str]],
    newest: SeriesSegment,
    *,
    one_line: bool,
) -> Column:
    date = formatting.date(point.period)
    if point.state != "released":
        return Column(point.period, f"{date}\n{STATES[point.state]}", "", is_discarded=point.state == "discarded")
    shape, share = segments[str(point.metric_id)], is_share(newest)
    values = {value["label"]: value for value in point.values}
    readings: list[Reading | None] = []
    words = [date]
    for name, label in followed:
        value = values.get(str(shape.headline.label) if one_line else label)
        if value is None:
            readings.append(None)
            continue
        shown = value["shown"]
        number = formatting.value(shown["value"], is_share=share, unit=newest.unit)
        limits = formatting.interval(shown["low"], shown["high"], is_share=share)
        words.append(f"{called(value, shape) if one_line else name}: {number}, {limits}")
        readings.append(Reading(shown["value"], shown["low"], shown["high"], number))
    words.append(f"{formatting.count(point.reports)} reports")
    return Column(point.period, "\n".join(words), str(point.metric_id), tuple(readings))


def _edits(series: Series, versions: Sequence[MetricVersion]) -> list[Edit]:
    found, known = [], {version.id: place for place, version in enumerate(versions)}
    for segment in series.segments[1:]:
        at = next((at for at, point in enumerate(series.points) if point.metric_id == segment.metric_id), None)
        place = known.get(segment.metric_id, 0)
        if at is not None and place:
            found.append(Edit(at, edited(versions[place - 1], versions[place])))
    return found
