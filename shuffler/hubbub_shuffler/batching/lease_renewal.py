"""Lease renewal: a claim is kept for as long as its attempt makes progress, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from hubbub_shuffler.storage import AsyncStorage, Claim

__all__ = ["Hold", "Lost", "holding"]


class Lost(Exception):
    """The batch belongs to another worker by now: nothing more may be sent or changed under this claim."""


class Hold:
    """A claim during an attempt; made by `holding`."""

    def __init__(self, storage: AsyncStorage, claim: Claim, lease: float, limit: asyncio.Timeout) -> None:
        self._storage, self._claim, self._lease, self._limit = storage, claim, lease, limit
        self._extended = asyncio.get_running_loop().time()

    async def over(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The same pieces; the lease is extended as they move. Raises Lost once the claim is lost."""
        async for piece in pieces:
            await self._moved()
            yield piece

    async def _moved(self) -> None:
        now = asyncio.get_running_loop().time()
        self._limit.reschedule(now + self._lease / 2)
        if now - self._extended < self._lease / 4:
            return
        if not await self._storage.extend(self._claim, self._lease):
            raise Lost
        self._extended = now


@asynccontextmanager
async def holding(storage: AsyncStorage, claim: Claim, lease: float) -> AsyncIterator[Hold]:
    """Hold a claim that was just made. TimeoutError when nothing has moved for half the lease.

    While pieces move, the lease is extended whenever a quarter of it is over. It can't run out under a worker that is
    only slow, and a worker that was paused for too long finds out before its next piece.
    """
    async with asyncio.timeout(lease / 2) as limit:
        yield Hold(storage, claim, lease, limit)
