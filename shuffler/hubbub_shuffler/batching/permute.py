"""Membership and order of a batch: decided by a stored seed, so that a retry sends the same bytes.

Duplicates (identical sealed bytes) are one report. The order is by a keyed hash of each report's digest:

    place of a report = BLAKE2b(key = seed, BLAKE2b(sealed))

With a fresh secret seed this is a uniform permutation, whatever the order of arrival was. A bucket too large for one
batch is cut into equal stretches of that order, so each part is a uniform draw from the crowd. The number of honest
reports in a part is then a matter of chance. The aggregator makes an allowance for that, and parts must be large enough
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeAlias, TypeVar

__all__ = ["PLACE_BYTES", "SEED_BYTES", "Entropy", "number_of_parts", "places", "shuffled", "stretch"]

T = TypeVar("T")
Entropy: TypeAlias = Callable[[int], bytes]
"""Returns this many bytes from the operating system's generator: `clock_and_entropy.entropy`."""

SEED_BYTES = 32
PLACE_BYTES = 16
"""Bytes by which items are sorted: two of a million are equal with probability below 2^-88."""


def shuffled(items: Sequence[T], entropy: Entropy) -> list[T]:
    """The items in uniformly random order."""
    if len(items) < 2:
        return list(items)
    noise = entropy(PLACE_BYTES * len(items))
    words = [noise[at : at + PLACE_BYTES] for at in range(0, len(noise), PLACE_BYTES)]
    return [items[i] for i in sorted(range(len(items)), key=words.__getitem__)]


def places(reports: bytes, size: int, seed: bytes) -> bytes:
    """The place of each report of `size` bytes, joined in the order of the reports."""
    keyed = blake2b(key=seed, digest_size=PLACE_BYTES)
    found = []
    for at in range(0, len(reports), size):
        place = keyed.copy()  # takes half the time of hashing the key again for every report
        place.update(blake2b(reports[at : at + size], digest_size=32).digest())
        found.append(place.digest())
    return b"".join(found)


def number_of_parts(reports: int, minimum: int, largest: int) -> int:
    """Number of batches that a bucket is cut into: 0 (too small: discard), 1, or more when it is above `largest`.

    When a bucket is cut, no part is below twice the minimum, so that none is refused where the whole would have been
    released. Where both limits cannot hold, the minimum wins (docs/explanation/accounting.md, section 6, has the
    arithmetic).
    """
    if reports < minimum:
        return 0
    return max(1, min(-(-reports // largest), reports // (2 * minimum)))


def stretch(reports: int, part: int, parts: int) -> slice:
    """One of `parts` stretches of the reports; their lengths differ by at most one."""
    return slice(reports * part // parts, reports * (part + 1) // parts)
