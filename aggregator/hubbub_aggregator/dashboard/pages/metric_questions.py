"""What the page of a metric asks the API: an estimate, a series, a comparison, and which values of them are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.period import Calendar
from hubbub_aggregator.dashboard.api_client import Problem, metric_path
from hubbub_aggregator.dashboard.pages.metric_charts import differences, in_order, picture
from hubbub_aggregator.dashboard.pages.metric_series import course
from hubbub_aggregator.dashboard.pages.page_context import Site, followed, is_share, named
from hubbub_aggregator.dashboard.pages.period_tables import Gap, gaps
from hubbub_aggregator.dashboard.pages.url_parameters import STEPS, Asked, Span, span_of
from hubbub_aggregator.models.comparison import Comparison, DifferenceModel
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.charts.drawn import Chart
    from hubbub_aggregator.dashboard.pages.page_context import Figure
    from hubbub_aggregator.models.estimate import Segment
    from hubbub_aggregator.models.estimated_values import ValueModel
    from hubbub_aggregator.models.metrics import MetricVersion, NamedMetric

__all__ = [
    "Change",
    "change_of",
    "compare_chart",
    "estimate_chart",
    "estimate_of",
    "gaps_of",
    "series_chart",
    "series_of",
    "values_of",
    "version_of",
]

_LINES = 3
_MOST_PERIODS = 365


@dataclass(frozen=True, slots=True)
class Change:
    """The comparison that was asked for, or why there is none."""

    answer: Comparison | None
    figure: Figure | None
    problem: str = ""
    share: bool = True
    sentences: tuple[str, ...] = ()

    @property
    def rows(self) -> list[DifferenceModel]:
        return [] if self.answer is None else self.answer.values[: STEPS[-1]]

    @property
    def unit(self) -> str | None:
        return None if self.answer is None else self.answer.unit


async def estimate_chart(site: Site, name: str, asked: Asked, part: int) -> Chart:
    """The values, or the mean on its line, as a separate file."""
    metric, asked, _, _ = await _found(site, name, asked)
    estimate = await estimate_of(site, metric, asked)
    segment = estimate.segments[max(0, min(part, len(estimate.segments) - 1))]
    values = values_of(segment, metric, asked)
    return picture(segment, version_of(metric, segment.metric_id), values).chart


async def series_chart(site: Site, name: str, asked: Asked) -> Chart:
    metric, asked, calendar, span = await _found(site, name, asked)
    found = course(await series_of(site, metric, asked, calendar, span), metric.versions, asked.confidence)
    if found is None:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing was released in these periods.")
    return found.chart


async def compare_chart(site: Site, name: str, asked: Asked) -> Chart:
    metric, asked, _, _ = await _found(site, name, asked)
    change = await change_of(site, metric, asked)
    if change.answer is None:
        raise Problem(404, "nothing-released", "There is nothing to compare.", change.problem)
    return differences(change.answer).chart


async def estimate_of(site: Site, metric: NamedMetric, asked: Asked) -> Estimate:
    return await site.api.ask(
        Estimate,
        metric_path(metric.name, "estimate"),
        since=asked.since,
        to=asked.until,
        confidence=asked.confidence,
        postprocess=asked.postprocess,
        top=asked.listed(metric),
    )


async def series_of(site: Site, metric: NamedMetric, asked: Asked, calendar: Calendar, span: Span) -> Series:
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


async def change_of(site: Site, metric: NamedMetric, asked: Asked) -> Change:
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


async def gaps_of(site: Site, metric: NamedMetric, since: str | None, until: str | None) -> tuple[list[Gap], int]:
    """What became of the periods without an estimate, newest first."""
    try:
        series = await site.api.ask(
            Series, metric_path(metric.name, "series"), since=since, to=until, top=1, composed=False
        )
    except Problem:
        return [], 0
    return gaps(series)


async def _found(site: Site, name: str, asked: Asked) -> tuple[NamedMetric, Asked, Calendar, Span]:
    listing = await site.listing()
    metric, calendar = named(listing, name), Calendar.parse(listing.period)
    span = None if metric is None else span_of(metric, calendar)
    if metric is None or span is None:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released for this metric.")
    return metric, asked.within(calendar, span), calendar, span


def values_of(segment: Segment, metric: NamedMetric, asked: Asked) -> list[ValueModel]:
    """The values to show, in the order that is asked for. In the codebook's order they are the same ones."""
    most = None if segment.axes else asked.most(metric)
    values = segment.values
    if most is not None and len(values) > most:
        least = sorted(value["estimate"] for value in values)[-most]
        values = [value for value in values if value["estimate"] >= least][:most]
    return in_order(values, segment, by_size=asked.order == "size")


def version_of(metric: NamedMetric, metric_id: str) -> MetricVersion:
    return next(version for version in metric.versions if version.id == metric_id)
