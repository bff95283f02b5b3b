"""Ranking: the place of every report of a bucket in the order that a seed gives, at 16 bytes a report.

A bucket is read piece by piece, and only places are kept, never the reports. Hashing such short texts holds Python's
interpreter lock in any thread, and uploads need that lock too. So hashing runs in short slices, with a pause after each
for the event loop and the storage's threads. Measured on two shared cores, uploads then waited hardly longer than
without it; hashing in a thread made them wait five times as long. A million reports take about eight seconds this way,
two of them at work; benchmarks/batch.py measures both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hubbub_shuffler.batching.permute import PLACE_BYTES, places

__all__ = ["Places", "Ranking", "placed", "rank"]

Places: TypeAlias = npt.NDArray[np.bytes_]
"""One place per item, compared as 16 bytes."""

_PLACE = np.dtype(f"S{PLACE_BYTES}")
_SLICE = 256
"""Reports hashed at once: about a quarter of a millisecond."""
_PAUSE = 0.001
"""Seconds. Not zero: a loop that never sleeps would keep the storage's threads from running."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The places of all distinct reports of a bucket, in order. A report's rank is the position of its place."""

    places: Places
    duplicates: int

    @property
    def distinct(self) -> int:
        return len(self.places)


async def rank(pieces: AsyncIterator[bytes], size: int, seed: bytes) -> Ranking:
    """One pass over a bucket. Peak memory: 33 bytes a report and one piece."""
    found = bytearray()
    async for _, some in placed(pieces, size, seed):
        found += some.data
    # numpy sorts without holding the interpreter lock
    return await asyncio.to_thread(_sorted, np.frombuffer(found, _PLACE))


async def placed(pieces: AsyncIterator[bytes], size: int, seed: bytes) -> AsyncIterator[tuple[bytes, Places]]:
    """Each piece with the places of its reports."""
    async for piece in pieces:
        found = bytearray()
        for at in range(0, len(piece), _SLICE * size):
            found += places(piece[at : at + _SLICE * size], size, seed)
            await asyncio.sleep(_PAUSE)
        yield piece, np.frombuffer(found, _PLACE)


def _sorted(found: Places) -> Ranking:
    found.sort()
    first = np.ones(len(found), np.bool_)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    duplicates = len(found) - int(np.count_nonzero(first))
    return Ranking(found[first] if duplicates else found, duplicates)
