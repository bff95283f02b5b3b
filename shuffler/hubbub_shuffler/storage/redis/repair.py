"""Repair of buckets whose reports Redis has lost: the remaining reports go on, the rest are counted as lost.

Only closed buckets are repaired: in an open one, a missing shard may be one that was not used yet. A shard may have
lost its reports, or the record that it was closed, or both. First the record of every shard is restored, which changes
no number. The step after that is one script in the control slot. Between the two, a bucket is as damaged as before.
"""

from __future__ import annotations

from dataclasses import dataclass

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.storage.protocol import Bucket, Damage
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys, bucket_of, member_of
from hubbub_shuffler.storage.redis.overview import listed
from hubbub_shuffler.storage.redis.scripts import Scripts

__all__ = ["RedisMender"]

_ID_BYTES = 16
_AT_ONCE = 64
"""Blobs in one answer: at most 8 MiB."""


@dataclass(frozen=True, slots=True)
class _Row:
    incarnation: bytes
    state: str
    name: str
    size: int
    reports: int
    closes_at: bytes
    revoked: bytes
    batches: int
    """Batches that are not settled."""
    parts: int
    """Batches that were planned; 0 if nothing is planned, or earlier software planned it."""


class RedisMender:
    """A `Mender` of what is in Redis."""

    def __init__(self, client: RedisClient, keys: Keys, scripts: Scripts) -> None:
        self._client, self._keys, self._scripts = client, keys, scripts

    def find(self) -> list[Damage]:
        members = [member for state in ("closed", "planned") for member, _ in listed(self._client, self._keys, state)]
        return [found for member in members if (found := self.look_at(bucket_of(member)))]

    def look_at(self, bucket: Bucket) -> Damage | None:
        row = self._row(bucket)
        if row is None:
            return None
        lost, unknown = max(0, row.reports - self._there(bucket, row)), self._unknown(bucket, row)
        batches = self._batches(bucket)
        now = self._row(bucket)
        if not lost and not unknown and not self._lacks_batches(row, batches):
            return None
        if now is None or (now.incarnation, now.reports, now.batches) != (row.incarnation, row.reports, row.batches):
            return None  # it was settled or mended meanwhile
        return Damage(bucket, row.name, row.state, row.reports, lost, self._is_on_its_way(row, batches))

    def is_on_its_way(self, bucket: Bucket) -> bool:
        row = self._row(bucket)
        return row is not None and self._is_on_its_way(row, self._batches(bucket))

    def without_batches(self) -> list[Bucket]:
        """Planned buckets of which a batch has lost its record. Their reports are not read."""
        planned = [bucket_of(member) for member, _ in listed(self._client, self._keys, "planned")]
        rows = {bucket: row for bucket in planned if (row := self._row(bucket)) is not None}
        batches = self._all_batches()
        lacking = [bucket for bucket, row in rows.items() if self._lacks_batches(row, batches.get(bucket, {}))]
        return [bucket for bucket in lacking if self._row(bucket) == rows[bucket]]  # not settled in between

    @staticmethod
    def _lacks_batches(row: _Row, batches: dict[bytes, tuple[bool, int]]) -> bool:
        return row.state == "planned" and len(batches) < row.batches

    def remains(self) -> int:
        """None remain: what is unlinked is gone."""
        return 0

    def mend(self, bucket: Bucket) -> Damage | None:
        row = self._row(bucket)
        if row is None:
            return None
        batches, adopted = self._batches(bucket), self._adopt(bucket, row)
        on_its_way = self._is_on_its_way(row, batches)
        if on_its_way and not adopted:
            return Damage(bucket, row.name, row.state, row.reports, 0, on_its_way)
        there = self._there(bucket, row)
        if there >= row.reports and not self._lacks_batches(row, batches):
            return None
        if on_its_way:
            return Damage(bucket, row.name, row.state, row.reports, row.reports - there, on_its_way)
        keys, member, ids = self._keys, member_of(bucket), list(batches)
        lists = (
            keys.bucket(member),
            keys.listing("planned"),
            keys.listing("closed"),
            keys.due,
            keys.counts,
            *(keys.batch(id_) for id_ in ids),
        )
        there = min(there, row.reports)
        call = self._scripts.mend(lists, member, row.incarnation, row.reports, there, *ids)
        if self._client.run([call], again=False) != [1]:
            return None  # another process was faster
        return Damage(bucket, row.name, row.state, row.reports, row.reports - there, on_its_way=False)

    def discard(self, bucket: Bucket) -> int:
        row = self._row(bucket)
        if row is None:
            return 0
        self._adopt(bucket, row)  # only shards that are known to belong to this bucket are deleted with it
        keys, member, ids = self._keys, member_of(bucket), list(self._batches(bucket))
        lists = (
            keys.bucket(member),
            keys.listing("planned"),
            keys.listing("closed"),
            keys.listing("spent"),
            keys.due,
            keys.counts,
            *(keys.batch(id_) for id_ in ids),
        )
        (lost,) = self._client.run([self._scripts.give_up(lists, member, row.incarnation, *ids)], again=False)
        return int(lost)

    def _row(self, bucket: Bucket) -> _Row | None:
        """The bucket's record; None if its reports can't be read."""
        fields = ("state", "incarnation", "name", "size", "reports", "closes_at", "revoked", "batches", "parts")
        (found,) = self._client.run([command("HMGET", self._keys.bucket(member_of(bucket)), *fields)], write=False)
        if found[0] not in {b"closed", b"planned"}:
            return None
        state, incarnation, name, size, reports, closes_at, revoked, batches, parts = found
        return _Row(
            incarnation,
            state.decode(),
            name.decode(),
            int(size),
            int(reports),
            closes_at,
            revoked,
            int(batches),
            int(parts or 0),
        )

    def _batches(self, bucket: Bucket) -> dict[bytes, tuple[bool, int]]:
        """The remaining batches of a bucket, by id: whether each was sent, and how many there were in all."""
        return self._all_batches().get(bucket, {})

    def _all_batches(self) -> dict[Bucket, dict[bytes, tuple[bool, int]]]:
        """The same for every bucket that has any."""
        (ids,) = self._client.run([command("ZRANGE", self._keys.due, 0, -1)], write=False)
        rows = self._client.run(
            [command("HMGET", self._keys.batch(id_), "bucket", "sent", "parts") for id_ in ids], write=False
        )
        found: dict[Bucket, dict[bytes, tuple[bool, int]]] = {}
        for id_, (of, sent, parts) in zip(ids, rows, strict=True):
            if of is not None:  # settled meanwhile, or lost
                found.setdefault(bucket_of(of.decode()), {})[id_] = sent != b"0", int(parts)
        return found

    @staticmethod
    def _is_on_its_way(row: _Row, batches: dict[bytes, tuple[bool, int]]) -> bool:
        left = list(batches.values())
        if row.state != "planned" or (not left and row.parts == 1 == row.batches):
            return False  # the only batch has lost its record: planned again, it has the members that it had
        return not left or any(sent for sent, _ in left) or len(left) < left[0][1]

    def _there(self, bucket: Bucket, row: _Row) -> int:
        return sum(self._inside(bucket, row, shard) for shard in range(SHARDS))

    def _inside(self, bucket: Bucket, row: _Row, shard: int) -> int:
        """Number of reports in a shard, even if the record that it belongs to this bucket is lost."""
        found, start, blobs = 0, b"[", self._keys.blobs(member_of(bucket), shard)
        while True:
            call = command("ZRANGEBYLEX", blobs, start, "+", "LIMIT", 0, _AT_ONCE)
            (members,) = self._client.run([call], write=False)
            found += sum((len(member) - _ID_BYTES) // row.size for member in members)
            if len(members) < _AT_ONCE:
                return found
            start = b"(" + members[-1]

    def _unknown(self, bucket: Bucket, row: _Row) -> list[int]:
        """The shards without a record that they belong to this bucket."""
        shards = [self._keys.shard(member_of(bucket), number) for number in range(SHARDS)]
        known = self._client.run([command("HGET", shard, "incarnation") for shard in shards], write=False)
        return [number for number in range(SHARDS) if known[number] != row.incarnation]

    def _adopt(self, bucket: Bucket, row: _Row) -> bool:
        """Record every shard as a closed one of this bucket. Returns whether a record was missing."""
        member, adopt = member_of(bucket), self._scripts.adopt_shard
        calls = [
            adopt(
                (self._keys.shard(member, number),),
                row.incarnation,
                row.closes_at,
                row.revoked,
                self._inside(bucket, row, number),
            )
            for number in self._unknown(bucket, row)
        ]
        self._client.run(calls)
        return bool(calls)
