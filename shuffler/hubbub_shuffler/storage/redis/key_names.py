"""Key names of the Redis backend, and the slot of a cluster that each key is in.

    hubbub-shuffler:{control}:...              buckets, batches, leases, sums: one slot, so that each step is one script
    hubbub-shuffler:{<bucket>:<shard>}:shard   whether this shard of a bucket is open, and how many reports it has
    hubbub-shuffler:{<bucket>:<shard>}:blobs   its reports: one blob per group commit, after a random id

`<bucket>` is metric:period:key. The shards of a bucket are in different slots, so that a busy bucket does not load one
node alone. Each shard is closed by itself.
"""

from __future__ import annotations

from hubbub_shuffler.storage.protocol import Bucket

__all__ = ["SHARDS", "Keys", "bucket_of", "member_of"]

SHARDS = 8
"""Part of the layout: all processes on one Redis must agree on it."""
_STATES = ("open", "closing", "closed", "planned", "spent", "erased", "gone")


class Keys:
    """Every name begins with the same prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.due, self.counts = self.control("due"), self.control("counts")
        self.place, self.probe = self.control("tidying"), self.control("probe")
        self.crowds, self.held = self.control("crowds"), self.control("held")
        self.mark = self.control("mark")
        self.signs = (self.mark, self.due, self.counts, *(self.listing(state) for state in _STATES))
        """All in one slot. Once something was stored, at least one of them exists. The mark comes first."""

    def control(self, name: str) -> bytes:
        return f"{self._prefix}:{{control}}:{name}".encode()

    def listing(self, state: str) -> bytes:
        """The buckets in this state, by the time at which they close."""
        return self.control(f"buckets:{state}")

    def bucket(self, member: str) -> bytes:
        return self.control(f"bucket:{member}")

    def batch(self, id_: bytes) -> bytes:
        return self.control(f"batch:{id_.hex()}")

    def shard(self, member: str, number: int) -> bytes:
        return f"{self._prefix}:{{{member}:{number}}}:shard".encode()

    def blobs(self, member: str, number: int) -> bytes:
        return f"{self._prefix}:{{{member}:{number}}}:blobs".encode()


def member_of(bucket: Bucket) -> str:
    """A bucket's name in keys and listings."""
    return f"{bucket.metric.hex()}:{bucket.period}:{bucket.key}"


def bucket_of(member: str) -> Bucket:
    metric, period, key = member.split(":")
    return Bucket(bytes.fromhex(metric), int(period), int(key))
