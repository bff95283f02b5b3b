"""Queried periods: the range that a question means, and the ids that its metric's name has had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.codebook import Metric
    from hubbub_aggregator.service import Aggregator

__all__ = ["recent", "released_periods", "versions"]

MOST_PERIODS = 1_000
"""Most periods in one series: each has an estimate of its own."""
_RECENT = 400
"""Periods that a series shows when it is not told where to begin."""


def versions(service: Aggregator, name: str) -> list[Metric]:
    """Every metric that ever had this name, oldest first."""
    names = service.codebooks.named()
    if name not in names:
        raise Refused("not-found", f"no metric has this name: {did_you_mean(name, names) or 'see the list of metrics'}")
    return names[name]


def released_periods(service: Aggregator, metrics: Sequence[Metric], since: str | None, until: str | None) -> range:
    """The range that was asked for. An open end reaches as far as releases do."""
    calendar, spans = service.codebooks.collection.calendar, service.storage.spans()
    if since is not None and until is not None:
        return calendar.range(since, until)
    known = [spans[metric.id] for metric in metrics if metric.id in spans]
    if not known:
        raise Refused("nothing-released", "nothing has been released for this metric yet: its series says why")
    first = min(span[1] for span in known) if since is None else calendar.boundary(since)
    last = max(span[2] for span in known) if until is None else calendar.boundary(until) - 1
    if first > last:
        raise Refused("nothing-released", "nothing has been released for this metric in this range yet")
    return range(first, last + 1)


def recent(service: Aggregator, since: str | None, until: str | None) -> range:
    """The range that was asked for, as far as anything was collected in it; unset: the newest periods.

    It includes the present period and no future one. A released period is past, even if the clock is behind.
    """
    codebooks = service.codebooks
    calendar = codebooks.collection.calendar
    released = (last for _, _, last in service.storage.spans().values())
    present = max([calendar.index_at(service.clock.now()), *released])
    if since is not None and until is not None:
        calendar.range(since, until)  # refuses one that ends before it starts
    end = present + 1 if until is None else min(calendar.boundary(until), present + 1)
    start = end - _RECENT if since is None else calendar.boundary(since)
    found = range(max(start, codebooks.first_period), end)
    if not found:
        raise Refused(
            "nothing-released",
            "nothing was collected in this range: it ends before the first period, or is in the future",
        )
    if len(found) > MOST_PERIODS:
        after = calendar.period(found.start + MOST_PERIODS).label
        raise InvalidParameter(
            f"from, to: a series has at most {MOST_PERIODS} periods, these are {len(found)}: ask up to to={after}, "
            f"then again with from={after}"
        )
    return found
