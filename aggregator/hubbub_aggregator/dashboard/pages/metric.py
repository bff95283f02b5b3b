"""The page of one metric: what the crowd says, how sure that is, how it changed, and how each device was hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.period import DAY, Calendar
from hubbub.shortening import shortened
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem
from hubbub_aggregator.dashboard.mechanism_wording import of_version, paragraph
from hubbub_aggregator.dashboard.pages.bins_headline import BinsHeadline, bins_axis, bins_headline
from hubbub_aggregator.dashboard.pages.metric_bins import BinsView, bins_of, bins_view
from hubbub_aggregator.dashboard.pages.metric_charts import differences, picture
from hubbub_aggregator.dashboard.pages.metric_questions import (
    Change,
    change_of,
    estimate_of,
    gaps_of,
    series_of,
    values_of,
    version_of,
)
from hubbub_aggregator.dashboard.pages.metric_series import course, edited
from hubbub_aggregator.dashboard.pages.page_context import Site, called, is_share, joint, leading, named
from hubbub_aggregator.dashboard.pages.period_tables import Gap, Trend, gaps, trend
from hubbub_aggregator.dashboard.pages.url_parameters import (
    STEPS,
    Asked,
    Choice,
    can_be_listed,
    comparisons,
    orders,
    ranges,
    span_of,
)
from hubbub_aggregator.dashboard.pages.what_changed import sentences
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.metrics import MetricVersion
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.page_context import Figure
    from hubbub_aggregator.models.distribution import NumberDistribution
    from hubbub_aggregator.models.estimate import Segment
    from hubbub_aggregator.models.estimated_values import ValueModel
    from hubbub_aggregator.models.metrics import MetricList, NamedMetric

__all__ = ["MetricPage", "metric_page"]

_HEADLINE = 36
"""Letters of the name beside the large number."""
_BESIDE = 4
"""Most values of a chart beside the number; a longer one stands below the series."""
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
    when: str
    """The periods that it is about."""

    @property
    def is_small(self) -> bool:
        """Whether its chart fits beside the number."""
        return self.segment.shape != "curve" and len(self.segment.axes) < 2 and len(self.rows) <= _BESIDE


@dataclass(frozen=True, slots=True)
class Edition:
    """One id that the name has had. An edit makes another."""

    version: MetricVersion
    address: str | None
    words: str
    edit: str
    """What was edited; empty for the first."""


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
    """The newest of them."""
    gap_count: int
    has_discarded: bool
    has_edits: bool
    change: Change | None
    bins: BinsView | None
    """Of a number in bins."""
    problem: str
    ranges: list[Choice]
    comparisons: list[Choice]
    orders: list[Choice]
    """By size or as in the codebook, if both make sense."""
    options: list[str]
    public: str
    """Address of its public view; empty if it has none."""
    is_daily: bool
    step: int
    """Days from one date to the next that may be picked."""
    seconds: int
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
    if any(one.name == name and one.public for one in (await site.codebook()).metrics):
        page = replace(page, public=site.links.public(name))
    span = span_of(metric, calendar)
    if span is None:
        return _with_gaps(page, await gaps_of(site, metric, None, None))
    asked = asked.within(calendar, span)
    page = replace(
        page,
        asked=asked,
        since=asked.since or "",
        until=asked.until or "",
        ranges=ranges(site.links, name, asked, calendar, span),
        comparisons=comparisons(site.links, name, asked, calendar, span),
        orders=orders(site.links, name, asked) if can_be_listed(metric) else [],
        options=[calendar.period(i).label for i in range(max(span[0], span[1] - _MOST_OPTIONS), span[1] + 2)],
    )
    try:
        estimate = await estimate_of(site, metric, asked)
    except Problem as problem:
        if problem.status in (401, 403) or problem.status >= 500:
            raise
        return _with_gaps(replace(page, problem=problem.detail), await gaps_of(site, metric, asked.since, asked.until))
    series = await series_of(site, metric, asked, calendar, span)
    change = await change_of(site, metric, asked) if asked.compare_from and asked.compare_to else None
    bins = await bins_of(site, metric, asked, estimate)
    return await site.drawer.run(_drawn_page, site, page, estimate, series, change, bins)


def _with_gaps(page: MetricPage, found: tuple[list[Gap], int]) -> MetricPage:
    listed, count = found
    return replace(page, gaps=listed, gap_count=count)


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
        gap_count=0,
        has_discarded=False,
        has_edits=False,
        change=None,
        bins=None,
        problem="",
        ranges=[],
        comparisons=[],
        orders=[],
        options=[],
        public="",
        is_daily=calendar.seconds % DAY == 0,
        step=max(1, calendar.seconds // DAY),
        seconds=calendar.seconds,
        complete=False,
        note=None,
        is_cut=asked.listed(metric) is not None,
        editions=_editions(site, metric, calendar) if len(metric.versions) > 1 else [],
    )


def _editions(site: Site, metric: NamedMetric, calendar: Calendar) -> list[Edition]:
    found = []
    for before, version in reversed(list(zip([None, *metric.versions], metric.versions, strict=False))):
        address = None
        if version.first is not None and version.last is not None:
            end = calendar.period(calendar.boundary(version.last) + 1).label
            address = site.links.metric(metric.name, since=version.first, to=end)
        kind = version.type if version.value_count == 1 else f"{formatting.count(version.value_count)} values"
        mechanism = version.mechanism
        found.append(
            Edition(
                version,
                address,
                f"{kind}, {mechanism.name}, local ε {formatting.epsilon(mechanism.epsilon)}",
                "" if before is None else edited(before, version),
            )
        )
    return found


def _drawn_page(
    site: Site,
    page: MetricPage,
    estimate: Estimate,
    series: Series,
    change: Change | None,
    bins: NumberDistribution | None,
) -> MetricPage:
    asked, name = page.asked, page.metric.name
    line = course(series, page.metric.versions, asked.confidence)
    if change is not None and change.answer is not None:
        picture, said = differences(change.answer)
        figure = site.figure(picture, "compare", said, name, **asked.query())
        change = replace(change, figure=figure, sentences=tuple(sentences(change.answer)))
    labels = line.labels if line is not None and len(line.labels) > 1 else []
    page = _with_gaps(page, gaps(series))
    is_discarded = any(point.state == "discarded" for point in series.points)
    return replace(
        page,
        parts=[_part(site, page, segment, number, labels, bins) for number, segment in enumerate(estimate.segments)],
        course=None if line is None else site.figure(line.chart, "series", line.caption, name, **asked.query()),
        trend=trend(series),
        has_discarded=is_discarded,
        has_edits=len(series.segments) > 1,
        change=change,
        bins=None if bins is None else bins_view(bins),
        complete=estimate.complete,
        note=estimate.privacy.note,
    )


def _part(
    site: Site, page: MetricPage, segment: Segment, number: int, lines: list[str], bins: NumberDistribution | None
) -> Part:
    asked, metric = page.asked, page.metric
    version = version_of(metric, segment.metric_id)
    share, unit = is_share(segment), segment.unit
    values = values_of(segment, metric, asked)
    chart, caption = picture(segment, version, values, lines)
    led, is_binned = _led(segment, bins)
    rows = values[: STEPS[-1]]
    shown = len(rows)
    following = next((step for step in STEPS if step > shown), None)
    more = None
    if shown < segment.value_count and following is not None:
        more = site.links.metric(metric.name, **replace(asked, top=following).query())
    shift = segment.manipulation.per_thousand_fakes
    return Part(
        segment=segment,
        share=share,
        figure=site.figure(chart, "estimate", caption, metric.name, **asked.query(), part=number or None),
        headline=led.number,
        named=led.name,
        limits=led.limits,
        joint="" if is_binned else joint(segment.interval),
        words=paragraph(segment.mechanism, of_version(version)),
        influence=f"{100 * shift:.2g} percentage points"
        if share
        else formatting.value(shift, is_share=False, unit=unit),
        rows=rows,
        more=more,
        hidden=segment.value_count - shown,
        when=formatting.between(segment.periods.start, segment.periods.end),
    )


def _led(segment: Segment, bins: NumberDistribution | None) -> tuple[BinsHeadline, bool]:
    """The large number with its name and its limits, and whether it sums up bins."""
    axis = bins_axis(segment)
    found = next((one for one in bins.segments if one.metric_id == segment.metric_id), None) if bins else None
    if axis is not None and found is not None:
        return bins_headline(found, axis), True
    first, share = leading(segment.values, segment), is_share(segment)
    shown = first["shown"]
    number = formatting.value(shown["value"], is_share=share, unit=segment.unit)
    limits = formatting.interval(shown["low"], shown["high"], is_share=share)
    return BinsHeadline(number, shortened(called(first, segment), _HEADLINE), limits), False
