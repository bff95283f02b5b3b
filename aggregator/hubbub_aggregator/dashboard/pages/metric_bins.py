"""What the page of a number in bins says beside its histogram: quantiles in words, and shares below each edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from hubbub.bins_summary import possible_numbers
from hubbub.shown import clipped_limits
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import distribution_path
from hubbub_aggregator.dashboard.charts.curve import CurveChart, Mark
from hubbub_aggregator.dashboard.charts.rows import Row
from hubbub_aggregator.dashboard.pages.page_context import Figure, Site
from hubbub_aggregator.dashboard.vega_render import inline
from hubbub_aggregator.models.distribution import LimitsModel, NumberDistribution, NumberSegment

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.url_parameters import Asked
    from hubbub_aggregator.models.estimate import Estimate
    from hubbub_aggregator.models.metrics import NamedMetric

__all__ = ["BinsView", "bins_of", "bins_view", "marks"]


@dataclass(frozen=True, slots=True)
class BinsView:
    """Sentences about the quantiles and the mean, and the chart of the shares below each edge."""

    sentences: list[str]
    together: str
    figure: Figure
    hint: str


async def bins_of(site: Site, metric: NamedMetric, asked: Asked, estimate: Estimate) -> NumberDistribution | None:
    """The distribution, if all ids of the metric in these periods have bins."""
    if not all(any(axis.edges for axis in segment.axes) for segment in estimate.segments):
        return None
    return await site.api.ask(
        NumberDistribution,
        distribution_path(metric.name),
        since=asked.since,
        to=asked.until,
        confidence=asked.confidence,
    )


def marks(segment: NumberSegment) -> list[Mark]:
    """The quantiles as marks over the axis."""
    return [Mark(one.estimate, f"p{100 * one.q:g}", one.low, one.high) for one in segment.quantiles]


def bins_view(found: NumberDistribution) -> BinsView:
    """The section of the page."""
    segment = found.segments[-1]
    unit = f" {segment.unit}" if segment.unit else ""
    sentences = [formatting.sentence(one.words) + "." for one in segment.quantiles]
    least, most = possible_numbers(segment.edges, is_whole=segment.whole_numbers)
    mean = _limits(segment.mean, unit, (least, most))
    total = _limits(segment.total, unit, (segment.reports * least, segment.reports * most))
    sentences.append(f"The mean is {mean}. The total is {total}.")
    sure = formatting.share(segment.confidence, 0)
    many = segment.quantiles_together
    hold = "each quantile" if many == 1 else f"all {many} quantiles together"
    together = f"{sure} for {hold}; limits are {'ends' if segment.whole_numbers else 'edges'} of bins"
    chart = CurveChart(
        _rows(segment, sure), [one.edge for one in segment.below], _title(segment), is_share=True, marks=marks(segment)
    )
    caption = f"Devices below each value, with a {sure} band that holds for the whole curve; marks are quantiles"
    figure = Figure(Markup(inline(chart.svg(), caption, "below")), caption, "below")  # noqa: S704  drawn here, escaped
    return BinsView(sentences, together, figure, segment.hint or "")


def _title(segment: NumberSegment) -> str:
    return f"value, {segment.unit}" if segment.unit else "value"


def _rows(segment: NumberSegment, sure: str) -> Sequence[Row]:
    rows = []
    for one in segment.below:
        value, low, high = (min(max(x, 0.0), 1.0) for x in (one.estimate, one.band_low, one.band_high))
        number, limits = formatting.share(value, 1), formatting.interval(low, high, is_share=True)
        label = f"below {formatting.amount(one.edge)}"
        rows.append(Row(label, value, low, high, number, limits, f"{number}\n{limits} with {sure} confidence"))
    return rows


def _limits(found: LimitsModel, unit: str, possible: tuple[float, float]) -> str:
    value, low, high = clipped_limits(found.estimate, found.low, found.high, possible)
    if low is None or high is None:
        return f"about {formatting.amount(value)}{unit}"
    return f"{formatting.amount(low)} to {formatting.amount(high)}{unit}"
