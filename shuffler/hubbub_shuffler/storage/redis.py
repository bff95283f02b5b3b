"""Reports in Redis, on one server or on a cluster: for when one machine is not enough.

docs/design/shuffler-storage.md has the layout and says why every crash between two steps is harmless. Two threads,
each with connections of its own: one for ingest and what it needs, one for everything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from hubbub_service_common.redis.durability import Durability, Stakes
from hubbub_shuffler.permute import Entropy
from hubbub_shuffler.storage import _redis_periods as periods
from hubbub_shuffler.storage._blobs import blobs
from hubbub_shuffler.storage._redis_erase import Eraser
from hubbub_shuffler.storage._redis_keys import SHARDS, Keys, bucket_of, member_of
from hubbub_shuffler.storage._redis_lane import RedisLane
from hubbub_shuffler.storage._redis_layout import take_over
from hubbub_shuffler.storage._redis_leases import Leases
from hubbub_shuffler.storage._redis_link import Link
from hubbub_shuffler.storage._redis_mark import Mark
from hubbub_shuffler.storage._redis_overview import listed, overview
from hubbub_shuffler.storage._redis_scripts import Call, Part, Script, Scripts, command
from hubbub_shuffler.storage.protocol import (
    CLOSED_FOR,
    PIECE_BYTES,
    Arrivals,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    Overview,
    Plan,
    Reason,
    StorageError,
    Terms,
)

__all__ = ["RedisStorage"]

_LOG = logging.getLogger("hubbub_shuffler")
_STAKES = Stakes("REPORTS", "IT MAY DELETE REPORTS WHEN MEMORY IS SHORT")

_ID_BYTES = 16
_BLOB_BYTES = 2**17
"""Most bytes under one id: what one script handles eight of at once."""
_PAGE = 2_048
"""Most blobs in one piece, so that no other call waits for long."""
_AT_ONCE = 64
"""Buckets in one round of calls."""
_PATIENCE, _PAUSE = 0.2, 0.02
"""Seconds for which `forget` waits for a rewrite to end, and between two looks."""


class RedisStorage:
    """A `Storage` in Redis. `replicas`: on how many a report must be before it is acknowledged.

    The clock is the server's; tests pass another. `tidy_lease`: seconds after which another process has files
    rewritten if the one that began is gone.
    """

    def __init__(
        self,
        url: str,
        *,
        entropy: Entropy,
        clock: Callable[[], float] | None = None,
        forget_after: float = 30 * 86_400,
        replicas: int = 0,
        timeout: float = 5.0,
        tidy_lease: float = 10.0,
        prefix: str = "hubbub-shuffler",
    ) -> None:
        self._entropy, self._clock, self._forget_after = entropy, clock, forget_after
        self._keys, self._scripts = Keys(prefix), Scripts()
        self._ingest = RedisLane(Link(url, replicas=replicas, timeout=timeout))
        self._rest = RedisLane(Link(url, replicas=replicas, timeout=timeout))
        self._durability = Durability(_LOG, _STAKES, replicas, StorageError)
        self._leases = Leases(self._rest.link, self._keys, self._scripts, self._now, entropy)
        self._eraser = Eraser(self._rest.link, self._keys, self._scripts, self._now, entropy(16).hex(), tidy_lease)
        try:
            self._durability.look(self._rest.link)
            take_over(self._rest.link, self._keys, self._scripts)
            self._mark = Mark(self._rest.link, self._keys.mark, entropy)
        except BaseException:
            self._ingest.close()
            self._rest.close()
            raise

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        return await self._ingest.run(self._add, arrivals)

    async def close(self, revoked: Collection[int], off: Collection[bytes] = ()) -> list[Closed]:
        return await self._rest.run(self._close, revoked, off)

    async def read(self, bucket: Bucket) -> AsyncIterator[bytes]:
        member = member_of(bucket)
        incarnation = await self._rest.run(self._readable, member)
        for shard in range(SHARDS):
            start: bytes | None = bytes(_ID_BYTES)
            while start is not None:
                piece, start = await self._rest.run(self._page, member, incarnation, shard, start)
                if piece:
                    yield piece

    async def seed(self, bucket: Bucket) -> bytes | None:
        return await self._rest.run(self._seed, bucket)

    async def plan(self, bucket: Bucket, plan: Plan) -> bool:
        return await self._rest.run(self._leases.plan, bucket, plan)

    async def halved(self, name: str, period: int, reports: int) -> bool:
        return await self._rest.run(
            periods.note_crowd, self._rest.link, self._keys, self._scripts, name, period, reports
        )

    async def held_periods(self) -> bytes:
        return await self._ingest.run(periods.held, self._ingest.link, self._keys)

    async def hold_periods(self, before: bytes, after: bytes) -> bool:
        return await self._ingest.run(periods.hold, self._ingest.link, self._keys, self._scripts, before, after)

    async def claim(self, lease: float) -> Claim | None:
        return await self._rest.run(self._leases.claim, lease)

    async def extend(self, claim: Claim, lease: float) -> bool:
        return await self._rest.run(self._leases.hold, claim, lease, "")

    async def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        return await self._rest.run(self._leases.hold, claim, seconds, str(int(sent)))

    async def settle(self, claim: Claim, verdict: str) -> bool:
        return await self._rest.run(self._leases.settle, claim, verdict)

    async def forget(self) -> bool:
        await self._rest.run(self._eraser.erase)
        await self._rest.run(self._eraser.forget, self._forget_after)
        for _ in range(int(_PATIENCE / _PAUSE)):
            if (clean := await self._rest.run(self._eraser.rewrite)) is not None:
                return clean
            await asyncio.sleep(_PAUSE)
        return False

    async def overview(self) -> Overview:
        return await self._rest.run(overview, self._rest.link, self._keys)

    @property
    def durable(self) -> bool:
        return self._durability.holds

    async def inspect(self) -> None:
        await self._rest.run(self._durability.look, self._rest.link)

    async def check(self) -> None:
        await self._ingest.run(self._check)

    async def aclose(self) -> None:
        await self._ingest.aclose()
        await self._rest.aclose()

    def _now(self) -> Part:
        return "" if self._clock is None else repr(float(self._clock()))

    def _add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """One call per bucket, each to one shard drawn at random."""
        link, places = self._ingest.link, [self._place(arrival) for arrival in arrivals]
        answers = link.run([place.call(self._now(), "", "") for place in places], again=True)
        refused: dict[Bucket, Reason] = {}
        for arrival, place, answer in zip(arrivals, places, answers, strict=True):
            said = answer if answer != b"unknown" else self._open(arrival, place)
            if said != b"kept":
                refused[arrival.bucket] = next(reason for reason in CLOSED_FOR if reason.encode() == said)
        return refused

    def _place(self, arrival: Arrivals) -> _Place:
        member, shard = member_of(arrival.bucket), self._entropy(1)[0] % SHARDS
        bodies = [self._entropy(_ID_BYTES) + body for body in blobs(arrival, self._entropy, _BLOB_BYTES)]
        keys = (self._keys.shard(member, shard), self._keys.blobs(member, shard))
        return _Place(self._scripts.add, keys, len(arrival.sealed), bodies)

    def _open(self, arrival: Arrivals, place: _Place) -> bytes:
        """Nothing is in this shard yet: the bucket is listed first, so that whatever gets into it will be closed."""
        link, terms, member = self._ingest.link, arrival.terms, member_of(arrival.bucket)
        register = self._scripts.register(
            (self._keys.bucket(member), self._keys.listing("open")),
            self._now(),
            member,
            self._entropy(8).hex(),
            terms.name,
            terms.size,
            terms.closes_at,
            terms.minimum,
        )
        ((state, revoked, incarnation, closes_at),) = link.run([register], again=True)
        if state != b"open":
            return CLOSED_FOR[int(revoked)].encode()
        (answer,) = link.run([place.call(self._now(), incarnation, closes_at)], again=True)
        return bytes(answer)

    def _close(self, revoked: Collection[int], off: Collection[bytes]) -> list[Closed]:
        self._mark.look()
        self._begin_closing(revoked, off)
        for member, row in listed(self._rest.link, self._keys, "closing", "incarnation", "closes_at", "revoked"):
            self._finish_closing(member, *row)
        return [
            Closed(bucket_of(member), _terms(row), early=row[4] != b"0")
            for member, row in listed(
                self._rest.link, self._keys, "closed", "name", "size", "closes_at", "minimum", "revoked"
            )
        ]

    def _begin_closing(self, revoked: Collection[int], off: Collection[bytes]) -> None:
        link, open_ = self._rest.link, self._keys.listing("open")
        while True:
            due = link.run([self._scripts.due((open_,), self._now(), 0, 0, _AT_ONCE, "")], again=True, write=False)[0]
            if not due or not any(self._begin(due, "0")):
                break
        if revoked or off:
            open_now = [(member.encode(), bucket_of(member)) for member, _ in listed(link, self._keys, "open")]
            self._begin([member for member, bucket in open_now if bucket.key in revoked], "1")
            self._begin([member for member, bucket in open_now if bucket.metric in off], "2")

    def _begin(self, members: Sequence[bytes], revoked: str) -> list[int]:
        keys = self._keys
        calls = [
            self._scripts.begin_close(
                (keys.bucket(member.decode()), keys.listing("open"), keys.listing("closing")),
                self._now(),
                member,
                revoked,
            )
            for member in members
        ]
        return self._rest.link.run(calls, again=True)

    def _finish_closing(self, member: str, incarnation: bytes, closes_at: bytes, revoked: bytes) -> None:
        """Close every shard; only when nothing can get in anywhere is the bucket closed, and may be read."""
        link, keys = self._rest.link, self._keys
        close = self._scripts.close_shard
        shards = link.run(
            [close((keys.shard(member, shard),), incarnation, closes_at, revoked) for shard in range(SHARDS)],
            again=True,
        )
        if min(shards) < 0:
            return  # closed, settled and opened anew while we were away
        lists = (keys.bucket(member), keys.listing("closing"), keys.listing("closed"))
        link.run(
            [self._scripts.move(lists, member, incarnation, "closing", "closed", "reports", sum(shards))], again=True
        )

    def _readable(self, member: str) -> bytes:
        row = command(self._keys.bucket(member), "HMGET", self._keys.bucket(member), "state", "incarnation")
        ((state, incarnation),) = self._rest.link.run([row], again=True, write=False)
        if state not in {b"closed", b"planned"}:
            raise BucketGone("the bucket is not closed, or it was settled or discarded by another worker")
        return bytes(incarnation)

    def _page(self, member: str, incarnation: bytes, shard: int, start: bytes) -> tuple[bytes, bytes | None]:
        """The reports under the ids from `start` on that fit into one piece, and where the next piece starts."""
        keys = (self._keys.shard(member, shard), self._keys.blobs(member, shard))
        call = self._scripts.page(keys, incarnation, start, PIECE_BYTES, _PAGE)
        (found,) = self._rest.link.run([call], again=True, write=False)
        if found is None:
            if self._readable(member) == incarnation:  # reports are deleted only after that has changed
                raise StorageError("REDIS LOST DATA: reports of a closed bucket are not there any more")
            raise BucketGone("the bucket was settled or discarded by another worker")
        if not found:
            return b"", None
        after = int.from_bytes(found[-1][:_ID_BYTES]) + 1
        piece = b"".join([blob[_ID_BYTES:] for blob in found])
        return piece, after.to_bytes(_ID_BYTES) if after < 2 ** (8 * _ID_BYTES) else None

    def _seed(self, bucket: Bucket) -> bytes | None:
        key = self._keys.bucket(member_of(bucket))
        (seed,) = self._rest.link.run([command(key, "HGET", key, "seed")], again=True, write=False)
        return None if seed is None else bytes(seed)

    def _check(self) -> None:
        """Every server answers and has its place in the cluster; one of them takes writes and has its replicas."""
        link = self._ingest.link
        for node in link.primaries():
            said = link.ask(node, *(("CLUSTER", "INFO") if link.cluster else ("PING",)))
            if link.cluster and b"cluster_state:ok" not in said:
                raise StorageError(f"the Redis cluster is down, says {node[0]}:{node[1]}")
        link.run([command(self._keys.probe, "SET", self._keys.probe, b"")], again=True)


class _Place:
    """Where a group commit goes: the same blobs under the same ids at every attempt."""

    def __init__(self, script: Script, keys: tuple[bytes, bytes], reports: int, bodies: list[bytes]) -> None:
        self._script, self._keys, self._reports, self._bodies = script, keys, reports, bodies

    def call(self, now: Part, incarnation: Part, closes_at: Part) -> Call:
        return self._script(self._keys, now, incarnation, closes_at, self._reports, *self._bodies)


def _terms(row: Sequence[bytes]) -> Terms:
    return Terms(row[0].decode(), int(row[1]), int(row[2]), int(row[3]))
