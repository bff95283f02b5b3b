"""The overview: every metric as a card, or what to do until one has a number."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from hubbub.period import Calendar
from hubbub.sdk_snippet import sdk_snippet
from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem, metric_path
from hubbub_aggregator.dashboard.pages.page_context import (
    Site,
    called,
    followed,
    has_one_line,
    is_share,
    joint,
    leading,
    seconds_of,
    start_of,
)
from hubbub_aggregator.dashboard.pages.url_parameters import span_of
from hubbub_aggregator.dashboard.sparkline import sparkline
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_aggregator.models.metrics import MetricList, NamedMetric
    from hubbub_aggregator.models.privacy import PeriodPrivacy
    from hubbub_aggregator.models.series import Point
    from hubbub_aggregator.operations.status import FullStatus

__all__ = ["Card", "Cards", "Overview", "Steps", "first_steps", "overview"]

_SHOWN = 3
_BESIDE = 17
"""Most letters of a name beside its number."""
_PERIODS = 365
_MOST_CARDS = 2_000
_CARD = 8_000
"""About how many bytes a card takes: its course is a few numbers from a series of a megabyte."""
_PATIENCE = 8.0
"""Seconds that the page waits for cards that must be drawn because of a release. It does not wait for the others."""


@dataclass(frozen=True, slots=True)
class Line:
    """One value on a card."""

    label: str
    short: str
    estimate: str
    interval: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a card shows of a metric's releases. It changes only with them."""

    lines: list[Line]
    joint: str
    """Whether the intervals hold for all values together, in words; empty if there is one free value."""
    more: int
    reports: str
    period: str
    periods: int
    spark: Markup
    span: str
    privacy: PeriodPrivacy
    local_epsilon: float


@dataclass(frozen=True, slots=True)
class Card:
    metric: NamedMetric
    drawn: Drawn | None
    fresh: str
    is_old: bool
    missing: str = ""
    """Why there is nothing to show, if there is not."""
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class Steps:
    """What a newcomer does next."""

    shuffler: str | None
    snippet: str
    """An app for this codebook, in Python."""
    period: str
    closes: str
    length: str
    least: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Overview:
    collection: str
    cards: list[Card]
    steps: Steps | None
    single_operator: bool


_NO_ADDRESS = "https://your-shuffler.example"
_UNFINISHED = -1
"""In place of the number of accepted batches: it matches none, so that the card is drawn again."""


class _Kept(NamedTuple):
    spans: tuple[object, ...]
    accepted: int
    drawn: Drawn | None


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
        old = [one for one in metrics if not self._is_fresh(one, accepted)]
        if old:
            if self._drawing is None or self._drawing.done():
                old.sort(key=lambda one: one.name in self._kept and self._kept[one.name].spans == _spans(one))
                self._drawing = asyncio.create_task(self._draw(site, old, calendar, accepted))
            drawing = self._drawing
            await asyncio.wait([drawing], timeout=self._patience)
            if drawing.done():
                drawing.result()  # raises what went wrong, if anything did
        return {one.name: self._kept[one.name].drawn for one in metrics if one.name in self._kept}

    def _is_fresh(self, metric: NamedMetric, accepted: int) -> bool:
        kept = self._kept.get(metric.name)
        return kept is not None and kept[:2] == (_spans(metric), accepted)

    async def _draw(self, site: Site, metrics: list[NamedMetric], calendar: Calendar, accepted: int) -> None:
        """Draw first the newest numbers of all metrics that have no card, then their courses, one after the other."""
        for metric in metrics:
            if metric.name not in self._kept:
                newest = await _drawn(site, metric, calendar, 1)
                self._kept[metric.name] = _Kept(_spans(metric), _UNFINISHED, newest)
        for metric in metrics:
            drawn = await _drawn(site, metric, calendar, _PERIODS)
            self._kept[metric.name] = _Kept(_spans(metric), accepted, drawn)
            while len(self._kept) > _MOST_CARDS:
                self._kept.popitem(last=False)


def _spans(metric: NamedMetric) -> tuple[object, ...]:
    return tuple((one.id, one.released_periods, one.first, one.last) for one in metric.versions)


async def overview(site: Site, cards: Cards) -> Overview:
    """All cards. While nothing is released, this asks for the list, the status and the bundle, and for nothing else."""
    listing, status = await site.listing(), await site.status()
    calendar, now = Calendar.parse(listing.period), seconds_of(status)
    with_releases = [one for one in listing.metrics if any(version.released_periods for version in one.versions)]
    drawn = await cards.drawn(site, with_releases, calendar, status.batches["accepted"])
    pending = {metric.name for metric in with_releases} - drawn.keys()
    shown = [_card(one, drawn.get(one.name), calendar, now, is_pending=one.name in pending) for one in listing.metrics]
    codebook = None if with_releases else await site.codebook()
    return Overview(
        collection=listing.collection,
        cards=shown,
        steps=None if codebook is None else first_steps(codebook, status, listing),
        single_operator=status.single_operator,
    )


def first_steps(codebook: Codebook, status: FullStatus, listing: MetricList) -> Steps:
    """The snippet for this codebook, and when its first numbers can come."""
    collection = codebook.collection
    period = collection.calendar.at(seconds_of(status))
    return Steps(
        shuffler=status.shuffler_address,
        snippet=sdk_snippet(codebook, status.shuffler_address or _NO_ADDRESS, status.trust_anchor),
        period=period.label,
        closes=formatting.moment(period.closes_at(collection.grace)),
        length=formatting.a_period(listing.period),
        least=[
            (metric.name, newest.min_batch)
            for metric in listing.metrics
            if metric.in_force and (newest := metric.versions[-1]).enabled and newest.min_batch is not None
        ],
    )


def _card(metric: NamedMetric, drawn: Drawn | None, calendar: Calendar, now: float, *, is_pending: bool) -> Card:
    if drawn is None:
        off = not metric.in_force or not metric.versions[-1].enabled
        why = "No longer collected." if off else "Nothing released yet."
        if is_pending:
            why = "Being computed: it appears here by itself, or when you reload."
        return Card(metric, None, "", is_old=False, missing=why, is_pending=is_pending)
    ended = start_of(calendar, drawn.period) + calendar.seconds
    age = now - ended
    return Card(
        metric=metric,
        drawn=drawn,
        fresh=_age(age, calendar),
        is_old=age > 4 * calendar.seconds and metric.in_force,
    )


def _age(age: float, calendar: Calendar) -> str:
    if age >= 0:
        return f"ended {formatting.ago(age)}"
    return "still running" if age >= -calendar.seconds else "still to come, by this clock"


async def _drawn(site: Site, metric: NamedMetric, calendar: Calendar, periods: int) -> Drawn | None:
    span = span_of(metric, calendar)
    assert span is not None  # noqa: S101  it has releases
    last = span[1]
    first = max(span[0], last - periods + 1)
    local = {version.id: version.mechanism.epsilon for version in metric.versions}
    try:
        return await site.api.read(
            "card",
            lambda body: _of_series(Series.model_validate_json(body), local),
            metric_path(metric.name, "series"),
            _CARD,
            since=calendar.period(first).label,
            to=calendar.period(last + 1).label,
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
    segment = next(one for one in series.segments if one.metric_id == newest.metric_id)
    share, unit = is_share(segment), segment.unit
    first = leading(newest.values, segment)
    values = sorted(newest.values, key=lambda one: -one["estimate"])
    lines = [first] if has_one_line(segment) else values[:_SHOWN]
    labels = [called(value, segment) for value in lines]
    shorts = shortened_all(labels, _BESIDE) if len(lines) > 1 else labels
    summary = _summary(series.metric, released, first["label"], share=share)
    return Drawn(
        lines=[
            Line(
                label,
                short,
                formatting.value(value["shown"]["value"], is_share=share, unit=unit),
                formatting.interval(value["shown"]["low"], value["shown"]["high"], is_share=share),
            )
            for label, short, value in zip(labels, shorts, lines, strict=True)
        ],
        joint=joint(newest.interval),
        more=0 if has_one_line(segment) else segment.value_count - len(lines),
        reports=formatting.count(newest.reports),
        period=newest.period,
        periods=len(released),
        spark=Markup(sparkline(_dots(series, first["label"]), summary)),  # noqa: S704  its text is escaped there
        span=formatting.span(released[0].period, newest.period) if len(released) > 1 else newest.period,
        privacy=newest.privacy,
        local_epsilon=local[str(newest.metric_id)],
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


def _summary(name: str, released: list[Point], label: str, *, share: bool) -> str:
    numbers = [value["shown"]["value"] for point in released for value in point.values if value["label"] == label]
    low, high = (formatting.value(number, is_share=share) for number in (min(numbers), max(numbers)))
    return f"{name}, {label}, over {len(released)} periods: between {low} and {high}"
