"""The aggregator as one object: its parts, what it does on its own, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hubbub_aggregator.accumulate import Accumulator

if TYPE_CHECKING:
    from hubbub_aggregator.bundles import Publisher
    from hubbub_aggregator.codebooks import Codebooks
    from hubbub_aggregator.keys import KeyRing
    from hubbub_aggregator.opening import Pool
    from hubbub_aggregator.spool import Spool
    from hubbub_aggregator.storage import Storage
    from hubbub_aggregator.tokens import Tokens

__all__ = ["Aggregator"]

log = logging.getLogger("hubbub.aggregator")

_TICK = 1.0
_PATIENCE = 5.0
"""Seconds after which a batch that could not be worked on is tried again."""


@dataclass(slots=True)
class Aggregator:
    """Everything that routes and background work share."""

    storage: Storage
    spool: Spool
    codebooks: Codebooks
    ring: KeyRing
    publisher: Publisher
    pool: Pool
    shufflers: Tokens
    analysts: Tokens
    clock: Callable[[], float]
    anchor: str
    max_batch_bytes: int
    single_operator: bool = False
    refused: Counter[str] = field(default_factory=Counter)
    """Refused requests by problem, since the start."""
    healthy: bool = False
    accumulator: Accumulator = field(init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.accumulator = Accumulator(self.storage, self.spool, self.codebooks, self.ring, self.pool, self.clock)

    def start(self) -> None:
        """Clear what a crash left behind and publish what must be published."""
        self.spool.sweep({batch.spool for batch in self.storage.pending() if batch.spool is not None})
        self.tick()

    def tick(self) -> None:
        """What time brings: keys that must be published, a bundle that aged, secrets that must be erased."""
        now = self.clock()
        self.ring.ensure(now)
        self.publisher.current(now)
        if self.ring.forget(now):
            log.info("keys and nonces past their horizon were erased")
        self.storage.scrub()
        self.healthy = True

    def wake(self) -> None:
        """There is a batch to work on."""
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work in the background until the block ends."""
        tasks = [asyncio.create_task(self._keep_house()), asyncio.create_task(self._accumulate())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.close()

    def close(self) -> None:
        self.pool.close()
        self.storage.close()

    async def _keep_house(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.tick)
            except Exception as error:  # noqa: BLE001  a full disk may be emptied; until then /readyz says no
                self.healthy = False
                log.error("housekeeping failed and is tried again: %s: %s", type(error).__name__, error)
            await asyncio.sleep(_TICK)

    async def _accumulate(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.accumulator.drain()
                await asyncio.wait_for(self._wake.wait(), _PATIENCE)
            except TimeoutError:
                continue
            except Exception as error:  # noqa: BLE001  as above: batches wait in the spool
                log.error("looking for batches failed and is tried again: %s", type(error).__name__)
                await asyncio.sleep(_TICK)
