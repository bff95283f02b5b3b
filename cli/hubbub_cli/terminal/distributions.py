"""Distributions as text: quantiles in words, the mean, ranges, and how far quantiles moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hubbub.bins_summary import possible_numbers
from hubbub.number_format import MINUS, amount
from hubbub.shown import clipped_limits
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import wrapped
from hubbub_query import Estimate, Limits, NumberDistribution, NumberSegment, Segment, Shown, Value

__all__ = ["grouped", "groups", "in_words"]


_MOST_GROUPS = 24
"""Rows of a histogram that fit a screen."""


def groups(segment: Segment) -> list[str]:
    """Ranges of neighbouring bins, so few that a histogram of them fits a screen."""
    edges = segment.axes[0].edges or ()
    step = -(-(len(edges) - 1) // _MOST_GROUPS)
    ends = [*edges[:-1:step], edges[-1]]
    return [f"{low!r}..{high!r}" for low, high in pairwise(ends)]


def grouped(answer: Estimate, found: NumberDistribution) -> Estimate:
    """The estimate with a value for each group of bins; the limits of all of them hold together."""
    segment, axis = answer.newest, answer.newest.axes[0]
    shares = found.newest.ranges[-len(groups(segment)) :]
    is_each = len(shares) == len(axis.labels)
    labels = axis.labels if is_each else tuple(f"{_edge(one.lower)} to {_edge(one.upper)}" for one in shares)
    values = tuple(
        Value(
            value=label,
            label=label,
            estimate=one.estimate,
            stderr=0.0,
            low=one.low,
            high=one.high,
            shown=Shown(value=_share(one.estimate), low=_share(one.low), high=_share(one.high)),
            total=one.estimate * segment.reports,
            total_low=one.low * segment.reports,
            total_high=one.high * segment.reports,
        )
        for label, one in zip(labels, shares, strict=True)
    )
    kind = replace(segment.interval, kind=found.newest.kind, together=found.newest.ranges_together)
    axes = (replace(axis, labels=labels, places=None, edges=None),)
    drawn = replace(segment, values=values, value_count=len(values), axes=axes, interval=kind)
    return replace(answer, segments=(*answer.segments[:-1], drawn))


def _share(number: float) -> float:
    return min(max(number, 0.0), 1.0)


def _edge(number: float) -> str:
    return f"{number:,.6g}".replace("-", MINUS)


def in_words(answer: NumberDistribution, ranges: str | None = None) -> str:
    """What is asked of a number in bins, below its histogram."""
    many = len([text for text in (ranges or "").split(",") if text.strip()])
    return "\n".join(_of(answer.newest, answer, many))


def _of(segment: NumberSegment, answer: NumberDistribution, many: int) -> Iterator[str]:
    unit = f" {segment.unit}" if segment.unit else ""
    for one in segment.quantiles:
        about = "" if one.low is None and one.high is None else f" (about {amount(one.estimate)}{unit})"
        yield from wrapped(one.words + about).splitlines()
    least, most = possible_numbers(segment.edges, is_whole=segment.whole_numbers)
    n = segment.reports
    mean, spread = _possible(segment.mean, (least, most)), _possible(segment.deviation, (0.0, (most - least) / 2))
    total = _possible(segment.total, (n * least, n * most))
    yield from wrapped(f"mean {_with_limits(mean, unit)}").splitlines()
    yield from wrapped(f"standard deviation {_with_limits(spread, unit)}").splitlines()
    yield from wrapped(f"total of the devices that reported {_with_limits(total, unit)}").splitlines()
    if many:
        rows = [
            {
                "from": amount(one.lower),
                "to": amount(one.upper),
                "share": f"{value:.1%}",
                "low": f"{low:.1%}",
                "high": f"{high:.1%}",
            }
            for one in segment.ranges[:many]
            for value, low, high in [clipped_limits(one.estimate, one.low, one.high, (0.0, 1.0))]
        ]
        yield table(list(rows[0]), [list(row.values()) for row in rows])
    for moved in answer.shifts or ():
        said = f"the {100 * moved.q:g} % quantile moved by {_with_limits(moved.shift, unit)}"
        yield from wrapped(said).splitlines()
    together = segment.quantiles_together
    ends = "ends" if segment.whole_numbers else "edges"
    hold = "each by itself" if together == 1 else f"all {together} together"
    yield from wrapped(f"{segment.confidence:.0%} for the quantiles {hold}; limits are {ends} of bins").splitlines()
    if segment.hint:
        yield from wrapped(f"hint: {segment.hint}").splitlines()


def _possible(found: Limits, possible: tuple[float, float]) -> Limits:
    estimate, low, high = clipped_limits(found.estimate, found.low, found.high, possible)
    return replace(found, estimate=estimate, low=low, high=high)


def _with_limits(found: Limits, unit: str) -> str:
    if found.low is None and found.high is None:
        return f"{amount(found.estimate)}{unit}; too few reports for limits"
    low = "any" if found.low is None else amount(found.low)
    high = "any" if found.high is None else amount(found.high)
    return f"{amount(found.estimate)}{unit}, {low} to {high}"
