"""How far ahead a change is told: two cache lifetimes of the bundle, so that devices and shufflers know it in time.

A period that begins sooner is treated as one that has begun. Whoever holds an older bundle would go by that: its crowd
would be split, and a shuffler refuses a bundle that changes a begun period.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hubbub.canonical import read_json
from hubbub.problems import InvalidParameter

if TYPE_CHECKING:
    from hubbub.period import Calendar
    from hubbub_aggregator.storage import Storage

__all__ = ["CACHE_LIFETIMES", "cache_lifetime", "soonest"]

CACHE_LIFETIMES = 2


def cache_lifetime(storage: Storage, max_age: int) -> int:
    """Seconds for which a bundle is held: as the settings say, or as the newest bundle said, if that is longer."""
    newest = storage.bundle()
    if newest is None:
        return max_age
    body = read_json(newest.raw.split(b"\n", 2)[2])
    told = body.get("max_age") if isinstance(body, dict) else None
    if not isinstance(told, int):
        raise InvalidParameter("the bundle in the storage is damaged: it does not say how long it may be cached")
    return max(max_age, told)


def soonest(storage: Storage, calendar: Calendar, now: float, max_age: int) -> int:
    """The first period that has not begun and begins at least two cache lifetimes from now."""
    told = math.ceil(now + CACHE_LIFETIMES * cache_lifetime(storage, max_age))
    return max(calendar.index_at(now) + 1, -(-(told - calendar.origin) // calendar.seconds))
