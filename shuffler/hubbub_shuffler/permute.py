"""Who belongs to a batch, and in which order: decided by a stored seed, so that a retry sends the same bytes.

Duplicates (identical sealed bytes) are one report. The order is by a keyed hash of each report's digest:

    place of a report = BLAKE2b(key = seed, BLAKE2b(sealed))

With a fresh secret seed this is a uniform permutation, whatever the order of arrival was. A bucket too large for
one batch is cut into equal stretches of that order, so each is a uniformly drawn part of the crowd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TypeAlias, TypeVar

__all__ = ["Entropy", "number_of_parts", "ordered", "part_of", "shuffled"]

T = TypeVar("T")
Entropy: TypeAlias = Callable[[int], bytes]
"""So many bytes from the operating system's generator: `os.urandom`."""

SEED_BYTES = 32
_WORD = 16
"""Bytes by which items are sorted: two of a million are equal with probability below 2^-88."""


def shuffled(items: Sequence[T], entropy: Entropy) -> list[T]:
    """The items in uniformly random order."""
    if len(items) < 2:
        return list(items)
    noise = entropy(_WORD * len(items))
    words = [noise[at : at + _WORD] for at in range(0, len(noise), _WORD)]
    return [items[i] for i in sorted(range(len(items)), key=words.__getitem__)]


def ordered(reports: Iterable[bytes], seed: bytes) -> list[bytes]:
    """The distinct reports in the order that the seed gives them."""

    def place(sealed: bytes) -> bytes:
        return blake2b(blake2b(sealed, digest_size=32).digest(), key=seed, digest_size=_WORD).digest()

    return sorted(set(reports), key=place)


def number_of_parts(reports: int, minimum: int, largest: int) -> int:
    """Into how many batches a bucket is cut: 0 (too small: discard), 1, or more when it is above `largest`.

    No part is ever below the minimum; where both limits cannot hold, the minimum does.
    """
    if reports < minimum:
        return 0
    return max(1, min(-(-reports // largest), reports // minimum))


def part_of(reports: Sequence[bytes], part: int, parts: int) -> Sequence[bytes]:
    """One of `parts` stretches whose lengths differ by one at most."""
    return reports[len(reports) * part // parts : len(reports) * (part + 1) // parts]
