"""Completeness of periods: whether more reports can still be released for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from hubbub_aggregator.service import Aggregator
    from hubbub_aggregator.storage import StoredKey

__all__ = ["complete_periods", "is_complete"]


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
