"""The page of one metric: what the crowd says, how sure that is, how it changed, and how each device was hidden."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hubbub.period import DAY, Calendar
from hubbub.problems import InvalidParameter
from hubbub_aggregator.answers import Comparison, DifferenceModel, Series
from hubbub_aggregator.dashboard import charts, words
from hubbub_aggregator.dashboard.api import Problem, metric_path
from hubbub_aggregator.dashboard.mechanism_words import of_version, paragraph
from hubbub_aggregator.dashboard.pages.site import Site, is_share, named
from hubbub_aggregator.dashboard.palette import LINES
from hubbub_aggregator.models import Estimate, MetricVersion

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.site import Figure
    from hubbub_aggregator.models import MetricList, NamedMetric, Segment, ValueModel

__all__ = ["Asked", "MetricPage", "compare_spec", "estimate_spec", "metric_page", "series_spec"]

FEW = 20
_STEPS = (FEW, 100, 500, 1000)
"""How many values are listed; the CSV has all."""
_DRAWN = 40
_LINES = 3
_MOST_PERIODS = 365
_MOST_OPTIONS = 400


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address of the page asks for."""

    since: str | None = None
    until: str | None = None
    confidence: float = 0.95
    postprocess: str = "none"
    compare_from: str | None = None
    compare_to: str | None = None
    top: int | None = None

    def query(self) -> dict[str, object]:
        """As parameters of this page's address; what is as usual is left out."""
        return {
            "since": self.since,
            "to": self.until,
            "confidence": None if self.confidence == 0.95 else self.confidence,
            "postprocess": None if self.postprocess == "none" else self.postprocess,
            "compare_from": self.compare_from,
            "compare_to": self.compare_to,
            "top": self.top,
        }


@dataclass(frozen=True, slots=True)
class Part:
    """One id of the metric: what it was, and what its releases say."""

    segment: Segment
    share: bool
    figure: Figure
    headline: str
    named: str
    limits: str
    words: str
    influence: str
    rows: list[ValueModel]
    more: str | None
    hidden: int


@dataclass(frozen=True, slots=True)
class Change:
    """The comparison that was asked for, or why there is none."""

    answer: Comparison | None
    figure: Figure | None
    problem: str = ""
    share: bool = True

    @property
    def rows(self) -> list[DifferenceModel]:
        return [] if self.answer is None else self.answer.values


@dataclass(frozen=True, slots=True)
class Gap:
    period: str
    state: str


@dataclass(frozen=True, slots=True)
class Choice:
    label: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Edition:
    """One id that the name has had; an edit makes another."""

    version: MetricVersion
    address: str | None
    words: str


@dataclass(frozen=True, slots=True)
class MetricPage:
    metric: NamedMetric
    version: MetricVersion
    collection: str
    length: str
    asked: Asked
    since: str
    until: str
    parts: list[Part]
    course: Figure | None
    trend: list[tuple[str, list[ValueModel], str]]
    gaps: list[Gap]
    change: Change | None
    problem: str
    ranges: list[Choice]
    comparisons: list[Choice]
    options: list[str]
    is_daily: bool
    step: int
    complete: bool
    note: str | None
    editions: list[Edition]
    """All of them, where there are several; the newest first."""


class _Course(NamedTuple):
    spec: charts.Spec
    caption: str
    labels: list[str]


async def metric_page(site: Site, name: str, asked: Asked) -> MetricPage:
    """Everything about a metric. What the API refuses because of the question is said on the page."""
    listing = await site.listing()
    metric = named(listing, name)
    if metric is None:
        raise Problem(404, "not-found", "There is no such metric.", f"The overview lists all of {listing.collection}.")
    calendar = Calendar.parse(listing.period)
    lasts = [calendar.boundary(version.last) for version in metric.versions if version.last]
    firsts = [calendar.boundary(version.first) for version in metric.versions if version.first]
    page = _empty_page(site, listing, metric, asked, calendar)
    if not lasts:
        return replace(page, gaps=await _gaps(site, metric, None, None))
    span = (min(firsts), max(lasts))
    asked = _with_range(asked, calendar, span)
    page = replace(
        page,
        asked=asked,
        since=asked.since or "",
        until=asked.until or "",
        ranges=_ranges(site, name, asked, calendar, span),
        comparisons=_comparisons(site, name, asked, calendar, span),
        options=[calendar.period(i).label for i in range(max(span[0], span[1] - _MOST_OPTIONS), span[1] + 2)],
    )
    try:
        estimate = await _estimate(site, metric, asked)
    except Problem as problem:
        if problem.status in (401, 403) or problem.status >= 500:
            raise
        return replace(page, problem=problem.detail, gaps=await _gaps(site, metric, asked.since, asked.until))
    series = await _series(site, metric, asked, calendar, span)
    change = await _change(site, metric, asked) if asked.compare_from and asked.compare_to else None
    return await asyncio.to_thread(_drawn_page, site, page, estimate, series, change)


async def estimate_spec(site: Site, name: str, asked: Asked, part: int) -> charts.Spec:
    """The histogram, or the mean on its line, as a file of its own."""
    metric, asked, _, _ = await _found(site, name, asked)
    estimate = await _estimate(site, metric, asked)
    segment = estimate.segments[max(0, min(part, len(estimate.segments) - 1))]
    return _histogram(segment, _version(metric, segment.metric_id))[0]


async def series_spec(site: Site, name: str, asked: Asked) -> charts.Spec:
    metric, asked, calendar, span = await _found(site, name, asked)
    return _course(await _series(site, metric, asked, calendar, span), asked.confidence, legend=True).spec


async def compare_spec(site: Site, name: str, asked: Asked) -> charts.Spec:
    metric, asked, _, _ = await _found(site, name, asked)
    change = await _change(site, metric, asked)
    if change.answer is None:
        raise Problem(404, "nothing-released", "There is nothing to compare.", change.problem)
    return _differences(change.answer)[0]


async def _found(site: Site, name: str, asked: Asked) -> tuple[NamedMetric, Asked, Calendar, tuple[int, int]]:
    listing = await site.listing()
    metric = named(listing, name)
    calendar = Calendar.parse(listing.period)
    lasts = [calendar.boundary(version.last) for version in (metric.versions if metric else []) if version.last]
    firsts = [calendar.boundary(version.first) for version in (metric.versions if metric else []) if version.first]
    if metric is None or not lasts:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released for this metric.")
    span = (min(firsts), max(lasts))
    return metric, _with_range(asked, calendar, span), calendar, span


def _empty_page(site: Site, listing: MetricList, metric: NamedMetric, asked: Asked, calendar: Calendar) -> MetricPage:
    return MetricPage(
        metric=metric,
        version=metric.versions[-1],
        collection=listing.collection,
        length=words.length(listing.period),
        asked=asked,
        since=asked.since or "",
        until=asked.until or "",
        parts=[],
        course=None,
        trend=[],
        gaps=[],
        change=None,
        problem="",
        ranges=[],
        comparisons=[],
        options=[],
        is_daily=calendar.seconds % DAY == 0,
        step=max(1, calendar.seconds // DAY),
        complete=False,
        note=None,
        editions=_editions(site, metric, calendar) if len(metric.versions) > 1 else [],
    )


def _editions(site: Site, metric: NamedMetric, calendar: Calendar) -> list[Edition]:
    found = []
    for version in reversed(metric.versions):
        address = None
        if version.first is not None and version.last is not None:
            end = calendar.period(calendar.boundary(version.last) + 1).label
            address = site.links.metric(metric.name, since=version.first, to=end)
        kind = "mean" if version.bounds else f"{words.count(version.value_count)} values"
        mechanism = version.mechanism
        found.append(Edition(version, address, f"{kind}, {mechanism.name}, local ε {words.epsilon(mechanism.epsilon)}"))
    return found


def _with_range(asked: Asked, calendar: Calendar, span: tuple[int, int]) -> Asked:
    """With the range filled in: the newest period unless something else is asked for."""
    if asked.since is None and asked.until is None:
        return replace(asked, since=calendar.period(span[1]).label, until=calendar.period(span[1] + 1).label)
    return replace(
        asked,
        since=asked.since or calendar.period(span[0]).label,
        until=asked.until or calendar.period(span[1] + 1).label,
    )


def _top(metric: NamedMetric, asked: Asked) -> int | None:
    largest = max(version.value_count for version in metric.versions)
    if asked.top is not None:
        return min(asked.top, _STEPS[-1])
    return FEW if largest > FEW else None


async def _estimate(site: Site, metric: NamedMetric, asked: Asked) -> Estimate:
    return await site.api.ask(
        Estimate,
        metric_path(metric.name, "estimate"),
        since=asked.since,
        to=asked.until,
        confidence=asked.confidence,
        postprocess=asked.postprocess,
        top=_top(metric, asked),
    )


async def _series(site: Site, metric: NamedMetric, asked: Asked, calendar: Calendar, span: tuple[int, int]) -> Series:
    """Over the range, or over all periods where the range is a single one: one point is no course."""
    since, until = asked.since, asked.until
    try:
        periods = calendar.range(since or "", until or "")
    except InvalidParameter:  # then the whole course is shown
        periods = range(0)
    if len(periods) <= 1:
        since = calendar.period(max(span[0], span[1] - _MOST_PERIODS + 1)).label
        until = calendar.period(span[1] + 1).label
    elif len(periods) > _MOST_PERIODS:
        since = calendar.period(periods[-_MOST_PERIODS]).label
    largest = max(version.value_count for version in metric.versions)
    return await site.api.ask(
        Series,
        metric_path(metric.name, "series"),
        since=since,
        to=until,
        confidence=asked.confidence,
        top=_LINES if largest > _LINES + 1 else None,
        composed=False,
    )


async def _change(site: Site, metric: NamedMetric, asked: Asked) -> Change:
    try:
        answer = await site.api.ask(
            Comparison,
            metric_path(metric.name, "compare"),
            a_from=asked.compare_from,
            a_to=asked.compare_to,
            b_from=asked.since,
            b_to=asked.until,
            confidence=asked.confidence,
            top=_top(metric, asked),
        )
    except Problem as problem:
        if problem.status in (401, 403) or problem.status >= 500:
            raise
        return Change(None, None, problem.detail)
    return Change(answer, None, share=is_share(answer.type))


async def _gaps(site: Site, metric: NamedMetric, since: str | None, until: str | None) -> list[Gap]:
    """What became of the periods, where there is no estimate; the newest first."""
    try:
        series = await site.api.ask(
            Series, metric_path(metric.name, "series"), since=since, to=until, top=1, composed=False
        )
    except Problem:
        return []
    return _of_points(series)


def _of_points(series: Series) -> list[Gap]:
    return [Gap(point.period, point.state) for point in reversed(series.points) if point.state != "released"][:30]


def _drawn_page(site: Site, page: MetricPage, estimate: Estimate, series: Series, change: Change | None) -> MetricPage:
    asked, name = page.asked, page.metric.name
    course = _course(series, asked.confidence)
    if change is not None and change.answer is not None:
        picture, said = _differences(change.answer)
        change = replace(change, figure=site.figure(picture, "compare", said, name, **asked.query()))
    return replace(
        page,
        parts=[_part(site, page, segment, number) for number, segment in enumerate(estimate.segments)],
        course=replace(
            site.figure(course.spec, "series", course.caption, name, **asked.query()),
            key=tuple((f"key-{index}", label) for index, label in enumerate(course.labels) if len(course.labels) > 1),
        )
        if course.spec
        else None,
        trend=_trend(series),
        gaps=_of_points(series),
        change=change,
        complete=estimate.complete,
        note=estimate.privacy.note,
    )


def _part(site: Site, page: MetricPage, segment: Segment, number: int) -> Part:
    asked, metric = page.asked, page.metric
    version = _version(metric, segment.metric_id)
    share = is_share(segment.type)
    spec, caption = _histogram(segment, version)
    leading = _leading(segment)
    shown = len(segment.values)
    following = next((step for step in _STEPS if step > shown), None)
    more = None
    if shown < segment.value_count and following is not None:
        more = site.links.metric(metric.name, **replace(asked, top=following).query())
    shift = segment.manipulation.per_thousand_fakes
    return Part(
        segment=segment,
        share=share,
        figure=site.figure(spec, "estimate", caption, metric.name, **asked.query(), part=number or None),
        headline=words.value(leading["estimate"], is_share=share),
        named="yes" if segment.type == "boolean" else leading["label"],
        limits=words.interval(leading["low"], leading["high"], is_share=share),
        words=paragraph(segment.mechanism, of_version(version)),
        influence=f"{100 * shift:.2g} percentage points" if share else words.amount(shift),
        rows=segment.values,
        more=more,
        hidden=segment.value_count - shown,
    )


def _leading(segment: Segment) -> ValueModel:
    if segment.type == "boolean":
        return next(value for value in segment.values if value["value"] is True)
    return max(segment.values, key=lambda value: value["estimate"])


def _version(metric: NamedMetric, metric_id: str) -> MetricVersion:
    return next(version for version in metric.versions if version.id == metric_id)


def _histogram(segment: Segment, version: MetricVersion) -> tuple[charts.Spec, str]:
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
    return charts.bars(rows, processed=processed), f"{words.sentence(drawn)}: {how} {sure} intervals, {when}"


def _course(series: Series, confidence: float, *, legend: bool = False) -> _Course:
    kinds = {segment.type for segment in series.segments}
    if not kinds:
        return _Course({}, "", [])
    share = is_share(series.segments[-1].type)
    boolean = kinds == {"boolean"}
    labels: list[str] = []
    rows: list[charts.Moment] = []
    run, before = 0, None
    for point in series.points:
        if point.state != "released" or point.metric_id != before:
            run += 1
        before = point.metric_id if point.state == "released" else None
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
    released = sum(point.state == "released" for point in series.points)
    noun = "period" if released == 1 else "periods"
    largest = f" (the {len(labels)} largest)" if series.segments[-1].value_count > len(labels) and not boolean else ""
    caption = f"Raw estimates over {released} {noun} with {words.share(confidence, 0)} intervals{largest}"
    edits = [one for one in firsts if one]
    return _Course(charts.course(rows, labels, share=share, edits=edits, legend=legend), caption, labels)


def _first(series: Series, metric_id: str) -> str | None:
    return next((point.period for point in series.points if point.metric_id == metric_id), None)


def _trend(series: Series) -> list[tuple[str, list[ValueModel], str]]:
    """The newest periods first, for the table below the chart."""
    return [
        (point.period, point.values, words.count(point.reports))
        for point in reversed(series.points)
        if point.state == "released"
    ]


def _differences(answer: Comparison) -> tuple[charts.Spec, str]:
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


def _ranges(site: Site, name: str, asked: Asked, calendar: Calendar, span: tuple[int, int]) -> list[Choice]:
    last = span[1]
    found = []
    for label, first in (("newest", last), ("7 periods", last - 6), ("30 periods", last - 29), ("all", span[0])):
        if first < span[0] or (label == "all" and span[0] == last):
            continue
        since, until = calendar.period(first).label, calendar.period(last + 1).label
        chosen = replace(asked, since=since, until=until, compare_from=None, compare_to=None)
        found.append(
            Choice(label, site.links.metric(name, **chosen.query()), (asked.since, asked.until) == (since, until))
        )
    return found


def _comparisons(site: Site, name: str, asked: Asked, calendar: Calendar, span: tuple[int, int]) -> list[Choice]:
    """Ranges that one may want to compare with: the same length before, and the first of that length."""
    try:
        chosen = calendar.range(asked.since or "", asked.until or "")
    except InvalidParameter:  # what is wrong with the range is said where it is used
        return []
    size = len(chosen)
    found: dict[str, int] = {}
    if chosen.start - size >= span[0]:
        found["the one before" if size == 1 else f"the {size} before"] = chosen.start - size
    if span[0] + size <= chosen.start - size:
        found["the first one" if size == 1 else f"the first {size}"] = span[0]
    choices = []
    for label, start in found.items():
        a = (calendar.period(start).label, calendar.period(start + size).label)
        address = site.links.metric(name, **replace(asked, compare_from=a[0], compare_to=a[1]).query())
        choices.append(Choice(label, address, (asked.compare_from, asked.compare_to) == a))
    return choices
