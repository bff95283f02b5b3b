"""The aggregator as one object: its parts, what it does on its own, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hubbub.refusals import REFUSALS, Refused
from hubbub_aggregator.intake.accumulate import Accumulator
from hubbub_aggregator.publication.collection_pause import Collecting
from hubbub_aggregator.storage import StorageError
from hubbub_service_common.process.fault_episodes import Episode

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_aggregator.intake.open_reports import Pool
    from hubbub_aggregator.intake.spool import Spool
    from hubbub_aggregator.publication.bundles import Publisher
    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.publication.keys import KeyRing
    from hubbub_aggregator.storage import SignedBundle, Storage
    from hubbub_service_common.clock.last_seen import LastSeen
    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from hubbub_service_common.http.certificate import Certificate
    from hubbub_service_common.http.connection_limits import ConnectionLimits
    from hubbub_service_common.http.tokens import Tokens

__all__ = ["Aggregator"]

_LOG = logging.getLogger("hubbub_aggregator")

_TICK = 1.0
_PATIENCE = 5.0
"""Seconds until a batch that failed, or that another process left behind, is looked at again."""
_SWEEP = 60.0
_INSPECT = 60.0
"""Seconds between two checks of whether the storage is durable."""
_RETRY, _RETRY_DISK = 5, 60
_UNUSABLE = "the storage can't be read or written now: the log of the aggregator says why"


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
    clock: TrustedClock
    last_seen: LastSeen
    anchor: str
    max_batch_bytes: int
    written: Codebook | None = None
    """The codebook that the settings name, until it is clear whether it is an edit."""
    backfill: int = 0
    """How many periods before the present one the first codebook starts."""
    single_operator: bool = False
    shuffler_address: str | None = None
    """Where devices report to, according to the operator. Shown, never used."""
    shuffler_floor: int | None = None
    """Fewest reports in a batch that the shuffler forwards, according to the operator. Shown, never used."""
    public_frames: tuple[str, ...] = ()
    """Origins whose pages may show the public view of a metric in a frame."""
    lease: float = 30.0
    retention: int | None = None
    """Seconds for which a release is kept after the end of its period; None: forever."""
    certificate: Certificate | None = None
    """The TLS certificate of the public listener; None without TLS."""
    connections: ConnectionLimits | None = None
    """The connection limits of the public listener; None if there is no listener."""
    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSALS, 0)))
    """Refused requests since the start, by problem. Every count starts at zero, so that the first refusal is a rise."""
    storage_errors: int = 0
    """How often the storage failed since the start."""
    healthy: bool = False
    accumulator: Accumulator = field(init=False)
    _failing: Episode = field(default_factory=lambda: Episode(_LOG, "the storage answers again"))
    _spooling: Episode = field(default_factory=lambda: Episode(_LOG, "batches are written to disk again"))
    _housekeeping: Episode = field(default_factory=lambda: Episode(_LOG, "housekeeping works again"))
    collecting: Collecting = field(
        default_factory=lambda: Collecting(Episode(_LOG, "the present period has a live key again"))
    )
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _swept: float = 0.0
    _checked: float = float("-inf")
    _inspected: float = float("-inf")
    _kept_from: int = 0
    _hesitates: bool = False

    def __post_init__(self) -> None:
        self.accumulator = Accumulator(
            *(self.storage, self.spool, self.codebooks, self.ring, self.pool, self.clock),
            lease=self.lease,
            storage_failed=self._count_storage_error,
        )

    def _count_storage_error(self) -> None:
        self.storage_errors += 1

    def start(self) -> None:
        """Clean up after a crash, and do the first round of housekeeping."""
        self._sweep()
        self.tick()

    def tick(self) -> None:
        """Housekeeping, about once a second: publish keys, renew the bundle, erase expired secrets and releases."""
        if self.codebooks.refresh():
            _LOG.info("a codebook was added: %s", self.codebooks.newest.id.hex())
        self.clock.compare("the storage's", self.storage.time())
        self.last_seen.note(self.clock.believed(self.codebooks.wait))
        self._start_now()
        self._adopt()
        now, past = self.clock.now(), self.past
        self.ring.ensure(now, sure=self.sure, past=past)
        self.collecting.look(now, self.codebooks, self.storage.sealing_keys())
        self.bundle()
        if self.ring.forget(past):
            _LOG.info("keys and nonces past their horizon were erased")
        self._expire(past)
        self.storage.scrub()
        if not 0 <= now - self._inspected < _INSPECT:
            self._inspected = now
            self.storage.inspect()
        if self.storage.bodies is not None and not 0 <= now - self._swept < _SWEEP:
            self._sweep()
        self.healthy = True

    def _adopt(self) -> None:
        """Put an edited codebook in force, once the clock is plausible.

        Under a clock that is a year ahead it would start in a year, and no other edit could start before it.
        """
        if self.written is None:
            return
        now = self.clock.now()
        plausible = not self.in_doubt and self.publisher.plausible(now)
        if self.sure or plausible or self.codebooks.knows(self.written):
            self.codebooks.adopt(self.written, now)
            self.written = None
        elif not self._hesitates:
            _LOG.warning("the edited codebook waits until this clock can be trusted")
            self._hesitates = True

    def _start_now(self) -> None:
        """Repair a first start under a clock that was ahead: nothing would be collected until that later period."""
        now = self.clock.now()
        late = self.codebooks.to_come(now)
        if late is not None and self.sure and self.codebooks.start_now(now, self.backfill):
            _LOG.warning("the codebook starts now and not with the period %s: the clock had been ahead", late.label)

    def late_start(self) -> str | None:
        """A warning if nothing is collected yet because the first codebook starts with a later period, or None."""
        late = self.codebooks.to_come(self.clock.now())
        if late is None:
            return None
        return (
            f"nothing is collected before the period {late.label}, when the first codebook starts: the clock was ahead "
            "when the codebook was put in force, or is behind now. It starts as soon as this clock can be trusted, "
            "unless batches have already arrived"
        )

    @property
    def past(self) -> float:
        """A time that has certainly passed. Steps that can't be undone rest on it, not on what the clock says."""
        return self.clock.past(self.codebooks.erase_after)

    @property
    def in_doubt(self) -> bool:
        """Whether anything contradicts the clock."""
        return self.clock.contradicted(self.codebooks.wait)

    @property
    def sure(self) -> bool:
        """Whether the clock can be trusted."""
        return self.clock.believable(self.codebooks.wait)

    def bundle(self) -> SignedBundle:
        """The bundle to serve now."""
        was_set = self.clock.was_set(self.codebooks.wait)
        return self.publisher.current(self.clock.now(), sure=self.sure, was_set=was_set)

    def _sweep(self) -> None:
        self._swept = self.clock.now()
        self.spool.sweep(lambda: {batch.spool for batch in self.storage.pending()})

    def _expire(self, past: float) -> None:
        """Delete releases past their retention, but none before its horizon: until then its nonces stop duplicates."""
        if self.retention is None:
            return
        kept = max(self.retention, self.codebooks.longest)
        first = self.codebooks.collection.calendar.index_at(max(0.0, past - kept))
        if first > self._kept_from and (deleted := self.storage.expire(first)):
            _LOG.info("%d releases past their retention were deleted", deleted)
        self._kept_from = first

    @contextmanager
    def storage_faults(self) -> Iterator[None]:
        """Answer a failure of the storage with "overloaded", so that the caller tries again later."""
        try:
            yield
        except StorageError as error:
            self.storage_errors += 1
            self._failing.fault(f"the storage failed: {error}")
            self._checked = float("-inf")
            raise Refused("overloaded", _UNUSABLE, retry_after=_RETRY) from error

    def storage_fault(self) -> str | None:
        """What is wrong with the storage, or None. A test write counts for a second, so that polling writes little."""
        if 0 <= (now := self.clock.now()) - self._checked < _TICK:
            return None
        self._checked = float("-inf")
        try:
            self.storage.check()
        except StorageError as error:
            self.storage_errors += 1
            if not self._failing.lasts:  # otherwise the first failure is in the log, perhaps in other words
                self._failing.fault(f"the storage failed: {error}")
            return _UNUSABLE
        self._checked = now
        self._failing.none()  # only here: a read that succeeds says nothing about a full disk
        return None

    @contextmanager
    def disk_faults(self) -> Iterator[None]:
        """Answer a failed write of a batch with "overloaded", so that the shuffler tries again later."""
        try:
            yield
            self._spooling.none()
        except OSError as error:
            self.storage_errors += 1
            self._spooling.fault(f"a batch could not be written to disk, and must be sent again: {error}")
            raise Refused("overloaded", "the batch could not be written to disk", retry_after=_RETRY_DISK) from error

    def wake(self) -> None:
        """Tell the background work that there is a batch."""
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
                self._housekeeping.none()
                if self._failing.lasts:  # perhaps no caller asks whether it is over
                    await asyncio.to_thread(self.storage_fault)
            except Exception as error:  # noqa: BLE001  a full disk may get room again; until then /readyz fails
                self.healthy = False
                self.storage_errors += isinstance(error, StorageError)
                self._housekeeping.fault(f"housekeeping failed and is tried again: {type(error).__name__}: {error}")
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
