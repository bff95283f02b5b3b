"""Routes for analysts: what the releases of a metric say. The same question gets the same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from functools import partial
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from hubbub.codebook import Metric
from hubbub.refusals import Refused
from hubbub_aggregator.analysis import compare as comparing
from hubbub_aggregator.analysis import completeness, queried_periods
from hubbub_aggregator.analysis import series as courses
from hubbub_aggregator.analysis.answer_guarantee import privacy
from hubbub_aggregator.analysis.estimate import Query as Asked
from hubbub_aggregator.analysis.estimate import mechanism_model, segment, shaped
from hubbub_aggregator.analysis.read_releases import Crowd, over
from hubbub_aggregator.analysis.tradeoff import tradeoff as tradeoff_of
from hubbub_aggregator.api.request_dependencies import PROBLEMS, Analyst, only_known_parameters
from hubbub_aggregator.api.respond import Format, reply
from hubbub_aggregator.models.comparison import Comparison
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.estimated_values import Postprocess
from hubbub_aggregator.models.metrics import MetricList, MetricVersion, NamedMetric
from hubbub_aggregator.models.series import Series
from hubbub_aggregator.models.tradeoff import TradeoffAnswer
from hubbub_aggregator.service import Aggregator

__all__ = ["router"]

router = APIRouter(tags=["analysts"], responses=PROBLEMS)
_KNOWN = [Depends(only_known_parameters)]

_Name: TypeAlias = Annotated[str, Path(description="The metric's name, as in /v1/metrics.", max_length=200)]
_Date: TypeAlias = Annotated[
    str | None, Query(description="ISO date or date-time, at the start of a period.", max_length=64)
]
_Bound: TypeAlias = Annotated[str, Query(description="ISO date or date-time, at the start of a period.", max_length=64)]
_Confidence: TypeAlias = Annotated[
    float, Query(ge=0.01, le=0.999_999_999, description="Chance that an interval holds the truth.")
]
_Top: TypeAlias = Annotated[
    int | None, Query(ge=1, le=65_536, description="Only this many values, the largest; intervals hold for all values.")
]
_Population: TypeAlias = Annotated[
    Literal["reports", "superpopulation"],
    Query(description="Who intervals are about: the devices that reported, or those they are a random sample of."),
]
_Postprocess: TypeAlias = Annotated[
    Postprocess,
    Query(description="How the values to show are made from raw estimates. This adds bias; the answer names it."),
]
_Simultaneous: TypeAlias = Annotated[
    bool,
    Query(
        description="Whether the intervals of all values hold together (Bonferroni), as everywhere by default; false: "
        "each by itself."
    ),
]


@router.get("/v1/metrics", response_model=MetricList, dependencies=_KNOWN)
def metrics(request: Request, service: Analyst, format: Format = None) -> Response:  # noqa: A002  as callers write it
    """Every metric, past and present, with what has been released."""
    codebooks, spans = service.codebooks, service.storage.spans()
    off = codebooks.off(service.clock.now())
    basis: list[object] = [
        [version.codebook.id.hex() for version in codebooks],
        sorted((metric.hex(), span) for metric, span in spans.items()),
        service.shuffler_floor,
        sorted(off),
    ]
    return reply(request, format, basis, partial(_listing, service, spans, off), name="metrics")


def _remarks(versions: Sequence[Metric]) -> list[object]:
    """What is shown and may be edited under the same id: an answer with another unit is another answer."""
    return [metric.values.remarks() for metric in versions]


def _listing(service: Aggregator, spans: dict[bytes, tuple[int, int, int]], off: frozenset[str]) -> MetricList:
    calendar = service.codebooks.collection.calendar
    in_force = {metric.id for metric in service.codebooks.newest.metrics}

    def version(metric: Metric) -> MetricVersion:
        count, first, last = spans.get(metric.id, (0, None, None))
        shape, domain = metric.values.shape, metric.mechanism.domain
        is_range = domain.estimates == 1  # then the mechanism's parameters say enough only with its bounds
        return MetricVersion(
            **shaped(metric),
            id=metric.id.hex(),
            type=metric.type,
            mechanism=mechanism_model(metric),
            value_count=len(metric.values.labels()),
            bounds=domain.limits if is_range else shape.limits if shape.measure == "number" else None,
            inputs=None if is_range else domain.estimates,
            min_batch=max(metric.min_batch or 0, service.shuffler_floor or 0) or None,
            enabled=metric.enabled and metric.name not in off,
            released_periods=count,
            first=None if first is None else calendar.period(first).label,
            last=None if last is None else calendar.period(last).label,
        )

    return MetricList(
        collection=service.codebooks.collection.name,
        period=str(calendar),
        metrics=[
            NamedMetric(
                name=name,
                description=versions[-1].description,
                in_force=versions[-1].id in in_force,
                versions=[version(metric) for metric in versions],
            )
            for name, versions in service.codebooks.named().items()
        ],
    )


@router.get("/v1/metrics/{name}/estimate", response_model=Estimate, dependencies=_KNOWN)
def estimate(
    request: Request,
    name: _Name,
    service: Analyst,
    since: Annotated[_Date, Query(alias="from")] = None,
    until: Annotated[_Date, Query(alias="to")] = None,
    confidence: _Confidence = 0.95,
    postprocess: _Postprocess = "none",
    population: _Population = "reports",
    simultaneous: _Simultaneous = True,
    top: _Top = None,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """What the releases of a metric say about the periods `from` up to, not including, `to`; unset: all periods."""
    versions = queried_periods.versions(service, name)
    asked = Asked.of(confidence, postprocess, population, simultaneous, top)
    periods = queried_periods.released_periods(service, versions, since, until)
    # asked before reading: what is complete now stays complete, so that a complete answer can't miss a late batch
    is_complete = completeness.is_complete(service, {metric.id for metric in versions}, periods)
    found = [crowd for metric in versions if (crowd := over(service.storage, metric, periods)) is not None]
    if not found:
        raise _nothing(name)
    basis = [astuple(asked), [crowd.ids for crowd in found], (periods.start, periods.stop), _remarks(versions)]
    build = partial(_estimate, service, name, found, periods, asked, is_complete=is_complete)
    return reply(request, format, [*basis, is_complete, service.single_operator], build, name=f"{name}-estimate")


def _estimate(
    service: Aggregator, name: str, found: list[Crowd], periods: range, asked: Asked, *, is_complete: bool
) -> Estimate:
    return Estimate(
        metric=name,
        population=asked.population,
        complete=is_complete,
        segments=[
            segment(
                crowd,
                periods if len(found) == 1 else crowd.span,
                asked,
                is_complete=is_complete,
                single_operator=service.single_operator,
            )
            for crowd in found
        ],
        privacy=privacy([one for crowd in found for one in crowd.releases], single_operator=service.single_operator),
    )


@router.get("/v1/metrics/{name}/series", response_model=Series, dependencies=_KNOWN)
def series(
    request: Request,
    name: _Name,
    service: Analyst,
    since: Annotated[_Date, Query(alias="from")] = None,
    until: Annotated[_Date, Query(alias="to")] = None,
    confidence: _Confidence = 0.95,
    postprocess: _Postprocess = "none",
    population: _Population = "reports",
    simultaneous: _Simultaneous = True,
    top: _Top = None,
    headline: Annotated[
        bool,
        Query(
            description="Only the headline value, for every id that has one; for an id that has none, what `top` says."
        ),
    ] = False,
    composed: Annotated[
        bool,
        Query(description="Whether to answer with the guarantee of all points together; each has its own anyway."),
    ] = True,
    every: Annotated[
        int,
        Query(ge=1, le=1_000, description="Only every nth period, counted back from the newest: for a small chart."),
    ] = 1,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """One estimate for each period, with the gaps: open, discarded or not released. Unset: the newest 400 periods.

    `simultaneous` is over the values of one period, not over periods. Composing a year of guarantees may take
    seconds after a release; `composed=false` leaves it out.
    """
    versions = queried_periods.versions(service, name)
    asked = Asked.of(confidence, postprocess, population, simultaneous, top, headline=headline)
    periods = queried_periods.recent(service, since, until)
    complete = completeness.complete_periods(service, {metric.id for metric in versions}, periods)
    course = courses.Course.read(service.storage, versions, periods, complete, every)
    basis: list[object] = [
        astuple(asked),
        [metric.id.hex() for metric in versions],
        sorted(one.hex() for one in course.ids),
        sorted(course.states.items()),
        sorted(course.complete),
        service.single_operator,
        composed,
        every,
        _remarks(versions),
    ]
    build = partial(courses.series, course, asked, single_operator=service.single_operator, composed=composed)
    return reply(request, format, basis, build, name=f"{name}-series")


@router.get("/v1/metrics/{name}/compare", response_model=Comparison, dependencies=_KNOWN)
def compare(
    request: Request,
    name: _Name,
    service: Analyst,
    a_from: _Bound,
    a_to: _Bound,
    b_from: _Bound,
    b_to: _Bound,
    confidence: _Confidence = 0.95,
    simultaneous: _Simultaneous = True,
    top: _Top = None,
    headline: Annotated[
        bool, Query(description="Only the headline value: the one that the shape names, or the largest in range b.")
    ] = False,
    composed: Annotated[
        bool, Query(description="Whether to answer with the guarantee of both ranges together.")
    ] = True,
    p_values: Annotated[
        bool,
        Query(description="Whether to answer with p-values. Without them, a comparison takes an eighth of the time."),
    ] = True,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """How range b differs from range a, value by value: difference, interval and p-value.

    The ranges may not overlap, and each must lie within one id of the metric. `top` lists the largest changes.
    """
    if (top is not None or headline) and not simultaneous:
        raise Refused(
            "invalid-query", "simultaneous: `top` and `headline` choose values by what was seen; leave one of them out"
        )
    if top is not None and headline:
        raise Refused("invalid-query", "headline: one value, so there is no `top`; leave one of the two out")
    versions = queried_periods.versions(service, name)
    calendar = service.codebooks.collection.calendar
    a, b = calendar.range(a_from, a_to), calendar.range(b_from, b_to)
    comparing.refuse_overlap(a, b, lambda index: calendar.period(index).label)
    before, after = (_one_id(service, name, versions, periods, side) for side, periods in (("a", a), ("b", b)))
    comparing.refuse_different_questions(before.crowd.metric, after.crowd.metric)
    basis = [
        [confidence, simultaneous, top, headline, composed, p_values, service.single_operator],
        [[side.crowd.ids, side.periods.start, side.periods.stop, side.is_complete] for side in (before, after)],
        _remarks(versions),
    ]
    build = partial(
        comparing.comparison,
        before,
        after,
        confidence=confidence,
        simultaneous=simultaneous,
        top=top,
        headline=headline,
        composed=composed,
        p_values=p_values,
        single_operator=service.single_operator,
    )
    return reply(request, format, basis, build, name=f"{name}-compare")


def _one_id(service: Aggregator, name: str, versions: list[Metric], periods: range, side: str) -> comparing.Range:
    """The one id that was released in a range. Ids are never merged, so that one side can't have two."""
    is_complete = completeness.is_complete(service, {metric.id for metric in versions}, periods)
    found = [crowd for metric in versions if (crowd := over(service.storage, metric, periods)) is not None]
    if not found:
        raise Refused("nothing-released", f"nothing has been released for {name} in range {side} yet")
    if len(found) > 1:
        spans = "; ".join(f"{one.releases[0].label} to {one.releases[-1].label}" for one in found)
        raise Refused(
            "invalid-query",
            f"{side}_from, {side}_to: {name} was edited within range {side}, and releases before and after an edit are "
            f"never merged; choose a range within one of these (first to last period): {spans}",
        )
    return comparing.Range(periods, found[0], is_complete)


def _nothing(name: str) -> Refused:
    return Refused(
        "nothing-released",
        f"nothing has been released for {name} in this range yet: its series says why, period by period",
    )


@router.get("/v1/metrics/{name}/tradeoff", response_model=TradeoffAnswer, dependencies=_KNOWN)
def tradeoff(
    request: Request,
    service: Analyst,
    name: _Name,
    reports: Annotated[
        int | None, Query(ge=2, le=10**9, description="The crowd; unset: the newest release's, or else min_batch.")
    ] = None,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """What the local epsilon of a metric costs in accuracy: the certified optimum of a crowd, the trusted server, and
    the local bound. It follows from codebook and crowd; the first answer takes some seconds.
    """
    metric = queried_periods.versions(service, name)[-1]
    crowd = reports or _crowd(service, metric)
    basis: list[object] = [service.codebooks.newest.id.hex(), metric.id.hex(), crowd]
    build = partial(tradeoff_of, service.codebooks.newest, metric, crowd)
    return reply(request, format, basis, build, name=f"{name}-tradeoff")


def _crowd(service: Aggregator, metric: Metric) -> int:
    """Valid reports of the newest release, or the fewest that are released."""
    span = service.storage.spans().get(metric.id)
    if span is not None:
        found = [json.loads(one.record) for one in service.storage.releases(metric.id, span[2], span[2])]
        valid = [one["valid"] for one in found if one.get("released", True)]
        if valid:
            return max(2, int(min(valid)))
    return metric.min_batch or 2
