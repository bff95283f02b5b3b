"""Real deletion in Redis: reports are unlinked in memory, and gone from the files once those are rewritten.

Every server that had reports of a bucket, and each of its replicas, must rewrite its append-only file after the
deletion, and its snapshot too if snapshots are on. Buckets wait for that in the state `erased`, which survives this
process. One process at a time asks for rewrites.
"""

from __future__ import annotations

import logging

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.erase_from_disk import FileRewrites
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys
from hubbub_shuffler.storage.redis.scripts import Scripts

__all__ = ["Eraser"]

_AT_ONCE = 64
_LOG = logging.getLogger("hubbub_shuffler")


class Eraser:
    """Deletes spent buckets, and makes sure that no file still has their reports."""

    def __init__(self, client: RedisClient, keys: Keys, scripts: Scripts, token: str, lease: float) -> None:
        self._client, self._keys, self._scripts = client, keys, scripts
        self._token, self._lease = token, lease
        self._waiting: list[tuple[bytes, bytes]] = []
        """Buckets that are gone once the current rewrites have ended."""
        self._rewrites = FileRewrites(client, _LOG, "deleted reports")

    def erase(self) -> None:
        """Unlink the reports of every spent bucket."""
        while spent := self._listed("spent"):
            for member, incarnation in spent:
                self._erase_shards(member, incarnation, known=True)
                self._move(member, incarnation, "spent", "erased")

    def rewrite(self) -> bool | None:
        """True if no trace is left anywhere, False if that can't be achieved now, None while rewrites are going on."""
        if not self._waiting:
            self._waiting = self._listed("erased")
            self._rewrites.abandon()  # the current round began before these were deleted
        if not self._waiting:
            return True
        if not self._our_turn():
            self._waiting = []
            return False
        ended = self._rewrites.step()
        if ended:
            for member, incarnation in self._waiting:
                self._move(member, incarnation, "erased", "gone")
        if ended is not None:
            self._waiting = []
        return None if ended else ended  # None after the end too, to look again: more may have been deleted meanwhile

    def forget(self, before: float) -> None:
        """Forget even the names of buckets that are gone, if their closing time is before this time."""
        keys, gone, skip = self._keys, self._keys.listing("gone"), 0
        while True:
            call = self._scripts.due((gone,), repr(before), skip, _AT_ONCE, "")
            (members,) = self._client.run([call], write=False)
            if not members:
                return
            for member in members:
                bucket = keys.bucket(member.decode())
                row = command("HMGET", bucket, "incarnation", "batches")
                ((incarnation, batches),) = self._client.run([row], write=False)
                if batches == b"0":
                    self._erase_shards(member, incarnation, known=False)
                    self._client.run([self._scripts.forget((bucket, gone), member)])
                else:
                    skip += 1  # a notice of the discard is still to be sent

    def _erase_shards(self, member: bytes, incarnation: bytes, *, known: bool) -> None:
        """Delete the reports of a bucket. `known`: keep the record that it was closed, until it is forgotten."""
        name, keys, erase = member.decode(), self._keys, self._scripts.erase_shard
        shards = [(keys.shard(name, number), keys.blobs(name, number)) for number in range(SHARDS)]
        self._client.run([erase(shard, incarnation, int(known)) for shard in shards])

    def _our_turn(self) -> bool:
        call = self._scripts.tidy((self._keys.place,), self._token, int(self._lease * 1_000))
        return self._client.run([call]) == [1]

    def _listed(self, state: str) -> list[tuple[bytes, bytes]]:
        listing, bucket = self._keys.listing(state), self._keys.bucket
        (members,) = self._client.run([command("ZRANGE", listing, 0, _AT_ONCE - 1)], write=False)
        calls = [command("HGET", bucket(member.decode()), "incarnation") for member in members]
        found = zip(members, self._client.run(calls, write=False), strict=True)
        return [(member, incarnation) for member, incarnation in found if incarnation is not None]

    def _move(self, member: bytes, incarnation: bytes, before: str, after: str) -> None:
        keys = (self._keys.bucket(member.decode()), self._keys.listing(before), self._keys.listing(after))
        self._client.run([self._scripts.move(keys, member, incarnation, before, after)])
