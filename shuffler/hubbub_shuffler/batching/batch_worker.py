"""From full buckets to settled batches: close, plan, permute, forward, forget. `_final` says which batches are held.

Each step is one change of the storage, and every step can be the last one before a crash: the next process finds
either the state before it or the state after it. Any number of batchers may work on one storage.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader
from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.process.fault_episodes import Episode
from hubbub_shuffler.batching.batch_stream import WINDOW_BYTES, in_order, primed
from hubbub_shuffler.batching.lease_length import Lease
from hubbub_shuffler.batching.lease_renewal import Hold, Lost, holding
from hubbub_shuffler.batching.permute import SEED_BYTES, Entropy, number_of_parts, stretch
from hubbub_shuffler.batching.ranking import rank
from hubbub_shuffler.forwarding.forward_attempt import Again, Answer, Final, Forwarder, Taken
from hubbub_shuffler.forwarding.refusal_confirmation import confirmed, horizon
from hubbub_shuffler.storage import (
    LONGEST_PAUSE,
    AsyncStorage,
    Batch,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    Plan,
    StorageError,
)

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from hubbub_shuffler.bundle.relay import Bundles

__all__ = ["Batcher"]

ID_BYTES = 16
_FIRST_OFFER = 60.0
"""Seconds until a held batch is offered again, doubled each time."""
_HOUR = 3_600
_LOG = logging.getLogger("hubbub_shuffler")


class Batcher:
    """One worker. `tick` does all that is due now; `run` repeats it.

    `forwards`: batches forwarded at the same time, so that a slow one does not hold up the others. `window`: most bytes
    of reports that each of them has in memory.
    """

    def __init__(
        self,
        storage: AsyncStorage,
        bundles: Bundles,
        forwarder: Forwarder,
        *,
        clock: TrustedClock,
        entropy: Entropy,
        floor: int,
        max_batch: int,
        lease: float,
        longest_backoff: float,
        poll: float,
        forwards: int = 2,
        window: int = WINDOW_BYTES,
    ) -> None:
        self._storage, self._bundles, self._forwarder, self._entropy = storage, bundles, forwarder, entropy
        self._clock, self._floor, self._max_batch = clock, floor, max_batch
        self._offered_under = ""
        """The bundle under which held batches were offered last."""
        self._leases, self._longest_backoff, self._poll = Lease(lease), longest_backoff, poll
        self._forwards, self._window = forwards, window
        self._unplanned: set[Bucket] = set()
        """Closed buckets that could not be planned last time. The log has said so."""

    @property
    def _lease(self) -> float:
        return self._leases.seconds(relayed.bundle.body if (relayed := self._bundles.current) else None)

    async def run(self, every: float) -> None:
        """Work until cancelled. Batches that are claimed at that moment are given back at once.

        Closing, planning and deleting never wait for a forwarding attempt, and attempts never wait for each other.
        """
        async with asyncio.TaskGroup() as jobs:
            for work in (self._tidy, *[self._forward_due] * self._forwards):
                jobs.create_task(_again_and_again(work, every))

    async def tick(self) -> None:
        """Close, plan and forward what is due, and delete what is then left over."""
        await self._tidy()
        async with asyncio.TaskGroup() as jobs:
            for _ in range(self._forwards):
                jobs.create_task(self._forward_due())
        await self._tidy()

    async def _tidy(self) -> None:
        """Close and plan due buckets, and delete discarded and settled ones.

        While the clock is in doubt, nothing is forgotten because of its time, and only buckets that were already due a
        whole wait of running time ago are closed.
        """
        bundle = relayed.bundle if (relayed := self._bundles.current) else None
        due = self._clock.believed(self._bundles.wait)
        if due == -math.inf:
            self._bundles.ask_the_time()
        await asyncio.to_thread(self._bundles.last_seen.note, due)
        due = max(due, self._clock.reached(self._bundles.wait))
        if relayed is not None and relayed.etag != self._offered_under:
            await self._storage.offer()  # held batches may be accepted now
            self._offered_under = relayed.etag
        revoked = {key.id for key in bundle.body.keys if key.state == "revoked"} if bundle else set()
        off = _switched_off(bundle) if bundle else set()
        for closed in await self._storage.close(revoked, off, due=due):
            unwanted = closed.early or closed.bucket.key in revoked or closed.bucket.metric in off
            try:
                await self._plan(closed, bundle, unwanted=unwanted)
                self._unplanned.discard(closed.bucket)
            except StorageError as error:  # an unreadable bucket must not hold up the others
                if closed.bucket not in self._unplanned:
                    _LOG.error("a bucket of %s can't be planned and is tried again: %s", closed.terms.name, error)
                self._unplanned.add(closed.bucket)
        await self._storage.forget(self._past())

    def _past(self) -> float:
        """A time that is certainly past."""
        return self._clock.past(self._bundles.wait)

    async def _plan(self, closed: Closed, bundle: Bundle | None, *, unwanted: bool) -> None:
        """Decide what becomes of a closed bucket. If two workers decide, the storage keeps one decision."""
        seed = self._entropy(SEED_BYTES)
        try:
            ranking = await rank(self._storage.read(closed.bucket), closed.terms.size, seed)
        except BucketGone:
            return  # another worker decided, and has finished with it
        minimum = self._minimum(closed, bundle)
        parts = number_of_parts(ranking.distinct, minimum, self._max_batch)
        discard = unwanted or parts == 0
        plan = Plan(
            ids=tuple(self._entropy(ID_BYTES) for _ in range(1 if discard else parts)),
            seed=seed,
            distinct=ranking.distinct,
            duplicates=ranking.duplicates,
            discard=discard,
        )
        if await self._storage.plan(closed.bucket, plan):
            if discard:
                _say_discarded(closed, bundle, ranking.distinct, None if unwanted else minimum)
            if not unwanted:
                await self._compare(closed, ranking.distinct)

    async def _compare(self, closed: Closed, reports: int) -> None:
        """Log a warning if a crowd has halved. Nothing is held back for it; finding out why is up to the operator."""
        name = closed.terms.name
        if await self._storage.halved(name, closed.bucket.period, reports):
            _LOG.warning("the crowd of %s is below half of its last period's", name)

    def _minimum(self, closed: Closed, bundle: Bundle | None) -> int:
        """The minimum in the newest codebook, but never below the floor or the minimum when the bucket was opened."""
        bucket = closed.bucket
        metric = bundle.body.metric(bucket.metric, bucket.period) if bundle else None
        return max(metric.min_batch if metric else 0, closed.terms.minimum, self._floor)

    async def _forward_due(self) -> None:
        """Forward one batch after another until none is due."""
        while claim := await self._storage.claim(self._lease):
            await self._forward(claim)

    async def _forward(self, claim: Claim) -> None:
        """One attempt: the batch is settled, or given back to be tried again."""
        batch = claim.batch
        try:
            over = batch.held and self._is_over(batch)
            answer = Final(batch.held) if over else await self._attempt(claim)
        except asyncio.CancelledError:
            with suppress(StorageError):  # the lease will run out by itself, and stopping comes first
                await asyncio.shield(self._storage.postpone(claim, 0.0, sent=claim.batch.sent))
            raise
        except Lost:
            kept = False
        else:
            kept = await self._act_on(answer, claim)
        if not kept:
            _LOG.warning("batch %s went to another worker meanwhile", claim.batch.id.hex())

    async def _act_on(self, answer: Answer, claim: Claim) -> bool:
        """Settle or postpone the batch; False if it belongs to another worker by now."""
        batch = claim.batch
        match answer:
            case Final(verdict):
                return await self._final(verdict, claim)
            case Taken():
                return await self._storage.postpone(claim, self._poll_pause(batch), sent=True)
            case Again(why, after, lost, stuck):
                level = logging.ERROR if stuck else logging.WARNING
                _LOG.log(level, "batch %s is tried again: %s", batch.id.hex(), why)
                pause = 0.0 if lost else max(self._backoff(batch), after or 0.0)
                return await self._storage.postpone(claim, pause, sent=batch.sent and not lost)

    async def _final(self, verdict: str, claim: Claim) -> bool:
        """Settle the batch if our own bundle and clock confirm the verdict. If not, hold it, to be offered again."""
        batch, body = claim.batch, relayed.bundle.body if (relayed := self._bundles.current) else None
        sure = self._clock.believable(self._bundles.wait)  # whether a bundle is current depends on the clock
        if self._is_over(batch) or confirmed(verdict, batch, body if sure else None, self._past()):
            settled = await self._storage.settle(claim, verdict)
            if settled and verdict != "accepted" and batch.kind != "discard":
                _LOG.error(
                    "batch %s of %s is deleted with its %d reports: the aggregator refused it for good (%s)",
                    *(batch.id.hex(), batch.terms.name, batch.reports, verdict),
                )
            return settled
        if not batch.held:
            _LOG.warning(
                "batch %s of %s is held, not deleted: the aggregator refuses it (%s), but the bundle and clock here do "
                "not confirm that. It is offered again; see hubbub shuffler held list",
                batch.id.hex(),
                batch.terms.name,
                verdict,
            )
        pause = backoff(batch.attempts, first=_FIRST_OFFER, longest=LONGEST_PAUSE, entropy=self._entropy)
        since = int(self._clock.now()) // _HOUR * _HOUR
        return await self._storage.hold_back(claim, verdict, since=since, until=self._until(batch), seconds=pause)

    def _until(self, batch: Batch) -> int:
        """The batch's horizon. Even an expired bundle says for how long the aggregator takes a batch."""
        return horizon(batch, self._bundles.known)

    def _is_over(self, batch: Batch) -> bool:
        """Whether the batch is certainly past its horizon, after which no aggregator takes it."""
        return 0 < self._until(batch) <= self._past()

    async def _attempt(self, claim: Claim) -> Answer:
        batch = claim.batch
        try:
            async with holding(self._storage, claim, self._lease) as hold:
                if batch.sent:
                    return await self._forwarder.verdict(batch.id)
                length = BATCH_HEADER_BYTES + batch.reports * batch.terms.size
                async with aclosing(hold.over(await primed(self._body(batch, hold)))) as body:
                    return await self._forwarder.put(batch.id, length, body)
        except TimeoutError:
            return Again("timeout")
        except StorageError as error:
            return Again(str(error))

    async def _body(self, batch: Batch, hold: Hold) -> AsyncIterator[bytes]:
        """The bytes of a batch: the same at every attempt, by any worker."""
        bucket, size = batch.bucket, batch.terms.size
        if batch.kind == "discard":
            yield BatchHeader(bucket.metric, bucket.period, bucket.key, kind="discard").encode()
            return
        seed = await self._storage.seed(bucket)
        if seed is None:
            raise BucketGone(f"bucket of batch {batch.id.hex()} was settled by another worker")

        def read() -> AsyncIterator[bytes]:
            return hold.over(self._storage.read(bucket))

        ranking = await rank(read(), size, seed)
        members = ranking.places[stretch(ranking.distinct, batch.part, batch.parts)]
        if len(members) != batch.reports:
            raise StorageError(f"batch {batch.id.hex()} has {batch.reports} reports, found {len(members)}")
        others = ranking.distinct - batch.reports
        head = BatchHeader(*bucket, batch.reports, size, in_other_batches=others).encode()
        async for piece in in_order(read, members, size, seed, self._window):
            yield head + piece
            head = b""

    def _backoff(self, batch: Batch) -> float:
        longest = LONGEST_PAUSE if batch.held else self._longest_backoff
        return backoff(batch.attempts, longest=longest, entropy=self._entropy)

    def _poll_pause(self, batch: Batch) -> float:
        if not batch.sent:
            return self._poll
        return backoff(batch.attempts, first=self._poll, longest=self._longest_backoff, entropy=self._entropy)


def _say_discarded(closed: Closed, bundle: Bundle | None, reports: int, minimum: int | None) -> None:
    """Log why the reports of a bucket are deleted. No minimum: none of them may leave, however many they are."""
    index = closed.bucket.period
    label = bundle.body.codebooks[0].calendar.period(index).label if bundle and bundle.body.codebooks else str(index)
    about = f"{closed.terms.name}, period {label}"
    if minimum is None:
        _LOG.warning("%s: discarded, as the metric is switched off or its key was revoked", about)
        return
    _LOG.warning(
        "%s: DISCARDED with %s: a release needs %s, so %s missing",
        about,
        "1 report" if reports == 1 else f"{reports:,} reports",
        f"{minimum:,}",
        "1 is" if minimum - reports == 1 else f"{minimum - reports:,} are",
    )


def _switched_off(bundle: Bundle) -> set[bytes]:
    """Ids of metrics in the bundle that no codebook enables."""
    metrics = [metric for codebook in bundle.body.codebooks for metric in codebook.metrics]
    return {metric.id for metric in metrics} - {metric.id for metric in metrics if metric.enabled}


async def _again_and_again(work: Callable[[], Awaitable[None]], every: float) -> None:
    """Repeat a job. What the storage can't do now is tried again at the next tick."""
    waits = Episode(_LOG, "the batcher goes on: its storage answers again")
    while True:
        try:
            await work()
            waits.none()
        except StorageError as error:
            waits.fault(f"the batcher waits for its storage: {error}")
        await asyncio.sleep(every)
