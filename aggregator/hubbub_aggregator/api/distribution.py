"""Route for the distribution of a number: quantiles, ranges, mean and a band. The same question gets the same bytes."""

from __future__ import annotations

from dataclasses import astuple
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from hubbub.bins_summary import USUAL_QUANTILES, Asked, refuse_impossible
from hubbub.errors import InvalidParameter
from hubbub.refusals import Refused
from hubbub_aggregator.analysis import completeness, distribution, queried_periods
from hubbub_aggregator.analysis.answer_guarantee import privacy
from hubbub_aggregator.analysis.read_releases import Crowd, over
from hubbub_aggregator.api.request_dependencies import PROBLEMS, Analyst, only_known_parameters
from hubbub_aggregator.api.respond import Format, reply
from hubbub_aggregator.models.distribution import NumberDistribution
from hubbub_aggregator.service import Aggregator

__all__ = ["router"]

router = APIRouter(tags=["analysts"], responses=PROBLEMS)
_Date = Annotated[str | None, Query(description="ISO date or date-time, at the start of a period.", max_length=64)]


@router.get(
    "/v1/metrics/{name}/distribution", response_model=NumberDistribution, dependencies=[Depends(only_known_parameters)]
)
def distribution_of(
    request: Request,
    name: Annotated[str, Path(description="The metric's name, as in /v1/metrics.", max_length=200)],
    service: Analyst,
    since: Annotated[str | None, Query(alias="from", description="Start of the periods.", max_length=64)] = None,
    until: Annotated[
        str | None, Query(alias="to", description="End of the periods, not included.", max_length=64)
    ] = None,
    before_from: _Date = None,
    before_to: _Date = None,
    quantiles: Annotated[
        str, Query(description="Shares below which to find the number, with commas.", max_length=1000)
    ] = ",".join(map(str, USUAL_QUANTILES)),
    ranges: Annotated[
        str, Query(description="Ranges whose share to find, such as 0..100,100..250.", max_length=4000)
    ] = "",
    confidence: Annotated[
        float, Query(ge=0.01, le=0.999_999_999, description="Chance that an interval holds the truth.")
    ] = 0.95,
    population: Annotated[
        Literal["reports", "superpopulation"],
        Query(description="Who intervals are about: the devices that reported, or those they are a random sample of."),
    ] = "reports",
    simultaneous: Annotated[
        bool, Query(description="Whether all quantiles hold together, and all ranges; false: each by itself.")
    ] = True,
    format: Format = None,  # noqa: A002  as callers write it
) -> Response:
    """The distribution of a number in bins: shares below each edge with a band, quantiles, ranges, mean and spread.

    With `before_from` and `before_to`, also how far each quantile moved since those periods.
    """
    asked = _asked(confidence, population, quantiles, ranges, simultaneous=simultaneous)
    if (before_from is None) != (before_to is None):
        raise Refused("invalid-query", "before_from, before_to: give both, or neither")
    versions = queried_periods.versions(service, name)
    periods = queried_periods.released_periods(service, versions, since, until)
    is_complete = completeness.is_complete(service, {metric.id for metric in versions}, periods)
    found = [crowd for metric in versions if (crowd := over(service.storage, metric, periods)) is not None]
    if not found:
        raise Refused("nothing-released", f"nothing has been released for {name} in this range yet")
    before = _before(service, name, found, before_from, before_to)
    basis = [astuple(asked), [crowd.ids for crowd in found], (periods.start, periods.stop), is_complete]
    basis += [before.ids if before else None, service.single_operator]
    basis += [[crowd.metric.values.remarks() for crowd in found]]
    build = partial(_answer, service, name, found, before, periods, asked, is_complete=is_complete)
    return reply(request, format, basis, build, name=f"{name}-distribution")


def _asked(
    confidence: float,
    population: Literal["reports", "superpopulation"],
    quantiles: str,
    ranges: str,
    *,
    simultaneous: bool,
) -> Asked:
    try:
        shares = tuple(float(text) for text in quantiles.split(",") if text.strip())
        pairs = [text.split("..") for text in ranges.split(",") if text.strip()]
        between = tuple((float(start), float(end)) for start, end in pairs)
        refuse_impossible(shares, between)
    except (ValueError, InvalidParameter) as error:
        said = error.problem if isinstance(error, InvalidParameter) else "write 0.5,0.95 and 0..100,100..250"
        raise Refused("invalid-query", f"quantiles, ranges: {said}") from error
    return Asked(confidence, population, simultaneous, shares, between)


def _before(service: Aggregator, name: str, found: list[Crowd], start: str | None, end: str | None) -> Crowd | None:
    """The crowd to compare with: of the same id as the newest one."""
    if start is None or end is None:
        return None
    span = service.codebooks.collection.calendar.range(start, end)
    if any(release.period in span for release in found[-1].releases):
        raise Refused("invalid-query", "before_from, before_to: these periods overlap with `from` to `to`")
    crowd = over(service.storage, found[-1].metric, span)
    if crowd is None:
        raise Refused("nothing-released", f"nothing has been released for {name} between before_from and before_to")
    return crowd


def _answer(
    service: Aggregator,
    name: str,
    found: list[Crowd],
    before: Crowd | None,
    periods: range,
    asked: Asked,
    *,
    is_complete: bool,
) -> NumberDistribution:
    crowds = [*([before] if before else []), *found]
    return NumberDistribution(
        metric=name,
        population=asked.population,
        complete=is_complete,
        segments=[
            distribution.segment(crowd, periods if len(found) == 1 else crowd.span, asked, is_complete=is_complete)
            for crowd in found
        ],
        shifts=distribution.shifts(before, found[-1], asked) if before else None,
        privacy=privacy([one for crowd in crowds for one in crowd.releases], single_operator=service.single_operator),
    )
