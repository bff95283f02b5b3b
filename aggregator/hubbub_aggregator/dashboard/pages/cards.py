"""Cards of the overview: a metric's newest number, its change and its trend, drawn ahead of the first look.

A card changes only with a release of its metric. `Cards` keeps what is drawn, and draws in one background task that all
callers share.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem, distribution_path, metric_path
from hubbub_aggregator.dashboard.pages.bins_headline import bins_axis, bins_headline
from hubbub_aggregator.dashboard.pages.card_change import Change, change_since
from hubbub_aggregator.dashboard.pages.page_context import (
    Site,
    called,
    followed,
    has_one_line,
    is_share,
    joint,
    leading,
)
from hubbub_aggregator.dashboard.pages.url_parameters import span_of
from hubbub_aggregator.dashboard.sparkline import sparkline
from hubbub_aggregator.models.distribution import NumberDistribution
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub.period import Calendar
    from hubbub_aggregator.models.estimated_values import AxisModel
    from hubbub_aggregator.models.metrics import NamedMetric
    from hubbub_aggregator.models.privacy import PeriodPrivacy
    from hubbub_aggregator.models.series import Point, SeriesSegment

__all__ = ["Cards", "Change", "Drawn", "Line", "Trend", "every_nth"]

_SHOWN = 3
_BESIDE = 17
"""Most letters of a name beside its number."""
_PERIODS = 365
_MOST_CARDS = 2_000
_CARD = 8_000
"""About how many bytes a card takes: its trend is a few numbers from a series of many kilobytes."""
_POINTS = 60
"""Most points of a trend."""
_STEPS = (1, 7, 28, 91)
"""Periods from one point to the next: whole weeks of days, so that a weekly rhythm makes no false pattern."""
_PATIENCE = 2.5
"""Seconds that the page waits for cards that must be drawn because of a release. It does not wait for the others."""


@dataclass(frozen=True, slots=True)
class Line:
    """One value on a card."""

    label: str
    short: str
    estimate: str
    interval: str


@dataclass(frozen=True, slots=True)
class Trend:
    spark: Markup
    label: str
    first: str
    last: str
    periods: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a card shows of a metric's releases. It changes only with them."""

    lines: list[Line]
    """The headline first."""
    joint: str
    """Whether the intervals hold for all values together, in words; empty if there is one free value."""
    more: int
    reports: str
    period: str
    privacy: PeriodPrivacy
    local_epsilon: float
    metric_id: str
    bins: AxisModel | None = None
    """Of a number in bins."""
    change: Change | None = None
    trend: Trend | None = None


class _Kept(NamedTuple):
    spans: tuple[object, ...]
    accepted: int
    cards: int
    """How many changes are judged together."""
    drawn: Drawn | None


_UNFINISHED = -1
"""In place of the number of accepted batches: it matches none, so that the card is drawn again."""


class Cards:
    """Drawn cards, each kept until its metric may have another release."""

    def __init__(self, patience: float | None = _PATIENCE) -> None:
        self._patience = patience
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._drawing: asyncio.Task[None] | None = None

    async def drawn(
        self, site: Site, metrics: list[NamedMetric], calendar: Calendar, accepted: int
    ) -> dict[str, Drawn | None]:
        """Cards by name. One that takes too long is shown as it was, or left out; its drawing goes on for all callers.

        A release shows in its metric's spans, except another one of a period that has one already: then only `accepted`
        has grown, and all cards are asked for again, which for most is a 304.
        """
        old = [one for one in metrics if not self._is_fresh(one, accepted, len(metrics))]
        if old:
            if self._drawing is None or self._drawing.done():
                old.sort(key=lambda one: one.name in self._kept and self._kept[one.name].spans == _spans(one))
                self._drawing = asyncio.create_task(self._draw(site, old, calendar, accepted, len(metrics)))
            drawing = self._drawing
            await asyncio.wait([drawing], timeout=self._patience)
            if drawing.done():
                drawing.result()  # raises what went wrong, if anything did
        return {one.name: self._kept[one.name].drawn for one in metrics if one.name in self._kept}

    def _is_fresh(self, metric: NamedMetric, accepted: int, cards: int) -> bool:
        kept = self._kept.get(metric.name)
        return kept is not None and kept[:3] == (_spans(metric), accepted, cards)

    async def _draw(
        self, site: Site, metrics: list[NamedMetric], calendar: Calendar, accepted: int, cards: int
    ) -> None:
        """Draw first the newest numbers of all metrics, then their trends, one after the other."""
        newest = {}
        for metric in metrics:
            newest[metric.name] = await _newest(site, metric, calendar, cards)
            kept = self._kept.get(metric.name)
            if kept is None or kept.drawn is None:
                self._kept[metric.name] = _Kept(_spans(metric), _UNFINISHED, cards, newest[metric.name])
        for metric in metrics:
            drawn = newest[metric.name]
            if drawn is not None and drawn.bins is None:  # a trend of one bin would be about another number
                drawn = replace(drawn, trend=await _trend(site, metric, calendar, drawn.lines[0].label))
            self._kept[metric.name] = _Kept(_spans(metric), accepted, cards, drawn)
            while len(self._kept) > _MOST_CARDS:
                self._kept.popitem(last=False)


def every_nth(periods: int) -> int:
    """How many periods from one point of a trend to the next."""
    return next((step for step in _STEPS if periods <= step * _POINTS), _STEPS[-1])


def _spans(metric: NamedMetric) -> tuple[object, ...]:
    return tuple((one.id, one.released_periods, one.first, one.last) for one in metric.versions)


async def _newest(site: Site, metric: NamedMetric, calendar: Calendar, changes: int) -> Drawn | None:
    """The newest number, and its change since the period before."""
    span = span_of(metric, calendar)
    assert span is not None  # noqa: S101  it has releases
    before, last, after = (calendar.period(span[1] + step).label for step in (-1, 0, 1))
    local = {version.id: version.mechanism.epsilon for version in metric.versions}
    try:
        drawn = await site.api.read(
            "card",
            lambda body: _of_series(Series.model_validate_json(body), local),
            metric_path(metric.name, "series"),
            _CARD,
            since=last,
            to=after,
            composed=False,
            **followed(metric, _SHOWN),
        )
    except Problem as problem:
        if problem.name == "nothing-released":
            return None
        raise
    if drawn is not None and drawn.bins is not None:
        drawn = await _led_by_summary(site, metric, drawn, drawn.bins, last, after)
    if drawn is None or span[0] == span[1]:
        return drawn
    return replace(drawn, change=await change_since(site, metric, drawn.bins, (before, last, after), changes))


async def _led_by_summary(
    site: Site, metric: NamedMetric, drawn: Drawn, axis: AxisModel, since: str, until: str
) -> Drawn:
    """The card of a number in bins: the median or the mean in place of the largest bins."""
    answer = await site.api.ask(NumberDistribution, distribution_path(metric.name), since=since, to=until)
    number, name, limits = bins_headline(answer.segments[-1], axis)
    return replace(drawn, lines=[Line(name, name, number, limits)], more=0, joint="")


async def _trend(site: Site, metric: NamedMetric, calendar: Calendar, label: str) -> Trend | None:
    span = span_of(metric, calendar)
    assert span is not None  # noqa: S101  it has releases
    last = span[1]
    first = max(span[0], last - _PERIODS + 1)
    if first == last:
        return None
    try:
        return await site.api.read(
            f"trend of {label}",
            lambda body: _trend_of(Series.model_validate_json(body), label),
            metric_path(metric.name, "series"),
            _CARD,
            since=calendar.period(first).label,
            to=calendar.period(last + 1).label,
            every=step if (step := every_nth(last - first + 1)) > 1 else None,
            composed=False,
            **followed(metric, _SHOWN),
        )
    except Problem as problem:
        if problem.name == "nothing-released":
            return None
        raise


def _of_series(series: Series, local: dict[str, float]) -> Drawn | None:
    released = [point for point in series.points if point.state == "released"]
    if not released or (newest := released[-1]).privacy is None:
        return None
    segment = _segment(series, newest)
    share, unit = is_share(segment), segment.unit
    first = leading(newest.values, segment)
    values = sorted(newest.values, key=lambda one: -one["estimate"])
    shown = [first] if has_one_line(segment) else values[:_SHOWN]
    labels = [called(value, segment) for value in shown]
    shorts = shortened_all(labels, _BESIDE) if len(labels) > 1 else labels
    return Drawn(
        lines=[
            Line(
                label,
                short,
                formatting.value(value["shown"]["value"], is_share=share, unit=unit),
                formatting.interval(value["shown"]["low"], value["shown"]["high"], is_share=share),
            )
            for label, short, value in zip(labels, shorts, shown, strict=True)
        ],
        joint=joint(newest.interval),
        more=0 if has_one_line(segment) else segment.value_count - len(shown),
        reports=formatting.count(newest.reports),
        period=newest.period,
        privacy=newest.privacy,
        local_epsilon=local[str(newest.metric_id)],
        metric_id=str(newest.metric_id),
        bins=bins_axis(segment),
    )


def _segment(series: Series, point: Point) -> SeriesSegment:
    return next(one for one in series.segments if one.metric_id == point.metric_id)


def _trend_of(series: Series, label: str) -> Trend | None:
    """The trend of a value; of the largest over the whole range if the newest largest is not among those."""
    released = [point for point in series.points if point.state == "released"]
    if len(released) < 2:
        return None
    segment = _segment(series, released[-1])
    if has_one_line(segment):
        wanted = leading(released[-1].values, segment)["label"]
    else:
        known = {value["label"] for value in released[-1].values}
        wanted = label if label in known else leading(released[-1].values, segment)["label"]
    share, dots = is_share(segment), _dots(series, wanted)
    drawn = [dot for dot in dots if dot is not None]
    foot, top = (
        formatting.value(end, is_share=share) for end in (min(dot[1] for dot in drawn), max(dot[2] for dot in drawn))
    )
    name = segment.headline.name if has_one_line(segment) and segment.headline.name else wanted
    low, high = (
        formatting.value(end, is_share=share, unit=segment.unit)
        for end in (min(dot[0] for dot in drawn), max(dot[0] for dot in drawn))
    )
    first, last = released[0].period, released[-1].period
    summary = f"{series.metric}, {name}, {formatting.span(first, last)}: between {low} and {high}"
    return Trend(
        spark=Markup(sparkline(dots, summary, (foot, top))),  # noqa: S704  its text is escaped there
        label=name,
        first=first,
        last=last,
        periods=len(released),
    )


def _dots(series: Series, label: str) -> list[tuple[float, float, float, str] | None]:
    found: list[tuple[float, float, float, str] | None] = []
    for point in series.points:
        value = next((one for one in point.values if one["label"] == label), None)
        if value is None:
            found.append(None)
            continue
        shown = value["shown"]
        found.append((shown["value"], shown["low"], shown["high"], str(point.metric_id)))
    return found
