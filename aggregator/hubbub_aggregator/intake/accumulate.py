"""Verdicts on spooled batches: open a batch, drop invalid and duplicate reports, then release or refuse it, once.

If its size alone rules out a release, the batch is not opened. Duplicates are recognized by nonce, inside the batch
and against everything accepted for the same metric and period; the verdict is written only if nothing was accepted
since. A batch that was opened and then refused has been read by the aggregator: its record says what that cost.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from hubbub.wire import NONCE_BYTES
from hubbub_aggregator.intake.batch_guarantee import promise_of
from hubbub_aggregator.intake.batch_record import refusal_record, release_record
from hubbub_aggregator.intake.deduplicate import Duplicates, distinct, masks
from hubbub_aggregator.intake.open_reports import Opened, Pool, open_slice, slices, tally_parts, tally_payloads
from hubbub_aggregator.publication.codebook_versions import Codebooks, Governed
from hubbub_aggregator.storage import Accepted, Batch, Storage, StorageError
from hubbub_service_common.process.clock_and_entropy import token

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.mechanisms import Mechanism
    from hubbub_aggregator.intake.spool import Spool
    from hubbub_aggregator.publication.keys import KeyRing
    from hubbub_service_common.clock.trusted_clock import TrustedClock

__all__ = ["REASONS", "RESULTS", "Accumulator", "Progress"]

_LOG = logging.getLogger("hubbub_aggregator")

Reason: TypeAlias = Literal["batch-too-late", "batch-too-small", "revoked-key", "unknown-key", "unknown-metric"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a batch that was taken can be refused for good. Counted from zero, like RESULTS."""
RESULTS = ("valid", "duplicate", "cannot-open", "wrong-period", "malformed")
"""What can come of a report in a batch. All are counted from zero: to Prometheus, a counter that appears with its
first event has not risen, so a first day of junk would raise no alarm."""


@dataclass(slots=True)
class Progress:
    """What this process has done since it started, for its operator."""

    batches: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(("accepted", *REASONS), 0)))
    """By verdict: accepted, or the reason for the refusal."""
    reports: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(RESULTS, 0)))
    """Reports of the batches that it opened: valid, or why not."""
    failures: int = 0
    """How often work on a batch failed through no fault of the batch."""
    last: float | None = None
    """When it gave the last verdict."""


@dataclass(slots=True)
class Accumulator:
    """Settles pending batches until there are none. Only one process works on a batch at a time."""

    storage: Storage
    spool: Spool
    codebooks: Codebooks
    ring: KeyRing
    pool: Pool
    clock: TrustedClock
    at_once: int = field(default_factory=lambda: os.cpu_count() or 1)
    lease: float = 30.0
    """Seconds after which another process takes over a batch, if this process is gone."""
    storage_failed: Callable[[], None] = lambda: None
    """Called each time the storage keeps a batch from being settled."""
    progress: Progress = field(default_factory=Progress)
    _holder: str = field(default_factory=lambda: token(8))
    _busy: set[bytes] = field(default_factory=set)
    _read: dict[bytes, Governed] = field(default_factory=dict)
    """Batches that this process has begun to open and has not settled."""
    duplicates: Duplicates = field(init=False)

    def __post_init__(self) -> None:
        self.duplicates = Duplicates(self.storage)

    async def drain(self) -> int:
        """Settle every waiting batch, and return how many attempts failed. Those batches stay pending."""
        self.duplicates.trim()
        waiting = [batch for batch in await asyncio.to_thread(self.storage.pending) if batch.id not in self._busy]
        room = asyncio.Semaphore(self.at_once)

        async def one(batch: Batch) -> bool:
            async with room:
                return await self._settle_or_log(batch)

        settled = await asyncio.gather(*(one(batch) for batch in waiting))
        return settled.count(False)

    async def _settle_or_log(self, batch: Batch) -> bool:
        if batch.id in self._busy:
            return True
        self._busy.add(batch.id)
        try:
            async with self._leased(batch.id) as is_ours:
                if is_ours:
                    await self._settle_in_time(batch)
        except Exception as error:  # noqa: BLE001  one batch must not stop the others; it stays pending
            self.progress.failures += 1
            why = type(error).__name__
            if isinstance(error, StorageError):
                self.storage_failed()
                why = f"{why}: {error}"
            _LOG.error("batch %s could not be worked on and stays pending: %s", batch.id.hex(), why)
            return False
        finally:
            self._busy.discard(batch.id)
        return True

    @asynccontextmanager
    async def _leased(self, id: bytes) -> AsyncIterator[bool]:  # noqa: A002  it is an id
        """Whether this process holds the lease of a batch until the block ends. A lease only saves work."""
        if not await asyncio.to_thread(self.storage.lease, id, self._holder, self.lease):
            yield False
            return
        renewing = asyncio.create_task(self._renew(id))
        try:
            yield True
        finally:
            renewing.cancel()

    async def _renew(self, id: bytes) -> None:  # noqa: A002  it is an id
        while True:
            await asyncio.sleep(self.lease / 3)
            with suppress(StorageError):  # it may recover in time; if not, another process repeats the work
                await asyncio.to_thread(self.storage.lease, id, self._holder, self.lease)

    async def _settle_in_time(self, batch: Batch) -> None:
        """Settle a batch. Past its horizon a failure is final: while it is pending, keys and nonces can't be erased."""
        try:
            await self.settle(batch)
        except Exception:
            if self.codebooks.horizon(batch.header.period) > self.clock.past(self.codebooks.erase_after):
                raise
            await self._refuse(batch, "batch-too-late")
            await asyncio.to_thread(self.spool.remove, batch.spool)

    async def settle(self, batch: Batch) -> None:
        """Give one pending batch its verdict."""
        header = batch.header
        if batch.spool is not None and not await asyncio.to_thread(self.spool.fetch, batch.spool, header.body_bytes):
            # the shuffler learns that the batch is unknown, and sends it again
            if await asyncio.to_thread(self.storage.drop, batch.id, batch.spool):
                _LOG.error("batch %s is dropped: its file is gone", batch.id.hex())
            return
        governed = await asyncio.to_thread(self.codebooks.governing, header.metric, header.period)
        key = await asyncio.to_thread(self.ring.find, header.period, header.key)
        if (governed is None or key is None) and self.clock.contradicted(self.codebooks.wait):
            return  # a refusal is final, and keys and codebooks follow the clock: wait until nothing contradicts it
        if governed is None or batch.spool is None:
            await self._refuse(batch, "unknown-metric")
        elif key is None or key.private_key is None:
            await self._refuse(batch, "unknown-key" if key is None else "revoked-key")
        elif header.count < (governed.metric.min_batch or 2):
            await self._refuse(batch, "batch-too-small")
        else:
            parts = slices(self.spool.path(batch.spool), header, governed.metric.mechanism, key.private_key)
            self._read[batch.id] = governed
            await self._release(batch, governed, await self.pool.map(open_slice, parts))
        await asyncio.to_thread(self.spool.remove, batch.spool)

    async def _release(self, batch: Batch, governed: Governed, opened: Sequence[Opened]) -> None:
        mechanism, header, parts = governed.metric.mechanism, batch.header, [part.nonces for part in opened]
        nonces, first = await asyncio.to_thread(distinct, parts)
        while True:
            version, known, last, hashed = await asyncio.to_thread(
                self.duplicates.counted, header.metric, header.period, nonces, header.in_other_batches
            )
            fresh, valid = nonces[~known].tobytes(), len(nonces) - int(known.sum())
            invalid = _invalid(opened, valid)
            promise = await asyncio.to_thread(promise_of, self.storage, governed, header, valid)
            if not promise.enough:
                record = refusal_record(batch, governed, promise, valid, invalid, "batch-too-small")
                await self._refuse(batch, "batch-too-small", valid, invalid, record)
                return
            tally = await self._tally(mechanism, opened, masks(parts, first[~known]))
            accepted = Accepted(valid, invalid, tally, fresh, release_record(batch, governed, promise, invalid))
            outcome = await asyncio.to_thread(self.storage.accept, batch.id, version, accepted, last)
            if outcome == "outdated":
                continue  # another batch of this metric and period was accepted meanwhile: its nonces count too
            self._read.pop(batch.id, None)
            if outcome == "accepted":
                self._count("accepted", valid, invalid)
                about = await asyncio.to_thread(self._about, batch)
                _LOG.info(
                    "%s: %s of %s reports accepted", about, f"{valid:,}", f"{header.count:,}", extra=_named(batch)
                )
                learn = self.duplicates.add
                await asyncio.to_thread(learn, header.metric, header.period, version, batch.id, hashed)
            return

    async def _tally(
        self, mechanism: Mechanism[Any], opened: Sequence[Opened], kept: Sequence[NDArray[np.bool_]]
    ) -> bytes:
        chosen = [_chosen(part.payloads, mask, mechanism.report_bytes) for part, mask in zip(opened, kept, strict=True)]
        raw = await self.pool.map(tally_payloads, tally_parts(mechanism, chosen))
        total = mechanism.tally_from_bytes(raw[0])
        for more in raw[1:]:
            total += mechanism.tally_from_bytes(more)
        return total.to_bytes()

    async def _refuse(
        self,
        batch: Batch,
        reason: Reason,
        valid: int | None = None,
        invalid: Mapping[str, int] | None = None,
        record: str | None = None,
    ) -> None:
        if record is None and (governed := self._read.get(batch.id)) is not None:
            # a failed attempt may have read any part of it: record the cost as if a device had been alone in it
            promise = await asyncio.to_thread(promise_of, self.storage, governed, batch.header, 1)
            record = refusal_record(batch, governed, promise, None, {}, reason)
        refused = await asyncio.to_thread(self.storage.refuse, batch.id, reason, valid, invalid or {}, record)
        self._read.pop(batch.id, None)
        if refused:  # if not, another process settled it while this one stood still, and has counted it
            self._count(reason, valid or 0, invalid or {})
            about = await asyncio.to_thread(self._about, batch)
            _LOG.info(
                "%s: refused with its %s reports: %s", about, f"{batch.header.count:,}", reason, extra=_named(batch)
            )

    def _about(self, batch: Batch) -> str:
        """The metric and the period of a batch, for the log."""
        governed = self.codebooks.governing(batch.header.metric, batch.header.period)
        label = self.codebooks.collection.calendar.period(batch.header.period).label
        return f"{governed.metric.name if governed else 'a metric of no codebook'}, period {label}"

    def _count(self, verdict: str, valid: int, invalid: Mapping[str, int]) -> None:
        self.progress.batches[verdict] += 1
        self.progress.reports.update({"valid": valid, **invalid})
        self.progress.last = self.clock.now()


def _chosen(payloads: bytes, mask: NDArray[np.bool_], size: int) -> bytes:
    import numpy as np

    return np.frombuffer(payloads, np.uint8).reshape(-1, size)[mask].tobytes()


def _invalid(opened: Sequence[Opened], valid: int) -> dict[str, int]:
    invalid: Counter[str] = Counter()
    for part in opened:
        invalid.update(part.invalid)
    found = sum(len(part.nonces) for part in opened) // NONCE_BYTES
    if found > valid:
        invalid["duplicate"] = found - valid
    return dict(sorted(invalid.items()))


def _named(batch: Batch) -> dict[str, str]:
    """The id of a batch, as the log takes it."""
    return {"batch": batch.id.hex()}
