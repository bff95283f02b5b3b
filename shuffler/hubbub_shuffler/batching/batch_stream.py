"""The bytes of a batch, streamed: the same at every attempt by any worker, and never all of them in memory.

The batch's part of the order is cut into windows. For each window, one pass over the bucket puts every report whose
place falls into the window where its rank says; then the window is sent. The order of reading and repeated reports make
no difference. Peak memory: the ranking (16 bytes for each report of the bucket), one window and one piece. Time: one
hash of each report of the bucket for each window.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import numpy as np
import numpy.typing as npt

from hubbub_shuffler.batching.ranking import Places, placed
from hubbub_shuffler.storage import StorageError

__all__ = ["WINDOW_BYTES", "in_order", "primed"]

WINDOW_BYTES = 64 * 2**20
_PIECE_BYTES = 2**17


async def in_order(
    read: Callable[[], AsyncIterator[bytes]], members: Places, size: int, seed: bytes, window: int
) -> AsyncIterator[bytes]:
    """The reports at these places, each once and in order. `window`: most bytes of reports in memory at once.

    StorageError, and no byte of the window, if one of them can't be found.
    """
    step = max(1, window // size)
    at_once = max(1, _PIECE_BYTES // size)
    for start in range(0, len(members), step):
        reports = await _window(read(), members[start : start + step], size, seed)
        for at in range(0, len(reports), at_once):
            yield reports[at : at + at_once].tobytes()
        del reports  # before the next one is made: there is never more than one


async def _window(pieces: AsyncIterator[bytes], members: Places, size: int, seed: bytes) -> npt.NDArray[np.uint8]:
    found = np.empty((len(members), size), np.uint8)
    missing = np.ones(len(members), np.bool_)

    def fill_in(piece: bytes, places: Places) -> None:
        inside = (places >= members[0]) & (places <= members[-1])
        ranks = np.searchsorted(members, places[inside])
        found[ranks] = np.frombuffer(piece, np.uint8).reshape(-1, size)[inside]
        missing[ranks] = False

    async for piece, places in placed(pieces, size, seed):
        await asyncio.to_thread(fill_in, piece, places)  # numpy works without holding the interpreter lock
    if missing.any():
        raise StorageError("reports of a planned batch are not in the storage")
    return found


async def primed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces. The first one is ready when this returns, so that no connection waits for it."""
    first = await anext(pieces)

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all_of_them()
