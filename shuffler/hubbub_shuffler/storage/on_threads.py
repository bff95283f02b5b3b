"""A storage for the event loop: the same methods, awaited, on two threads.

One thread is for ingest and what it needs, the other for everything else, so that reading a large bucket never keeps
an upload waiting. Each thread does one thing after another.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from hubbub_shuffler.storage.protocol import BucketGone, StorageError

if TYPE_CHECKING:
    from hubbub_service_common.storage.free_space import Room
    from hubbub_service_common.storage.kinds_and_errors import StorageKind
    from hubbub_shuffler.storage.protocol import (
        Arrivals,
        Bucket,
        Claim,
        Closed,
        HeldBatch,
        Overview,
        Plan,
        Reason,
        Storage,
    )

__all__ = ["AsyncStorage"]

T = TypeVar("T")
P = ParamSpec("P")
_PATIENCE, _PAUSE = 0.2, 0.02
"""Seconds that `forget` waits for a deletion that is still going on, and seconds between two looks."""


class AsyncStorage:
    """The methods of a `Storage` without blocking. `blocking` is the storage itself.

    `errors` counts the calls that failed since the start.
    """

    def __init__(self, blocking: Storage) -> None:
        self.blocking = blocking
        self.errors = 0
        self._ingest = ThreadPoolExecutor(1, thread_name_prefix="hubbub-shuffler-ingest")
        self._rest = ThreadPoolExecutor(1, thread_name_prefix="hubbub-shuffler-storage")

    @property
    def kind(self) -> StorageKind:
        return self.blocking.kind

    @property
    def durable(self) -> bool:
        return self.blocking.durable

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        return await self._on(self._ingest, self.blocking.add, arrivals)

    async def held_periods(self) -> bytes:
        return await self._on(self._ingest, self.blocking.held_periods)

    async def hold_periods(self, before: bytes, after: bytes) -> bool:
        return await self._on(self._ingest, self.blocking.hold_periods, before, after)

    async def room(self) -> Room | None:
        return await self._on(self._ingest, self.blocking.room)

    async def check(self) -> None:
        await self._on(self._ingest, self.blocking.check)

    async def close(
        self, revoked: Collection[int], off: Collection[bytes] = (), *, due: float = -math.inf
    ) -> list[Closed]:
        return await self._on(self._rest, self.blocking.close, revoked, off, due=due)

    async def read(self, bucket: Bucket) -> AsyncIterator[bytes]:
        pieces = self.blocking.read(bucket)
        while (piece := await self._on(self._rest, next, pieces, None)) is not None:
            yield piece

    async def seed(self, bucket: Bucket) -> bytes | None:
        return await self._on(self._rest, self.blocking.seed, bucket)

    async def plan(self, bucket: Bucket, plan: Plan) -> bool:
        return await self._on(self._rest, self.blocking.plan, bucket, plan)

    async def halved(self, name: str, period: int, reports: int) -> bool:
        return await self._on(self._rest, self.blocking.halved, name, period, reports)

    async def claim(self, lease: float) -> Claim | None:
        return await self._on(self._rest, self.blocking.claim, lease)

    async def extend(self, claim: Claim, lease: float) -> bool:
        return await self._on(self._rest, self.blocking.extend, claim, lease)

    async def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        return await self._on(self._rest, self.blocking.postpone, claim, seconds, sent=sent)

    async def settle(self, claim: Claim, verdict: str) -> bool:
        return await self._on(self._rest, self.blocking.settle, claim, verdict)

    async def hold_back(self, claim: Claim, why: str, *, since: int, until: int, seconds: float) -> bool:
        return await self._on(
            self._rest, self.blocking.hold_back, claim, why, since=since, until=until, seconds=seconds
        )

    async def held_batches(self) -> list[HeldBatch]:
        return await self._on(self._rest, self.blocking.held_batches)

    async def offer(self, ids: Collection[bytes] | None = None) -> int:
        return await self._on(self._rest, self.blocking.offer, ids)

    async def claim_held(self, id: bytes, lease: float) -> Claim | None:  # noqa: A002  it is an id
        return await self._on(self._rest, self.blocking.claim_held, id, lease)

    async def forget(self, past: float = -math.inf) -> bool:
        """As `Storage.forget`. False also if deletion takes longer than a moment: other calls wait for this thread."""
        for _ in range(int(_PATIENCE / _PAUSE)):
            if (clean := await self._on(self._rest, self.blocking.forget, past)) is not None:
                return clean
            await asyncio.sleep(_PAUSE)
        return False

    async def overview(self) -> Overview:
        return await self._on(self._rest, self.blocking.overview)

    async def inspect(self) -> None:
        await self._on(self._rest, self.blocking.inspect)

    async def aclose(self) -> None:
        """Finish running calls, then close everything that is open."""
        for thread in (self._ingest, self._rest):
            await self._on(thread, lambda: None)
            thread.shutdown()
        self.blocking.disconnect()

    async def _on(self, thread: ThreadPoolExecutor, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, lambda: work(*arguments, **named))
        except BucketGone:
            raise  # not a failure: another worker was faster
        except StorageError:
            self.errors += 1
            raise
