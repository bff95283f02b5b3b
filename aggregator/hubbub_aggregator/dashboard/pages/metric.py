"""The page of one metric: what the crowd says, how sure that is, how it changed, and how each device was hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.period import DAY, Calendar
from hubbub.shortening import shortened
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem, metric_path
from hubbub_aggregator.dashboard.mechanism_wording import of_version, paragraph
from hubbub_aggregator.dashboard.pages.metric_charts import course, differences, picture
from hubbub_aggregator.dashboard.pages.page_context import Site, called, followed, is_share, joint, leading, named
from hubbub_aggregator.dashboard.pages.period_tables import Gap, Trend, gaps, trend
from hubbub_aggregator.dashboard.pages.url_parameters import STEPS, Asked, Choice, Span, comparisons, ranges, span_of
from hubbub_aggregator.models.comparison import Comparison, DifferenceModel
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.metrics import MetricVersion
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.chart_style import Spec
    from hubbub_aggregator.dashboard.pages.page_context import Figure
    from hubbub_aggregator.models.estimate import Segment
    from hubbub_aggregator.models.estimated_values import ValueModel
    from hubbub_aggregator.models.metrics import MetricList, NamedMetric

__all__ = ["MetricPage", "compare_spec", "estimate_spec", "metric_page", "series_spec"]

_LINES = 3
_HEADLINE = 36
"""Letters of the name beside the large number."""
_MOST_PERIODS = 365
_MOST_OPTIONS = 400


@dataclass(frozen=True, slots=True)
class Part:
    """One id of the metric: what it was, and what its releases say."""

    segment: Segment
    share: bool
    figure: Figure
    headline: str
    named: str
    limits: str
    joint: str
    """Whether the intervals hold for all values together, in words; empty if there is one free value."""
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
        return [] if self.answer is None else self.answer.values[: STEPS[-1]]

    @property
    def unit(self) -> str | None:
        return None if self.answer is None else self.answer.unit


@dataclass(frozen=True, slots=True)
class Edition:
    """One id that the name has had. An edit makes another."""

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
    trend: Trend
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
    is_cut: bool
    """Whether only the largest values may be listed. Values that run along axes are never cut."""
    editions: list[Edition]
    """All ids, newest first, if there are several."""


async def metric_page(site: Site, name: str, asked: Asked) -> MetricPage:
    """Everything about a metric. If the API refuses the question, the page says why."""
    listing = await site.listing()
    metric = named(listing, name)
    if metric is None:
        raise Problem(404, "not-found", "There is no such metric.", f"The overview lists all of {listing.collection}.")
    calendar = Calendar.parse(listing.period)
    page = _empty_page(site, listing, metric, asked, calendar)
    span = span_of(metric, calendar)
    if span is None:
        return replace(page, gaps=await _gaps(site, metric, None, None))
    asked = asked.within(calendar, span)
    page = replace(
        page,
        asked=asked,
        since=asked.since or "",
        until=asked.until or "",
        ranges=ranges(site.links, name, asked, calendar, span),
        comparisons=comparisons(site.links, name, asked, calendar, span),
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
    return await site.drawer.run(_drawn_page, site, page, estimate, series, change)


async def estimate_spec(site: Site, name: str, asked: Asked, part: int) -> Spec:
    """The histogram, or the mean on its line, as a separate file."""
    metric, asked, _, _ = await _found(site, name, asked)
    estimate = await _estimate(site, metric, asked)
    segment = estimate.segments[max(0, min(part, len(estimate.segments) - 1))]
    return picture(segment, _version(metric, segment.metric_id))[0]


async def series_spec(site: Site, name: str, asked: Asked) -> Spec:
    metric, asked, calendar, span = await _found(site, name, asked)
    return course(await _series(site, metric, asked, calendar, span), asked.confidence).spec


async def compare_spec(site: Site, name: str, asked: Asked) -> Spec:
    metric, asked, _, _ = await _found(site, name, asked)
    change = await _change(site, metric, asked)
    if change.answer is None:
        raise Problem(404, "nothing-released", "There is nothing to compare.", change.problem)
    return differences(change.answer)[0]


async def _found(site: Site, name: str, asked: Asked) -> tuple[NamedMetric, Asked, Calendar, Span]:
    listing = await site.listing()
    metric, calendar = named(listing, name), Calendar.parse(listing.period)
    span = None if metric is None else span_of(metric, calendar)
    if metric is None or span is None:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released for this metric.")
    return metric, asked.within(calendar, span), calendar, span


def _empty_page(site: Site, listing: MetricList, metric: NamedMetric, asked: Asked, calendar: Calendar) -> MetricPage:
    return MetricPage(
        metric=metric,
        version=metric.versions[-1],
        collection=listing.collection,
        length=formatting.length(listing.period),
        asked=asked,
        since=asked.since or "",
        until=asked.until or "",
        parts=[],
        course=None,
        trend=Trend([], []),
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
        is_cut=asked.listed(metric) is not None,
        editions=_editions(site, metric, calendar) if len(metric.versions) > 1 else [],
    )


def _editions(site: Site, metric: NamedMetric, calendar: Calendar) -> list[Edition]:
    found = []
    for version in reversed(metric.versions):
        address = None
        if version.first is not None and version.last is not None:
            end = calendar.period(calendar.boundary(version.last) + 1).label
            address = site.links.metric(metric.name, since=version.first, to=end)
        kind = version.type if version.value_count == 1 else f"{formatting.count(version.value_count)} values"
        mechanism = version.mechanism
        found.append(
            Edition(version, address, f"{kind}, {mechanism.name}, local ε {formatting.epsilon(mechanism.epsilon)}")
        )
    return found


async def _estimate(site: Site, metric: NamedMetric, asked: Asked) -> Estimate:
    return await site.api.ask(
        Estimate,
        metric_path(metric.name, "estimate"),
        since=asked.since,
        to=asked.until,
        confidence=asked.confidence,
        postprocess=asked.postprocess,
        top=asked.listed(metric),
    )


async def _series(site: Site, metric: NamedMetric, asked: Asked, calendar: Calendar, span: Span) -> Series:
    """Over the range, or over all periods if the range is a single one: one point makes no course."""
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
    return await site.api.ask(
        Series,
        metric_path(metric.name, "series"),
        since=since,
        to=until,
        confidence=asked.confidence,
        composed=False,
        **followed(metric, _LINES, spare=1),
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
            top=asked.listed(metric),
        )
    except Problem as problem:
        if problem.status in (401, 403) or problem.status >= 500:
            raise
        return Change(None, None, problem.detail)
    return Change(answer, None, share=is_share(answer))


async def _gaps(site: Site, metric: NamedMetric, since: str | None, until: str | None) -> list[Gap]:
    """What became of the periods without an estimate, newest first."""
    try:
        series = await site.api.ask(
            Series, metric_path(metric.name, "series"), since=since, to=until, top=1, composed=False
        )
    except Problem:
        return []
    return gaps(series)


def _drawn_page(site: Site, page: MetricPage, estimate: Estimate, series: Series, change: Change | None) -> MetricPage:
    asked, name = page.asked, page.metric.name
    line = course(series, asked.confidence)
    if change is not None and change.answer is not None:
        picture, said = differences(change.answer)
        change = replace(change, figure=site.figure(picture, "compare", said, name, **asked.query()))
    return replace(
        page,
        parts=[_part(site, page, segment, number) for number, segment in enumerate(estimate.segments)],
        course=site.figure(line.spec, "series", line.caption, name, **asked.query()) if line.spec else None,
        trend=trend(series),
        gaps=gaps(series),
        change=change,
        complete=estimate.complete,
        note=estimate.privacy.note,
    )


def _part(site: Site, page: MetricPage, segment: Segment, number: int) -> Part:
    asked, metric = page.asked, page.metric
    version = _version(metric, segment.metric_id)
    share, unit = is_share(segment), segment.unit
    spec, caption = picture(segment, version)
    first = leading(segment.values, segment)
    rows = segment.values[: STEPS[-1]]
    shown = len(rows)
    following = next((step for step in STEPS if step > shown), None)
    more = None
    if len(segment.values) < segment.value_count and following is not None:
        more = site.links.metric(metric.name, **replace(asked, top=following).query())
    shift = segment.manipulation.per_thousand_fakes
    return Part(
        segment=segment,
        share=share,
        figure=site.figure(spec, "estimate", caption, metric.name, **asked.query(), part=number or None),
        headline=formatting.value(first["shown"]["value"], is_share=share, unit=unit),
        named=shortened(called(first, segment), _HEADLINE),
        limits=formatting.interval(first["shown"]["low"], first["shown"]["high"], is_share=share),
        joint=joint(segment.interval),
        words=paragraph(segment.mechanism, of_version(version)),
        influence=f"{100 * shift:.2g} percentage points"
        if share
        else formatting.value(shift, is_share=False, unit=unit),
        rows=rows,
        more=more,
        hidden=segment.value_count - shown,
    )


def _version(metric: NamedMetric, metric_id: str) -> MetricVersion:
    return next(version for version in metric.versions if version.id == metric_id)
