"""Redis backend: reports on one server or on a cluster, for when one machine is not enough.

docs/design/shuffler-storage.md shows the layout, and says why a crash between any two steps is harmless.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Sequence

from hubbub_service_common.process.clock_and_entropy import wall
from hubbub_service_common.redis.calls_and_scripts import Call, Part, Script, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.durability import Durability, Stakes
from hubbub_service_common.storage.free_space import Room
from hubbub_service_common.storage.kinds_and_errors import StorageKind
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.storage.protocol import (
    CLOSED_FOR,
    PIECE_BYTES,
    Arrivals,
    Bucket,
    BucketDamaged,
    BucketGone,
    Closed,
    Overview,
    Reason,
    StorageError,
    Terms,
)
from hubbub_shuffler.storage.redis.batches import Leases
from hubbub_shuffler.storage.redis.erase import Eraser
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys, bucket_of, member_of
from hubbub_shuffler.storage.redis.layout_version import take_over
from hubbub_shuffler.storage.redis.loss_mark import Mark
from hubbub_shuffler.storage.redis.lost_records import LostRecords
from hubbub_shuffler.storage.redis.overview import listed, overview
from hubbub_shuffler.storage.redis.pack_blobs import blobs
from hubbub_shuffler.storage.redis.repair import RedisMender
from hubbub_shuffler.storage.redis.room import room_of
from hubbub_shuffler.storage.redis.scripts import Scripts
from hubbub_shuffler.storage.repair_schedule import Repair

__all__ = ["RedisStorage"]

_LOG = logging.getLogger("hubbub_shuffler")
_STAKES = Stakes("REPORTS", "IT MAY DELETE REPORTS WHEN MEMORY IS SHORT")

_ID_BYTES = 16
_BLOB_BYTES = 2**17
"""Most bytes under one id. A script handles up to eight such blobs at once."""
_PAGE = 2_048
"""Most blobs in one piece, so that no other call waits for long."""
_AT_ONCE = 64
"""Buckets in one round of calls."""


class RedisStorage:
    """A `Storage` in Redis. `replicas`: how many replicas must have a report before it is acknowledged.

    `clock`: of this process, to refuse late reports; nothing is closed or forgotten by it. `lease_clock`: None for the
    server's clock, which all processes share; tests pass another. `quota`: bytes that each primary may use, unless its
    own `maxmemory` is less. `tidy_lease`: seconds after which another process has files rewritten if the one that began
    is gone. `salvage_after`: seconds after which a bucket that lacks reports is looked at again; it then goes on
    without them. In that time, a server that lacks them may be replaced by one that has them.
    """

    kind: StorageKind = "redis"

    def __init__(
        self,
        url: str,
        *,
        entropy: Entropy,
        clock: Callable[[], float] = wall,
        lease_clock: Callable[[], float] | None = None,
        forget_after: float = 30 * 86_400,
        replicas: int = 0,
        quota: int | None = None,
        timeout: float = 5.0,
        tidy_lease: float = 10.0,
        salvage_after: float = 600.0,
        prefix: str = "hubbub-shuffler",
    ) -> None:
        self._entropy, self._clock, self._forget_after = entropy, clock, forget_after
        self._keys, self._scripts, self._quota = Keys(prefix), Scripts(), quota
        self._client = RedisClient(url, replicas=replicas, timeout=timeout)
        self._durability = Durability(_LOG, _STAKES, replicas)
        leases = Leases(self._client, self._keys, self._scripts, lease_clock, entropy, self._a_batch_is_missing)
        self.plan, self.claim, self.settle = leases.plan, leases.claim, leases.settle
        self.extend, self.postpone, self.hold_back = leases.extend, leases.postpone, leases.hold_back
        self.held_batches, self.offer, self.claim_held = leases.held, leases.offer, leases.claim_held
        self._records = LostRecords(self._client, self._keys, self._scripts, entropy)
        self._batches_missing = True  # perhaps: what a process before this one saw is not known
        self._mender = RedisMender(self._client, self._keys, self._scripts)
        self.repair = Repair(self._mender, salvage_after)
        self._eraser = Eraser(self._client, self._keys, self._scripts, entropy(16).hex(), tidy_lease)
        try:
            self.inspect()
            take_over(self._client, self._keys, self._scripts)
            self._mark = Mark(self._client, self._keys.mark, entropy)
        except BaseException:
            self._client.close()
            raise

    @property
    def durable(self) -> bool:
        return self._durability.holds

    def inspect(self) -> None:
        self._durability.look(self._client)

    def disconnect(self) -> None:
        self._client.close()

    def _now(self) -> Part:
        return repr(float(self._clock()))

    def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """One call per bucket, each to a shard drawn at random."""
        client, places = self._client, [self._place(arrival) for arrival in arrivals]
        answers = client.run([place.call(self._now(), "", "") for place in places])
        refused: dict[Bucket, Reason] = {}
        kept: list[tuple[str, Terms]] = []
        for arrival, place, answer in zip(arrivals, places, answers, strict=True):
            said = answer if answer != b"unknown" else self._open(arrival, place)
            if said == b"kept":
                kept.append((member_of(arrival.bucket), arrival.terms))
            else:
                refused[arrival.bucket] = next(reason for reason in CLOSED_FOR if reason.encode() == said)
        self._records.note(kept)
        return refused

    def _place(self, arrival: Arrivals) -> _Place:
        member, shard = member_of(arrival.bucket), self._entropy(1)[0] % SHARDS
        bodies = [self._entropy(_ID_BYTES) + body for body in blobs(arrival, self._entropy, _BLOB_BYTES)]
        keys = (self._keys.shard(member, shard), self._keys.blobs(member, shard))
        return _Place(self._scripts.add, keys, len(arrival.sealed), bodies)

    def _open(self, arrival: Arrivals, place: _Place) -> bytes:
        """Add to a shard that has nothing yet. The bucket is listed first, so that anything that gets into it will be
        closed."""
        client, register = self._client, self._records.register
        call = register(member_of(arrival.bucket), arrival.terms, self._now())
        ((state, revoked, incarnation, closes_at),) = client.run([call])
        if state != b"open":
            return CLOSED_FOR[int(revoked)].encode()
        (answer,) = client.run([place.call(self._now(), incarnation, closes_at)])
        return bytes(answer)

    def close(self, revoked: Collection[int], off: Collection[bytes] = (), *, due: float = -math.inf) -> list[Closed]:
        self._mark.look(self._records.enter_again)
        self._begin_closing(revoked, off, due)
        for member, row in listed(self._client, self._keys, "closing", "incarnation", "closes_at", "revoked"):
            self._finish_closing(member, *row)
        return [
            Closed(bucket_of(member), _terms(row), early=row[4] != b"0")
            for member, row in listed(
                self._client, self._keys, "closed", "name", "size", "closes_at", "minimum", "revoked"
            )
        ]

    def _begin_closing(self, revoked: Collection[int], off: Collection[bytes], due: float) -> None:
        client, open_ = self._client, self._keys.listing("open")
        while due > -math.inf:
            (found,) = client.run([self._scripts.due((open_,), repr(due), 0, _AT_ONCE, "")], write=False)
            if not found or not any(self._begin(found, "0", due)):
                break
        if revoked or off:
            open_now = [(member.encode(), bucket_of(member)) for member, _ in listed(client, self._keys, "open")]
            self._begin([member for member, bucket in open_now if bucket.key in revoked], "1")
            self._begin([member for member, bucket in open_now if bucket.metric in off], "2")

    def _begin(self, members: Sequence[bytes], revoked: str, due: float = -math.inf) -> list[int]:
        keys = self._keys
        calls = [
            self._scripts.begin_close(
                (keys.bucket(member.decode()), keys.listing("open"), keys.listing("closing")),
                repr(due) if due > -math.inf else "",
                member,
                revoked,
            )
            for member in members
        ]
        return self._client.run(calls)

    def _finish_closing(self, member: str, incarnation: bytes, closes_at: bytes, revoked: bytes) -> None:
        """Close every shard. Only then can nothing get in anywhere: the bucket is closed, and may be read."""
        client, keys = self._client, self._keys
        close = self._scripts.close_shard
        shards = client.run(
            [close((keys.shard(member, shard),), incarnation, closes_at, revoked) for shard in range(SHARDS)],
        )
        if min(shards) < 0:
            taken = self._records.take_over(member, incarnation, closes_at, revoked, shards)
            if taken is None:
                return  # closed, settled and opened again while we were away
            shards = taken
        lists = (keys.bucket(member), keys.listing("closing"), keys.listing("closed"))
        client.run(
            [self._scripts.move(lists, member, incarnation, "closing", "closed", "reports", sum(shards))], again=True
        )

    def read(self, bucket: Bucket) -> Iterator[bytes]:
        member, found = member_of(bucket), 0
        incarnation, _ = self._readable(member)
        for shard in range(SHARDS):
            start: bytes | None = bytes(_ID_BYTES)
            while start is not None:
                with self.repair.watching([bucket]):
                    piece, start = self._page(member, incarnation, shard, start)
                found += len(piece)
                if piece:
                    yield piece
        with self.repair.watching([bucket]):
            now, whole = self._readable(member)
            if now == incarnation and found < whole:
                raise _missing()

    def _readable(self, member: str) -> tuple[bytes, int]:
        """The bucket's incarnation, and the number of bytes of all its reports."""
        row = command("HMGET", self._keys.bucket(member), "state", "incarnation", "reports", "size")
        ((state, incarnation, reports, size),) = self._client.run([row], write=False)
        if state not in {b"closed", b"planned"}:
            raise BucketGone("the bucket is not closed, or it was settled or discarded by another worker")
        return bytes(incarnation), int(reports) * int(size)

    def _page(self, member: str, incarnation: bytes, shard: int, start: bytes) -> tuple[bytes, bytes | None]:
        """The reports under the ids from `start` on that fit into one piece, and where the next piece starts."""
        keys = (self._keys.shard(member, shard), self._keys.blobs(member, shard))
        call = self._scripts.page(keys, incarnation, start, PIECE_BYTES, _PAGE)
        (found,) = self._client.run([call], write=False)
        if found is None:
            if self._readable(member)[0] == incarnation:  # still readable: deletion would have changed that first
                raise _missing()
            raise BucketGone("the bucket was settled or discarded by another worker")
        if not found:
            return b"", None
        after = int.from_bytes(found[-1][:_ID_BYTES]) + 1
        piece = b"".join([blob[_ID_BYTES:] for blob in found])
        return piece, after.to_bytes(_ID_BYTES) if after < 2 ** (8 * _ID_BYTES) else None

    def seed(self, bucket: Bucket) -> bytes | None:
        key = self._keys.bucket(member_of(bucket))
        (seed,) = self._client.run([command("HGET", key, "seed")], write=False)
        return None if seed is None else bytes(seed)

    def halved(self, name: str, period: int, reports: int) -> bool:
        # sent again after a lost answer, the call says no although it has counted
        call = self._scripts.halved((self._keys.crowds, self._keys.counts), name, period, reports)
        return bool(self._client.one(call) == 1)

    def held_periods(self) -> bytes:
        return bytes(self._client.one(command("GET", self._keys.held), write=False) or b"")

    def hold_periods(self, before: bytes, after: bytes) -> bool:
        return bool(self._client.one(self._scripts.hold_periods((self._keys.held,), before, after)) == 1)

    def forget(self, past: float = -math.inf) -> bool | None:
        try:  # deletion first: it makes room, and damage must not hold it up
            self._eraser.erase()
            if past > -math.inf:
                self._eraser.forget(past - self._forget_after)
            return self._eraser.rewrite()
        finally:
            if self._batches_missing:
                self.repair.suspect(self._mender.without_batches())
                self._batches_missing = False
            self.repair.salvage()

    def _a_batch_is_missing(self) -> None:
        self._batches_missing = True

    def overview(self) -> Overview:
        return overview(self._client, self._keys)

    def room(self) -> Room | None:
        return room_of(self._client, self._keys, self._quota)

    def check(self) -> None:
        """Check that every server answers and has its place in the cluster, and that one takes a write with its
        replicas."""
        client = self._client
        for node in client.primaries():
            said = client.ask(node, *(("CLUSTER", "INFO") if client.cluster else ("PING",)))
            if client.cluster and b"cluster_state:ok" not in said:
                raise StorageError(f"the Redis cluster is down, says {node[0]}:{node[1]}")
        client.run([command("SET", self._keys.probe, b"")])


class _Place:
    """The shard and blobs of a group commit: the same blobs under the same ids at every attempt."""

    def __init__(self, script: Script, keys: tuple[bytes, bytes], reports: int, bodies: list[bytes]) -> None:
        self._script, self._keys, self._reports, self._bodies = script, keys, reports, bodies

    def call(self, now: Part, incarnation: Part, closes_at: Part) -> Call:
        return self._script(self._keys, now, incarnation, closes_at, self._reports, *self._bodies)


def _missing() -> BucketDamaged:
    return BucketDamaged("REDIS LOST DATA: reports of a closed bucket are missing")


def _terms(row: Sequence[bytes]) -> Terms:
    return Terms(row[0].decode(), int(row[1]), int(row[2]), int(row[3]))
