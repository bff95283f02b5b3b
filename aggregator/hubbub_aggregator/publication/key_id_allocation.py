"""Ids of sealing keys: which of the 256 a new key gets, so that they never run out or name two keys in one period.

Reports name their key by one byte. An id may be used again once the periods of its key are past their horizon. Three
things could use up the ids: short periods, clocks that were wrong, and restores of a backup.

- If periods are short, a key covers several of them, so that about `LIVE` keys are alive at once. If ids are scarce all
  the same, for example because nothing could be erased for days, a key covers more.
- One look at the clock makes at most `AT_ONCE` keys, however many periods they have to cover.
- A backup does not know which ids were given out after it was made, and devices may have sealed with those keys. Keys
  that a restore makes have ids of their own, from `REGULAR` on, which no other key for the same periods can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub_service_common.process.clock_and_entropy import below

if TYPE_CHECKING:
    from hubbub_aggregator.storage import StoredKey

__all__ = [
    "AT_ONCE",
    "IDS",
    "LIVE",
    "REGULAR",
    "SCARCE",
    "drawn_for_a_restore",
    "free_id",
    "free_ids",
    "gaps",
    "longer_where_scarce",
]

IDS = 256
REGULAR = 160
"""Ids below this one are for keys that are made in normal operation."""
LIVE = 128
"""About how many keys may be alive at once. The other regular ids are for rotation, revocation and wrong clocks."""
AT_ONCE = 4
SCARCE = 32
"""While fewer ids than this are free, each key covers twice as many periods as the one before."""


def free_ids(keys: Sequence[StoredKey]) -> int:
    """How many ids are free."""
    return IDS - len(keys)


def longer_where_scarce(span: int, keys: Sequence[StoredKey], longest: int) -> int:
    """Periods that the next key covers: `span`, and up to `longest` if few ids are left."""
    return min(span << max(0, SCARCE - free_ids(keys)), max(span, longest))


def drawn_for_a_restore() -> int:
    """The id at which a restore starts to number its keys.

    Two restores of one copy do not know of each other. The id is random, so that no interval between the two makes both
    start alike.
    """
    return REGULAR + below(IDS - REGULAR)


def free_id(keys: Sequence[StoredKey], restored: int | None = None) -> int:
    """The id for the next key; InvalidParameter if there is none.

    In normal operation: the regular id that has been free longest, which is the next one after the newest key's.
    `restored`: the result of `drawn_for_a_restore`, one for all keys that a restore makes.
    """
    taken = {key.id for key in keys}
    regular = [key for key in keys if key.id < REGULAR]
    newest = max(regular, key=lambda key: (key.last_period, not key.revoked), default=None)
    ours = list(_ring(0, REGULAR, 0 if newest is None else newest.id + 1))
    theirs = list(_ring(REGULAR, IDS, 0 if restored is None else restored - REGULAR))
    order = ours + theirs if restored is None else theirs + ours
    found = next((id for id in order if id not in taken), None)  # noqa: A001  it is an id
    if found is None:
        revoked = sum(key.revoked for key in keys)
        raise InvalidParameter(
            f"all {IDS} key ids are in use, {len(keys) - revoked} by keys that seal or open a period and {revoked} by "
            "revoked ones, which are listed until the horizon of their periods (`hubbub keys list`). Rotate and revoke "
            "no more keys until the oldest is past its horizon and erased. If the metric erasure_overdue_seconds is "
            "above 0, nothing is being erased: set the clocks right, and let the aggregator run for an hour. A shorter "
            "forward_horizon in the codebook frees ids sooner"
        )
    return found


def _ring(first: int, after: int, start: int) -> Iterator[int]:
    size = after - first
    return (first + (start + step) % size for step in range(size))


def gaps(taken: Sequence[tuple[int, int]], low: int, high: int) -> Iterator[tuple[int, int, int | None]]:
    """Ranges of periods from `low` to `high` that no (first, last) in `taken` covers.

    Each comes with the first covered period after it, or None.
    """
    start = low
    for first, last in sorted(taken):
        if start <= min(first - 1, high):
            yield start, min(first - 1, high), first
        start = max(start, last + 1)
    if start <= high:
        yield start, high, None
