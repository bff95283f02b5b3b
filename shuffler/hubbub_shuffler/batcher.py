"""From full buckets to settled batches: close, decide, permute, forward, forget.

Each step is one change of the storage, and every step can be the last one before a crash: whoever comes next
finds either the state before it or the state after it. Any number of batchers may work on one storage.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hubbub.wire import BatchHeader
from hubbub_shuffler.forward import Again, Answer, Final, Forwarder, Taken
from hubbub_shuffler.permute import SEED_BYTES, Entropy, number_of_parts, ordered, part_of
from hubbub_shuffler.storage import Batch, Bucket, Claim, Closed, Plan, Storage, StorageError

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub_shuffler.bundles import Bundles

__all__ = ["Batcher"]

ID_BYTES = 16
_LOG = logging.getLogger("hubbub_shuffler")


class Batcher:
    """One worker. `tick` does all that is due now; `run` does it again and again."""

    def __init__(
        self,
        storage: Storage,
        bundles: Bundles,
        forwarder: Forwarder,
        *,
        entropy: Entropy,
        floor: int,
        max_batch: int,
        lease: float,
        longest_backoff: float,
        poll: float,
    ) -> None:
        self._storage, self._bundles, self._forwarder, self._entropy = storage, bundles, forwarder, entropy
        self._floor, self._max_batch = floor, max_batch
        self._lease, self._longest_backoff, self._poll = lease, longest_backoff, poll

    async def run(self, every: float) -> None:
        """Work until cancelled. What the storage can't do now is tried again at the next tick."""
        while True:
            try:
                await self.tick()
            except StorageError as error:
                _LOG.error("the batcher waits for its storage: %s", error)
            await asyncio.sleep(every)

    async def tick(self) -> None:
        """Forward what is due. Before and after each attempt, close, plan and delete what is due for that.

        An attempt may take minutes, and with a slow aggregator there is always a next one: nothing else waits for it.
        """
        await self._tidy()
        while claim := await self._storage.claim(self._lease):
            await self._forward(claim)
            await self._tidy()

    async def _tidy(self) -> None:
        """Close and plan what is due, delete what is discarded or was settled."""
        bundle = relayed.bundle if (relayed := self._bundles.current) else None
        revoked = {key.id for key in bundle.body.keys if key.state == "revoked"} if bundle else set()
        for closed in await self._storage.close(revoked):
            await self._plan(closed, bundle, revoked=closed.revoked or closed.bucket.key in revoked)
        await self._storage.forget()

    async def _plan(self, closed: Closed, bundle: Bundle | None, *, revoked: bool) -> None:
        """Decide what becomes of a closed bucket. Two workers may decide; the storage keeps one decision."""
        contents = await self._storage.read(closed.bucket)
        distinct = len(await asyncio.to_thread(set, contents.reports))
        parts = number_of_parts(distinct, self._minimum(closed, bundle), self._max_batch)
        discard = revoked or parts == 0
        plan = Plan(
            ids=tuple(self._entropy(ID_BYTES) for _ in range(1 if discard else parts)),
            seed=self._entropy(SEED_BYTES),
            distinct=distinct,
            duplicates=len(contents.reports) - distinct,
            discard=discard,
        )
        await self._storage.plan(closed.bucket, plan)

    def _minimum(self, closed: Closed, bundle: Bundle | None) -> int:
        """The newest codebook's word, or the one under which the bucket was opened; never below the floor."""
        bucket = closed.bucket
        metric = bundle.body.metric(bucket.metric, bucket.period) if bundle else None
        return max(metric.min_batch if metric else closed.terms.minimum, self._floor)

    async def _forward(self, claim: Claim) -> None:
        """One attempt; the batch is settled, or given back to be tried again."""
        try:
            answer = await self._attempt(claim.batch)
        except asyncio.CancelledError:
            await asyncio.shield(self._storage.postpone(claim, 0.0, sent=claim.batch.sent))
            raise
        match answer:
            case Final(verdict):
                if not await self._storage.settle(claim, verdict):
                    _LOG.warning("batch %s went to another worker meanwhile", claim.batch.id.hex())
            case Taken():
                await self._storage.postpone(claim, self._poll_pause(claim.batch), sent=True)
            case Again(why, after, lost, stuck):
                _LOG.log(
                    logging.ERROR if stuck else logging.WARNING,
                    "batch %s is tried again: %s",
                    claim.batch.id.hex(),
                    why,
                )
                pause = 0.0 if lost else max(self._backoff(claim.batch.attempts), after or 0.0)
                await self._storage.postpone(claim, pause, sent=claim.batch.sent and not lost)

    async def _attempt(self, batch: Batch) -> Answer:
        try:
            # Half the lease, so that it can't run out under a worker that is only slow.
            async with asyncio.timeout(self._lease / 2):
                if batch.sent:
                    return await self._forwarder.verdict(batch.id)
                return await self._forwarder.put(batch.id, await self._body(batch))
        except TimeoutError:
            return Again("timeout")
        except StorageError as error:
            return Again(str(error))

    async def _body(self, batch: Batch) -> bytes:
        """The bytes of a batch: the same at every attempt, by whichever worker."""
        bucket = batch.bucket
        if batch.kind == "discard":
            return BatchHeader(bucket.metric, bucket.period, bucket.key, kind="discard").encode()
        contents = await self._storage.read(bucket)
        if contents.seed is None:
            raise StorageError(f"bucket of batch {batch.id.hex()} was settled by another worker")
        return await asyncio.to_thread(_encode, batch, bucket, contents.reports, contents.seed)

    def _backoff(self, attempts: int) -> float:
        """Doubling up to the limit; the random half keeps workers from coming back all at once."""
        ceiling = min(self._longest_backoff, 2.0 ** min(attempts, 30))
        return ceiling / 2 * (1 + int.from_bytes(self._entropy(4)) / 2**32)

    def _poll_pause(self, batch: Batch) -> float:
        return self._poll if not batch.sent else min(self._longest_backoff, self._poll * 2 ** min(batch.attempts, 10))


def _encode(batch: Batch, bucket: Bucket, reports: list[bytes], seed: bytes) -> bytes:
    members = part_of(ordered(reports, seed), batch.part, batch.parts)
    header = BatchHeader(bucket.metric, bucket.period, bucket.key, len(members), batch.terms.size)
    return header.encode() + b"".join(members)
