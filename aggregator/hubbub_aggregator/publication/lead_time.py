"""Lead time of changes: two cache lifetimes of the bundle, so that devices and shufflers learn of them in time.

A period that begins sooner is treated as one that has begun. Devices that hold an older bundle would follow that one
and split the crowd, and a shuffler refuses a bundle that changes a begun period.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hubbub.canonical import read_json
from hubbub.errors import InvalidParameter
from hubbub_service_common.clock.trusted_clock import TOLERANCE

if TYPE_CHECKING:
    from hubbub.period import Calendar
    from hubbub_aggregator.storage import SignedBundle, Storage

__all__ = ["CACHE_LIFETIMES", "cache_lifetime", "clock_doubt", "soonest", "told"]

CACHE_LIFETIMES = 2


def cache_lifetime(storage: Storage, max_age: int) -> int:
    """Seconds for which a bundle is cached: by the settings, or by the newest bundle if that is longer."""
    newest = storage.bundle()
    return max_age if newest is None else max(max_age, told(newest, "max_age"))


def clock_doubt(storage: Storage, now: float, lifetime: int) -> str | None:
    """How the last bundle contradicts this clock, in words, or None. For commands, which can't ask other clocks.

    The bundle counts as expired after the `lifetime` of the settings, whatever it says: its expiry may follow a clock
    in doubt.
    """
    newest = storage.bundle()
    if newest is None:
        return None
    if newest.issued - TOLERANCE <= now < min(told(newest, "expires"), newest.issued + lifetime):
        return None
    apart = f"{abs(now - newest.issued) / 86_400:.1f} days"
    if now < newest.issued:
        return f"this clock is {apart} behind the date of the last bundle: check the time first"
    return f"the last bundle is {apart} old and has expired: check the time first, if the aggregator ran until now"


def told(newest: SignedBundle, member: str) -> int:
    """What a bundle says about itself."""
    body = read_json(newest.raw.split(b"\n", 2)[2])
    found = body.get(member) if isinstance(body, dict) else None
    if not isinstance(found, int):
        raise InvalidParameter(f"the bundle in the storage is damaged: its {member} can't be read")
    return found


def soonest(storage: Storage, calendar: Calendar, now: float, max_age: int) -> int:
    """The first period that has not begun and begins at least two cache lifetimes from now."""
    known = math.ceil(now + CACHE_LIFETIMES * cache_lifetime(storage, max_age))
    return max(calendar.index_at(now) + 1, -(-(known - calendar.origin) // calendar.seconds))
