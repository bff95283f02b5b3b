"""Distributions: quantiles, ranges, mean and a band, as a pure function of stored releases."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hubbub.bins_summary import Asked, Limits, Quantile, Summary, shift
from hubbub.number_format import amount
from hubbub.refusals import Refused
from hubbub_aggregator.analysis.estimate import period_range
from hubbub_aggregator.models.distribution import (
    BelowModel,
    LimitsModel,
    NumberSegment,
    QuantileModel,
    QuantileShift,
    RangeShareModel,
)
from hubbub_aggregator.models.estimate import Manipulation

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub_aggregator.analysis.read_releases import Crowd

__all__ = ["quantile_in_words", "segment", "shifts", "summary"]

_NAMES = {0.25: "a quarter", 0.5: "half", 0.75: "three quarters"}


def summary(crowd: Crowd, asked: Asked) -> Summary:
    """The summary of a crowd's number. Refused for a metric that has none."""
    found = crowd.metric.summary(crowd.tally, asked)
    if found is None:
        metric = crowd.metric
        raise Refused("invalid-query", f"{metric.name} is a {metric.type}, which has no bins: ask /estimate")
    return found


def segment(crowd: Crowd, periods: range, asked: Asked, *, is_complete: bool) -> NumberSegment:
    """All numbers of one metric id in a range of periods."""
    metric, found = crowd.metric, summary(crowd, asked)
    (axis,) = metric.values.shape.axes
    unit, n = axis.unit, found.reports
    return NumberSegment(
        metric_id=metric.id.hex(),
        type=metric.type,
        mechanism=metric.mechanism.name,
        reports=n,
        periods=period_range(metric, periods, len({release.period for release in crowd.releases})),
        complete=is_complete,
        unit=unit or None,
        scale=axis.scale,
        edges=list(found.edges),
        whole_numbers=found.is_whole,
        confidence=asked.confidence,
        kind=found.kind,
        quantiles_together=found.quantiles_together,
        ranges_together=found.ranges_together,
        below=[BelowModel(**asdict(one)) for one in found.below],
        quantiles=[_quantile(one, metric, is_whole=found.is_whole) for one in found.quantiles],
        ranges=[RangeShareModel(**asdict(one)) for one in found.ranges],
        mean=_limits(found.mean),
        total=LimitsModel(
            estimate=n * found.mean.estimate,
            low=None if found.mean.low is None else n * found.mean.low,
            high=None if found.mean.high is None else n * found.mean.high,
        ),
        deviation=_limits(found.deviation),
        first_bin=_limits(found.ends[0]),
        last_bin=_limits(found.ends[1]),
        hint=found.hint or None,
        manipulation=Manipulation(per_thousand_fakes=found.influence / 1000),
    )


def _limits(found: Limits) -> LimitsModel:
    return LimitsModel(estimate=found.estimate, low=found.low, high=found.high)


def _quantile(one: Quantile, metric: Metric, *, is_whole: bool) -> QuantileModel:
    (axis,) = metric.values.shape.axes
    words = quantile_in_words(one.q, one.low, one.high, axis.unit, is_whole=is_whole)
    return QuantileModel(q=one.q, estimate=one.estimate, low=one.low, high=one.high, words=words)


def quantile_in_words(q: float, low: float | None, high: float | None, unit: str, *, is_whole: bool = False) -> str:
    """A quantile for a person: "half of the devices are below 420 to 480 ms", "half of the devices have at most 2"."""
    share, behind = _NAMES.get(q, f"{100 * q:g}%"), unit and f" {unit}"
    who = f"{share} of the devices are"
    if low is None and high is None:
        return f"too few reports to say below what {who}"
    if is_whole:
        return f"{share} of the devices have at most {_from_to(low, high)}{behind}"
    if high is None:
        return f"{who} below a number of {amount(low)}{behind} or more"
    if low is None:
        return f"{who} below a number of at most {amount(high)}{behind}"
    return f"{who} below {amount(low)} to {amount(high)}{behind}"


def _from_to(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"a number of {amount(low)} or more" if high is None else amount(high)
    return amount(low) if low == high else f"{amount(low)} to {amount(high)}"


def shifts(before: Crowd, after: Crowd, asked: Asked) -> list[QuantileShift]:
    """How far each quantile moved. Each side is asked at half the error, so that both hold with the confidence."""
    halved = replace(asked, confidence=1 - (1 - asked.confidence) / 2)
    first, second = summary(before, halved), summary(after, halved)
    return [
        QuantileShift(
            q=one.q,
            before=_quantile(one, before.metric, is_whole=first.is_whole),
            after=_quantile(other, after.metric, is_whole=second.is_whole),
            shift=_limits(shift(one, other)),
        )
        for one, other in zip(first.quantiles, second.quantiles, strict=True)
    ]
