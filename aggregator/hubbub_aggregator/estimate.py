"""Estimates: a pure function of stored releases. Unbiased with exact variance; post-processing is labelled."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hubbub.mechanisms import Bounds
from hubbub.postprocess import base_cut, clip, norm_sub
from hubbub.refusals import Refused
from hubbub_aggregator.guarantees import Released, privacy
from hubbub_aggregator.models import (
    IntervalKind,
    Manipulation,
    MechanismModel,
    PeriodRange,
    Postprocess,
    Segment,
    ValueModel,
)

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub.mechanisms import Estimate as Estimated
    from hubbub.mechanisms import Tally
    from hubbub_aggregator.storage import Release

__all__ = ["Query", "mechanism_model", "released", "segment"]


@dataclass(frozen=True, slots=True)
class Query:
    """What an analyst asked for."""

    confidence: float = 0.95
    postprocess: Postprocess = "none"
    population: Literal["reports", "superpopulation"] = "reports"
    simultaneous: bool = False


def released(metric: Metric, releases: Sequence[Release]) -> list[Released]:
    """The releases of a metric, as accounting sees them."""
    return [
        Released(
            metric.mechanism, release.period, metric.calendar.period(release.period).label, json.loads(release.record)
        )
        for release in releases
    ]


def segment(
    metric: Metric,
    releases: Sequence[Release],
    periods: range,
    query: Query,
    *,
    is_complete: bool,
    single_operator: bool,
) -> Segment:
    """The estimate over all releases of one metric id in a range; there must be at least one."""
    mechanism, calendar = metric.mechanism, metric.calendar
    tally = mechanism.tally_from_bytes(releases[0].tally)
    for release in releases[1:]:
        tally += mechanism.tally_from_bytes(release.tally)
    interval = mechanism.interval(tally, query.confidence, population=query.population, simultaneous=query.simultaneous)
    return Segment(
        metric_id=metric.id.hex(),
        type=metric.type,
        mechanism=mechanism_model(metric),
        reports=tally.reports,
        periods=PeriodRange(
            start=calendar.period(periods.start).label,
            end=calendar.period(periods.stop).label,
            length=str(calendar),
            released=len({release.period for release in releases}),
        ),
        complete=is_complete,
        interval=IntervalKind(kind=interval.kind, confidence=query.confidence, simultaneous=query.simultaneous),
        postprocess=query.postprocess,
        values=_values(metric, tally, interval.low.tolist(), interval.high.tolist(), query),
        privacy=privacy(released(metric, releases), single_operator=single_operator),
        manipulation=Manipulation(per_thousand_fakes=mechanism.influence() / 1000),
    )


def mechanism_model(metric: Metric) -> MechanismModel:
    mechanism = metric.mechanism
    return MechanismModel(name=mechanism.name, epsilon=float(mechanism.epsilon), parameters=mechanism.parameters())


def _values(metric: Metric, tally: Tally, low: list[float], high: list[float], query: Query) -> list[ValueModel]:
    estimate = metric.mechanism.estimate(tally)
    raw, errors = estimate.values.tolist(), estimate.stderr.tolist()
    shown = _postprocessed(metric, estimate, query.postprocess)
    return [
        ValueModel(
            value=_value_of(metric, index),
            label=label,
            estimate=raw[index] if shown is None else shown[index],
            stderr=errors[index] if shown is None else None,
            low=_finite(low[index]),
            high=_finite(high[index]),
            raw_estimate=None if shown is None else raw[index],
        )
        for index, label in enumerate(metric.values.labels())
    ]


def _value_of(metric: Metric, index: int) -> bool | str | None:
    match metric.type:
        case "boolean":
            return bool(index)
        case "category":
            return metric.label_of(index)
        case _:
            return None


def _postprocessed(metric: Metric, estimate: Estimated, method: Postprocess) -> list[float] | None:
    domain = metric.mechanism.domain
    found: list[float]
    if method == "none":
        return None
    if method == "clip":
        limits = (float(domain.lower), float(domain.upper)) if isinstance(domain, Bounds) else (0.0, 1.0)
        found = clip(estimate.values, *limits).values.tolist()
        return found
    if isinstance(domain, Bounds):
        raise Refused("invalid-query", f"{method} is for frequencies; {metric.name} is a mean: use clip or none")
    done = norm_sub(estimate.values) if method == "norm_sub" else base_cut(estimate.values, estimate.stderr)
    found = done.values.tolist()
    return found


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
