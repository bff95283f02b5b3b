"""Routes for analysts and auditors: the releases that every answer is made from, and what they cost together."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Annotated, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from hubbub.codebook import Metric
from hubbub.period import LARGEST_INDEX
from hubbub.refusals import Refused
from hubbub_aggregator.analysis.answer_guarantee import Released
from hubbub_aggregator.analysis.ledger import ledger, noted
from hubbub_aggregator.analysis.privacy_curve import privacy_curve
from hubbub_aggregator.analysis.queried_periods import versions
from hubbub_aggregator.analysis.read_releases import every_record, records
from hubbub_aggregator.api.request_dependencies import PROBLEMS, Analyst, only_known_parameters
from hubbub_aggregator.api.respond import Format, reply
from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.models.ledger import LedgerAnswer
from hubbub_aggregator.models.privacy_curve import PrivacyCurveAnswer
from hubbub_aggregator.models.release import ReleaseList, ReleaseModel
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.storage import Release

__all__ = ["router"]

router = APIRouter(tags=["analysts"], responses=PROBLEMS)
_KNOWN = [Depends(only_known_parameters)]
_Delta: TypeAlias = Annotated[
    float | None, Query(gt=0, lt=1, description="Answer at this delta; unset: at the sum of the releases' own.")
]
_CURSOR = re.compile(r"([0-9]{1,10})-([0-9a-f]{32})")


@router.get("/v1/releases", response_model=ReleaseList, dependencies=_KNOWN)
def releases(
    request: Request,
    service: Analyst,
    metric: Annotated[str | None, Query(max_length=200, description="Only the id that this name has now.")] = None,
    since: Annotated[
        str | None, Query(alias="from", max_length=64, description="Only this period and later ones, as an ISO date.")
    ] = None,
    after: Annotated[str | None, Query(max_length=64, description="`next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most this many records on a page.")] = 100,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """Records of releases by period; with `metric`, those of the id that this name has now.

    A Link header leads to the next page, in JSON and CSV alike.
    """
    chosen = None if metric is None else versions(service, metric)[-1].id
    places = [place for place in (_before(service, since), _cursor(after)) if place is not None]
    found = list(records(service.storage, chosen, max(places, default=None), limit + 1))
    page = found[:limit]
    following = f"{page[-1].period}-{page[-1].id.hex()}" if len(found) > limit else None

    def build() -> ResponseModel:
        return ReleaseList(releases=[_record(release) for release in page], next=following)

    def link(_answer: ResponseModel) -> str | None:
        asked = {"metric": metric, "from": since, "after": following, "limit": limit, "format": format}
        known = urlencode({key: value for key, value in asked.items() if value is not None})
        return None if following is None else f"/v1/releases?{known}"

    basis: list[object] = [[release.id.hex() for release in page], following, metric, since, limit, format]
    return reply(request, format, basis, build, next_page=link, name="releases")


@router.get("/v1/releases/{release_id}", response_model=ReleaseModel, dependencies=_KNOWN)
def release(
    request: Request,
    release_id: Annotated[str, Path(description="Its id, as in /v1/releases: 32 hexadecimal digits.")],
    service: Analyst,
) -> Response:
    """The record of one release. It never changes."""
    known = service.storage.release(bytes.fromhex(release_id)) if re.fullmatch("[0-9a-f]{32}", release_id) else None
    if known is None:
        raise Refused("not-found", "no release has this id: see /v1/releases")
    return reply(request, "json", [release_id], partial(_record, known))


@router.get("/v1/privacy", response_model=LedgerAnswer, dependencies=_KNOWN)
def privacy(
    request: Request,
    service: Analyst,
    periods: Annotated[int, Query(ge=1, le=400, description="How many of the newest periods are listed.")] = 30,
    delta: _Delta = None,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """The privacy loss of a device that took part in everything: in all, per metric, per period, and over time.

    Composed, never understated: what retention has deleted since still counts. The first answer after a release may
    take a while: laws are computed, then kept.
    """
    known, order = _everything(service), list(service.codebooks.named())
    collection = service.codebooks.collection
    build = partial(
        ledger,
        collection.name,
        collection.calendar,
        known,
        newest=periods,
        single_operator=service.single_operator,
        order=order,
        delta=delta,
    )
    basis: list[object] = [[one.record["id"] for one in known], periods, service.single_operator, order, delta]
    return reply(request, format, basis, build, name="privacy")


@router.get("/v1/privacy/curve", response_model=PrivacyCurveAnswer, dependencies=_KNOWN)
def curve(
    request: Request,
    service: Analyst,
    metric: Annotated[str | None, Query(max_length=200, description="Only this metric, with all ids of it.")] = None,
    delta: _Delta = None,
    group: Annotated[int, Query(ge=1, le=1000, description="Devices that change their values together.")] = 1,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """What everything released reveals of one device, or of a group: epsilon at any delta, the whole curve, and the
    least errors of any test.

    Composed, never understated. As CSV, a row is a point of either curve.
    """
    known = _everything(service)
    if metric is not None:
        versions(service, metric)
    name = service.codebooks.collection.name
    build = partial(
        privacy_curve, name, known, metric=metric, delta=delta, group=group, single_operator=service.single_operator
    )
    basis: list[object] = [[one.record["id"] for one in known], metric, delta, group, service.single_operator]
    return reply(request, format, basis, build, name="privacy-curve")


def _everything(service: Aggregator) -> list[Released]:
    """What accounting needs of every release, and of every batch that was opened."""
    found = every_record(service.storage)
    if not {release.metric for release in found} <= _by_id(service).keys():
        service.codebooks.refresh()  # another process has published a codebook, and released batches by it
    return noted(found, _by_id(service))


def _by_id(service: Aggregator) -> dict[bytes, Metric]:
    return {metric.id: metric for named in service.codebooks.named().values() for metric in named}


def _record(kept: Release) -> ReleaseModel:
    return ReleaseModel.model_validate(json.loads(kept.record))


def _before(service: Aggregator, since: str | None) -> tuple[int, bytes] | None:
    """The place just before the first release of a period; None for the very beginning."""
    first = 0 if since is None else service.codebooks.collection.calendar.boundary(since)
    return (first - 1, b"\xff" * 16) if first else None


def _cursor(after: str | None) -> tuple[int, bytes] | None:
    if after is None:
        return None
    if (match := _CURSOR.fullmatch(after)) is None or int(match[1]) > LARGEST_INDEX:
        raise Refused("invalid-query", "after: pass `next` of the previous page as it is")
    return int(match[1]), bytes.fromhex(match[2])
