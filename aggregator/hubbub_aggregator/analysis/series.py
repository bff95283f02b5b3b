"""The course of a metric: one estimate per period, and for every period without one the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub_aggregator.analysis.answer_guarantee import Released, privacy
from hubbub_aggregator.analysis.estimate import (
    Query,
    largest,
    manipulation,
    mechanism_model,
    period_range,
    shaped,
    shown,
)
from hubbub_aggregator.analysis.read_releases import Crowd, by_period, over, stream
from hubbub_aggregator.models.series import Point, Series, SeriesSegment, State

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub_aggregator.storage import Storage

__all__ = ["Course", "series"]

_MOST_VALUES = 200_000
"""Most estimates in one answer."""


@dataclass(frozen=True, slots=True)
class Course:
    """A metric over some periods as it was at one moment: which releases there were, and what became of each period."""

    storage: Storage
    metrics: Sequence[Metric]
    periods: range
    looked_at: range
    """All of these periods, or every nth of them."""
    complete: frozenset[int]
    """Periods for which nothing more can come."""
    ids: frozenset[bytes]
    states: dict[int, State]

    @classmethod
    def read(
        cls, storage: Storage, metrics: Sequence[Metric], periods: range, complete: set[int], every: int = 1
    ) -> Course:
        """`every`: only each nth period, counted back from the newest."""
        looked_at = periods[(len(periods) - 1) % every :: every]
        ids: set[bytes] = set()
        released: set[int] = set()
        discarded: set[int] = set()
        for metric in metrics:
            for release in stream(storage, metric, looked_at):
                released.add(release.period)
                ids.add(release.id)
            discarded.update(storage.discarded(metric.id, periods[0], periods[-1]))
        named = {metric.id for metric in metrics}
        deleted = {release.period for release in storage.expired() if release.metric in named}

        def state(period: int) -> State:
            if period in released:
                return "released"
            if period in deleted:
                return "deleted"
            if period in discarded:
                return "discarded"
            return "not-released" if period in complete else "open"

        return cls(
            storage,
            metrics,
            periods,
            looked_at,
            frozenset(complete),
            frozenset(ids),
            {period: state(period) for period in looked_at},
        )

    def crowds(self, metric: Metric) -> Iterator[Crowd]:
        """Period by period; only one is in memory at a time."""
        return by_period(self.storage, metric, self.looked_at, self.ids)


def series(course: Course, query: Query, *, single_operator: bool, composed: bool = True) -> Series:
    """The answer. With a `top`, the same values in every period: the largest over all of them."""
    asked = {metric.id: _asked(metric, query) for metric in course.metrics}
    chosen = {metric.id: _chosen(course, metric, asked[metric.id]) for metric in course.metrics}
    _refuse_too_many(course, chosen)
    calendar = course.metrics[0].calendar
    points = [
        (period, _gap(calendar.period(period).label, state, is_complete=period in course.complete))
        for period, state in course.states.items()
        if state != "released"
    ]
    released: list[Released] = []
    segments = []
    for metric in course.metrics:
        before = len(points)
        for crowd in course.crowds(metric):
            points.append((crowd.span.start, _point(course, crowd, asked[metric.id], chosen[metric.id])))
            released += crowd.releases
        if len(points) > before:
            segments.append(_segment(metric, len(points) - before))
    return Series(
        metric=course.metrics[0].name,
        population=query.population,
        periods=period_range(course.metrics[0], course.periods, len({one.period for one in released})),
        complete=course.complete.issuperset(course.states),
        postprocess=query.postprocess,
        segments=segments,
        points=[point for _, point in sorted(points, key=lambda one: one[0])],
        privacy=privacy(released, single_operator=single_operator) if released and composed else None,
    )


def _asked(metric: Metric, query: Query) -> Query:
    """The query for one id: its headline, if that is asked for and it has one, or what `top` says."""
    return replace(query, top=None) if query.headline and metric.values.shape.leading is not None else query


def _chosen(course: Course, metric: Metric, query: Query) -> Sequence[int]:
    size, leading = len(metric.values.labels()), metric.values.shape.leading
    if query.headline and leading is not None:
        return [leading]
    if query.top is None or query.top >= size:
        return range(size)
    whole = over(course.storage, metric, course.looked_at, course.ids)
    return [] if whole is None else largest(metric.estimate(whole.tally).values, query.top)


def _refuse_too_many(course: Course, chosen: dict[bytes, Sequence[int]]) -> None:
    size = max(map(len, chosen.values()))
    if size * len(course.looked_at) > _MOST_VALUES:
        raise InvalidParameter(
            f"top: {len(course.periods)} periods of {size} values are more than the {_MOST_VALUES} that one answer "
            f"holds: ask for top={max(1, _MOST_VALUES // len(course.periods))} or fewer, or for fewer periods"
        )


def _segment(metric: Metric, released: int) -> SeriesSegment:
    return SeriesSegment(
        **shaped(metric),
        metric_id=metric.id.hex(),
        type=metric.type,
        mechanism=mechanism_model(metric),
        value_count=len(metric.values.labels()),
        released=released,
        manipulation=manipulation(metric),
    )


def _point(course: Course, crowd: Crowd, query: Query, chosen: Sequence[int]) -> Point:
    found = shown(crowd.metric, crowd.tally, query, chosen)
    own = privacy(crowd.releases, single_operator=False)  # one period: nothing to compose
    return Point(
        period=crowd.releases[0].label,
        state="released",
        complete=crowd.span.start in course.complete,
        metric_id=crowd.metric.id.hex(),
        reports=crowd.tally.reports,
        interval=found.interval,
        values=found.values,
        privacy=own.per_period[0],
    )


def _gap(label: str, state: State, *, is_complete: bool) -> Point:
    return Point(
        period=label,
        state=state,
        complete=is_complete,
        metric_id=None,
        reports=None,
        interval=None,
        values=[],
        privacy=None,
    )
