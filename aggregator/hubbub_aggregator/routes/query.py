"""For analysts: metrics, estimates and the releases they are made from. The same question gets the same bytes."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from hubbub.codebook import Metric
from hubbub.problems import did_you_mean
from hubbub.refusals import Refused
from hubbub_aggregator.estimate import Query as Asked
from hubbub_aggregator.estimate import mechanism_model, released, segment
from hubbub_aggregator.guarantees import privacy
from hubbub_aggregator.models import (
    Estimate,
    MetricList,
    MetricVersion,
    NamedMetric,
    Postprocess,
    ReleaseList,
    ReleaseModel,
)
from hubbub_aggregator.routes.access import PROBLEMS, Analyst
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.storage import Release

__all__ = ["router"]

router = APIRouter(tags=["analysts"], responses=PROBLEMS)

_CURSOR = re.compile(r"([0-9]{1,10})-([0-9a-f]{32})")
_Date = Annotated[str | None, Query(description="ISO date or date-time, at the start of a period.", max_length=64)]


@router.get("/v1/metrics", response_model=MetricList)
def metrics(service: Analyst) -> MetricList:
    """Every metric there is or was, with what has been released."""
    spans, calendar = service.storage.spans(), service.codebooks.collection.calendar
    in_force = {metric.id for metric in service.codebooks.newest.metrics}

    def version(metric: Metric) -> MetricVersion:
        count, first, last = spans.get(metric.id, (0, None, None))
        return MetricVersion(
            id=metric.id.hex(),
            type=metric.type,
            mechanism=mechanism_model(metric),
            min_batch=metric.min_batch,
            enabled=metric.enabled,
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


@router.get("/v1/metrics/{name}/estimate", response_model=Estimate)
def estimate(
    name: str,
    service: Analyst,
    since: Annotated[_Date, Query(alias="from")] = None,
    until: Annotated[_Date, Query(alias="to")] = None,
    confidence: Annotated[float, Query(ge=0.01, le=0.999_999_999)] = 0.95,
    postprocess: Postprocess = "none",
    population: Literal["reports", "superpopulation"] = "reports",
    simultaneous: bool = False,
) -> Estimate:
    """What the releases of a metric say about the periods `from` up to, not including, `to`; unset: all of them."""
    versions = _versions(service, name)
    spans = service.storage.spans()
    periods = _periods(service, [spans[metric.id] for metric in versions if metric.id in spans], since, until)
    asked = Asked(confidence, postprocess, population, simultaneous)
    found = [(metric, service.storage.releases(metric.id, periods.start, periods.stop - 1)) for metric in versions]
    found = [(metric, releases) for metric, releases in found if releases]
    if not found:
        raise _nothing(name)
    is_complete = _complete(service, {metric.id for metric in versions}, periods)
    return Estimate(
        metric=name,
        population=population,
        complete=is_complete,
        segments=[
            segment(
                metric,
                releases,
                periods if len(found) == 1 else _span(releases),
                asked,
                is_complete=is_complete,
                single_operator=service.single_operator,
            )
            for metric, releases in found
        ],
        privacy=privacy(
            [one for metric, releases in found for one in released(metric, releases)],
            single_operator=service.single_operator,
        ),
    )


@router.get("/v1/releases", response_model=ReleaseList)
def releases(
    service: Analyst,
    metric: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ReleaseList:
    """Records of releases by period; with `metric`, those of the id that this name has now."""
    chosen = None if metric is None else _versions(service, metric)[-1].id
    found = service.storage.page(chosen, _cursor(after), limit + 1)
    page = found[:limit]
    return ReleaseList(
        releases=[_record(release) for release in page],
        next=f"{page[-1].period}-{page[-1].id.hex()}" if len(found) > limit else None,
    )


@router.get("/v1/releases/{release_id}", response_model=ReleaseModel)
def release(release_id: str, service: Analyst) -> ReleaseModel:
    """The record of one release."""
    known = service.storage.release(bytes.fromhex(release_id)) if re.fullmatch("[0-9a-f]{32}", release_id) else None
    if known is None:
        raise Refused("not-found", "no release has this id: see /v1/releases")
    return _record(known)


def _record(kept: Release) -> ReleaseModel:
    return ReleaseModel.model_validate(json.loads(kept.record))


def _versions(service: Aggregator, name: str) -> list[Metric]:
    """Every metric that ever had this name, oldest first."""
    names = service.codebooks.named()
    if name not in names:
        raise Refused("not-found", f"no metric has this name: {did_you_mean(name, names) or 'see /v1/metrics'}")
    return names[name]


def _periods(service: Aggregator, spans: list[tuple[int, int, int]], since: str | None, until: str | None) -> range:
    """The range that was asked for; where an end is left open, up to what was released."""
    calendar = service.codebooks.collection.calendar
    if since is not None and until is not None:
        return calendar.range(since, until)
    if not spans:
        raise Refused("nothing-released", "nothing has been released for this metric yet")
    first = min(span[1] for span in spans) if since is None else calendar.boundary(since)
    last = max(span[2] for span in spans) if until is None else calendar.boundary(until) - 1
    if first > last:
        raise Refused("nothing-released", "nothing has been released for this metric in this range yet")
    return range(first, last + 1)


def _complete(service: Aggregator, ids: set[bytes], periods: range) -> bool:
    """Whether nothing more can come.

    Before the horizon nobody here knows: the shuffler may have cut a crowd into several batches, and devices may
    seal again what a revoked key had sealed.
    """
    if service.codebooks.horizon(periods[-1]) > service.clock():
        return False
    waiting = (batch.header for batch in service.storage.pending())
    return not any(header.metric in ids and header.period in periods for header in waiting)


def _span(found: list[Release]) -> range:
    return range(found[0].period, found[-1].period + 1)


def _nothing(name: str) -> Refused:
    return Refused("nothing-released", f"nothing has been released for {name} in this range yet")


def _cursor(after: str | None) -> tuple[int, bytes] | None:
    if after is None:
        return None
    if (match := _CURSOR.fullmatch(after)) is None:
        raise Refused("invalid-query", "after: pass `next` of the page before as it is")
    return int(match[1]), bytes.fromhex(match[2])
