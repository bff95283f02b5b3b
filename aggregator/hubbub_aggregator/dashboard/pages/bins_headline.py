"""What leads for a number in bins: its median or, where bins are single numbers, its mean per device.

The share of the largest bin says little, and noise decides which bin is the largest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import distribution_path
from hubbub_aggregator.models.distribution import LimitsModel, NumberDistribution

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.page_context import Site
    from hubbub_aggregator.models.distribution import NumberSegment
    from hubbub_aggregator.models.estimated_values import AxisModel, Shaped

__all__ = ["BinsHeadline", "bins_axis", "bins_headline", "moved"]

_MEDIAN = 0.5


class BinsHeadline(NamedTuple):
    number: str
    name: str
    """What the number is."""
    limits: str
    """Its interval, in words that stand by themselves."""


def bins_axis(shown: Shaped) -> AxisModel | None:
    """The axis of a number in bins; None for anything else."""
    return next((axis for axis in shown.axes if axis.edges and len(shown.axes) == 1), None)


def bins_headline(found: NumberSegment, axis: AxisModel) -> BinsHeadline:
    """The median. Of what is counted, the mean: half of the devices are often below 1."""
    if not _is_counted(axis):
        median = next(one for one in found.quantiles if one.q == _MEDIAN)
        return BinsHeadline(_amount(median.estimate, found), "median", formatting.sentence(median.words))
    mean = found.mean
    if mean.low is None or mean.high is None:
        limits = "Too few reports for an interval"
    else:
        limits = formatting.interval(mean.low, mean.high, is_share=False, unit=found.unit)
    return BinsHeadline(_amount(mean.estimate, found), "per device, on average", limits)


async def moved(
    site: Site, name: str, axis: AxisModel, before: tuple[str, str], after: tuple[str, str], confidence: float
) -> tuple[LimitsModel, str | None] | None:
    """How far the headline moved from one range to another, and its unit. None if the id is not the same."""
    path = distribution_path(name)
    if not _is_counted(axis):
        answer = await site.api.ask(
            NumberDistribution,
            path,
            since=after[0],
            to=after[1],
            before_from=before[0],
            before_to=before[1],
            quantiles=_MEDIAN,
            confidence=confidence,
        )
        return None if not answer.shifts else (answer.shifts[0].shift, answer.segments[-1].unit)
    each = 1 - (1 - confidence) / 2  # so that both hold with the confidence
    old, new = [
        (await site.api.ask(NumberDistribution, path, since=since, to=to, confidence=each)).segments[-1]
        for since, to in (before, after)
    ]
    return None if old.metric_id != new.metric_id else (_difference(old.mean, new.mean), new.unit)


def _is_counted(axis: AxisModel) -> bool:
    """Whether the first bin is one number, and so what is in bins is a count."""
    return axis.edges is not None and axis.labels[0] == f"{axis.edges[0]:g}"


def _difference(old: LimitsModel, new: LimitsModel) -> LimitsModel:
    low = None if new.low is None or old.high is None else new.low - old.high
    high = None if new.high is None or old.low is None else new.high - old.low
    return LimitsModel(estimate=new.estimate - old.estimate, low=low, high=high)


def _amount(number: float, found: NumberSegment) -> str:
    return formatting.value(number, is_share=False, unit=found.unit)
