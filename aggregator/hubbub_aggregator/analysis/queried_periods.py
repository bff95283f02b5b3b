"""Scope of a question: which ids a metric's name has had, which periods, and whether more can still come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hubbub.codebook import Metric
    from hubbub_aggregator.service import Aggregator
    from hubbub_aggregator.storage import StoredKey

__all__ = ["complete_periods", "is_complete", "recent", "released_periods", "versions"]

MOST_PERIODS = 1_000
"""Most periods in one series: each has an estimate of its own."""
_RECENT = 400
"""Periods that a series shows when it is not told where to begin."""


def versions(service: Aggregator, name: str) -> list[Metric]:
    """Every metric that ever had this name, oldest first."""
    names = service.codebooks.named()
    if name not in names:
        raise Refused("not-found", f"no metric has this name: {did_you_mean(name, names) or 'see /v1/metrics'}")
    return names[name]


def released_periods(service: Aggregator, metrics: Sequence[Metric], since: str | None, until: str | None) -> range:
    """The range that was asked for. An open end reaches as far as releases do."""
    calendar, spans = service.codebooks.collection.calendar, service.storage.spans()
    if since is not None and until is not None:
        return calendar.range(since, until)
    known = [spans[metric.id] for metric in metrics if metric.id in spans]
    if not known:
        raise Refused("nothing-released", "nothing has been released for this metric yet: /v1/status says what arrived")
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


def is_complete(service: Aggregator, ids: Collection[bytes], periods: range) -> bool:
    """Whether nothing more can come.

    Before the horizon the aggregator can't know: the shuffler may have cut a crowd into several batches.
    """
    horizon, past = service.codebooks.horizon, service.past
    if horizon(periods[-1]) > service.clock.now():
        return False
    held = (key for key in _held(service, horizon(periods[-1])) if key.last_period >= periods[0])
    if any(horizon(min(key.last_period, periods[-1])) > past for key in held if key.first_period <= periods[-1]):
        return False
    waiting = (batch.header for batch in service.storage.pending())
    return not any(header.metric in ids and header.period in periods for header in waiting)


def complete_periods(service: Aggregator, ids: Collection[bytes], periods: range) -> set[int]:
    """The periods of a range for which nothing more can come."""
    now, past = service.clock.now(), service.past
    over = {period: horizon for period in periods if (horizon := service.codebooks.horizon(period)) <= now}
    held = _held(service, max(over.values(), default=0))
    waiting = {batch.header.period for batch in service.storage.pending() if batch.header.metric in ids}
    return {
        period for period, horizon in over.items() if horizon <= past or not any(key.covers(period) for key in held)
    } - waiting


def _held(service: Aggregator, horizon: int) -> list[StoredKey]:
    """The keys that could still open a batch that arrives past its horizon.

    Batches are taken until the horizon has certainly passed, or until the key is erased, which a restart does not undo.
    """
    if horizon <= service.past:
        return []
    return [key for key in service.storage.sealing_keys() if key.private_key is not None]
