"""Lost records of buckets in Redis: reports that are still in their shards get a record again, and go on.

All records are in the control slot. A node of a cluster may lose it while other nodes keep the shards, which go on
taking reports: without a record, these would never be closed. So a process notes in which buckets it put reports. When
the control slot is empty, it registers those again that have reports, and a process that has noted nothing yet
registers a bucket with its first report. Their shards belong to the lost record until the bucket is closed.

A batch whose record was lost is planned again. If the aggregator has counted it, it counts nothing twice.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from threading import Lock

from hubbub_service_common.redis.calls_and_scripts import Call, Part, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.storage.protocol import Terms
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys
from hubbub_shuffler.storage.redis.scripts import Scripts

__all__ = ["LostRecords"]

_LOG = logging.getLogger("hubbub_shuffler")
_MOST = 4_096
"""Buckets that are noted. Of more, the one that was noted first is dropped, and registered again at its next report."""


class LostRecords:
    """Buckets in which this process put reports. Any thread may call."""

    def __init__(self, client: RedisClient, keys: Keys, scripts: Scripts, entropy: Entropy) -> None:
        self._client, self._keys, self._scripts, self._entropy = client, keys, scripts, entropy
        self._lock, self._noted = Lock(), OrderedDict[str, Terms]()

    def register(self, member: str, terms: Terms, now: Part) -> Call:
        """The call that records a bucket if it has no record, unless it is due."""
        keys = (self._keys.bucket(member), self._keys.listing("open"))
        fixed = (terms.name, terms.size, terms.closes_at, terms.minimum)
        return self._scripts.register(keys, now, member, self._entropy(8).hex(), *fixed)

    def note(self, kept: Collection[tuple[str, Terms]]) -> None:
        """Note buckets that have kept reports. Those that are new to this process have a record afterwards."""
        with self._lock:
            new = [(member, terms) for member, terms in kept if member not in self._noted]
        if new:
            self._client.run([self.register(member, terms, 0) for member, terms in new])
            with self._lock:
                self._noted.update(new)
                while len(self._noted) > _MOST:
                    self._noted.popitem(last=False)

    def enter_again(self) -> None:
        """After a loss: register the noted buckets that have reports."""
        with self._lock:
            noted = list(self._noted.items())
        found = []
        for member, terms in noted:
            shards = [command("HMGET", self._keys.shard(member, n), "state", "reports") for n in range(SHARDS)]
            rows = self._client.run(shards, write=False)
            if any(state in {b"open", b"closed"} and int(reports) for state, reports in rows):
                found.append((member, terms))
        self._client.run([self.register(member, terms, 0) for member, terms in found])
        if found:
            _LOG.error("%d buckets are still there whose records were lost: their reports go on", len(found))

    def take_over(
        self, member: str, incarnation: bytes, closes_at: bytes, revoked: bytes, shards: Sequence[int]
    ) -> list[int] | None:
        """Close the shards that belong to another record of a bucket, which are the negative ones. Returns the number
        of reports in each shard; None if the bucket has another record by now, so that nothing may be changed."""
        numbers = [number for number, reports in enumerate(shards) if reports < 0]
        names = [self._keys.shard(member, number) for number in numbers]
        before = self._client.run([command("HGET", name, "incarnation") for name in names], write=False)
        # Afterwards: if the record is still this one, what the shards had before it was older.
        row = command("HMGET", self._keys.bucket(member), "state", "incarnation")
        if self._client.one(row, write=False) != [b"closing", incarnation]:
            return None
        take = self._scripts.take_shard
        found = list(shards)
        calls = [
            take((name,), old or b"", incarnation, closes_at, revoked) for name, old in zip(names, before, strict=True)
        ]
        for number, reports in zip(numbers, self._client.run(calls), strict=True):
            found[number] = reports
        return None if min(found) < 0 else found
