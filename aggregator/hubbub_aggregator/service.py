"""The aggregator as one object: its parts, what it does on its own, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hubbub.refusals import REFUSALS, Refused
from hubbub_aggregator.accumulate import Accumulator
from hubbub_aggregator.storage import StorageError

if TYPE_CHECKING:
    from hubbub_aggregator.bundles import Publisher
    from hubbub_aggregator.codebooks import Codebooks
    from hubbub_aggregator.keys import KeyRing
    from hubbub_aggregator.opening import Pool
    from hubbub_aggregator.spool import Spool
    from hubbub_aggregator.storage import Storage
    from hubbub_service_common.certificate import Certificate
    from hubbub_service_common.tokens import Tokens

__all__ = ["Aggregator"]

_LOG = logging.getLogger("hubbub_aggregator")

_TICK = 1.0
_PATIENCE = 5.0
"""Seconds after which a batch that could not be worked on, or that another process left, is looked at again."""
_SWEEP = 60.0
_INSPECT = 60.0
"""Seconds after which it is seen anew whether the storage is durable."""
_RETRY = 5


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
    shuffler_address: str | None = None
    """Where devices report to, as the operator says; shown, never used."""
    lease: float = 30.0
    retention: int | None = None
    """Seconds after the end of its period for which a release is kept; None: for ever."""
    certificate: Certificate | None = None
    """What it speaks TLS with; None where it does not."""
    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSALS, 0)))
    """Refused requests by problem, since the start; from zero, so that the first is seen as a rise."""
    storage_errors: int = 0
    """How often the storage failed, since the start."""
    healthy: bool = False
    accumulator: Accumulator = field(init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _swept: float = 0.0
    _checked: float = float("-inf")
    _inspected: float = float("-inf")
    _kept_from: int = 0

    def __post_init__(self) -> None:
        self.accumulator = Accumulator(
            self.storage, self.spool, self.codebooks, self.ring, self.pool, self.clock, lease=self.lease
        )

    def start(self) -> None:
        """Clear what a crash left behind and publish what must be published."""
        self._sweep()
        self.tick()

    def tick(self) -> None:
        """What time brings: keys that must be published, a bundle that aged, secrets and releases to be erased."""
        now = self.clock()
        if self.codebooks.refresh():
            _LOG.info("a codebook was added: %s", self.codebooks.newest.id.hex())
        self.ring.ensure(now)
        self.publisher.current(now)
        if self.ring.forget(now):
            _LOG.info("keys and nonces past their horizon were erased")
        self._expire(now)
        self.storage.scrub()
        if not 0 <= now - self._inspected < _INSPECT:
            self._inspected = now
            self.storage.inspect()
        if self.storage.bodies is not None and not 0 <= now - self._swept < _SWEEP:
            self._sweep()
        self.healthy = True

    def _sweep(self) -> None:
        self._swept = self.clock()
        self.spool.sweep(lambda: {batch.spool for batch in self.storage.pending()})

    def _expire(self, now: float) -> None:
        """Delete releases past their retention, none before its horizon: until then its nonces keep others out."""
        if self.retention is None:
            return
        longest = max(c.grace + c.forward_horizon for c in (version.codebook.collection for version in self.codebooks))
        first = self.codebooks.collection.calendar.index_at(max(0.0, now - max(self.retention, longest)))
        if first > self._kept_from and (deleted := self.storage.expire(first)):
            _LOG.info("%d releases past their retention were deleted", deleted)
        self._kept_from = first

    @contextmanager
    def storage_faults(self) -> Iterator[None]:
        """A storage that fails is no fault of the caller, who is told to come back."""
        try:
            yield
        except StorageError as error:
            self.storage_errors += 1
            _LOG.error("the storage failed: %s", error)
            raise Refused("overloaded", "the storage can't be read or written now", retry_after=_RETRY) from error

    def check_storage(self) -> None:
        """Refused unless the storage could be written a moment ago: whoever may ask must not make it write all day."""
        with self.storage_faults():
            if not 0 <= (now := self.clock()) - self._checked < _TICK:
                self._checked = float("-inf")
                self.storage.check()
                self._checked = now

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
                self.storage_errors += isinstance(error, StorageError)
                _LOG.error("housekeeping failed and is tried again: %s: %s", type(error).__name__, error)
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
                self.storage_errors += isinstance(error, StorageError)
                _LOG.error("looking for batches failed and is tried again: %s", type(error).__name__)
                await asyncio.sleep(_TICK)
