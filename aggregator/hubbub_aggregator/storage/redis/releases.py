"""Releases in Redis: lists by period and id in one slot, counts as immutable blobs beside the pair they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub_aggregator.storage.protocol import Release
from hubbub_aggregator.storage.redis.batches import RedisBatches, lua
from hubbub_aggregator.storage.redis.key_names import Keys, Member
from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient

__all__ = ["RedisReleases"]

_AT_ONCE = 256
"""Blobs in one round of calls."""
_LAST = 2**32 - 1


class RedisReleases(RedisBatches):
    """The part of the storage that is about releases."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        super().__init__(client, keys)
        self._lua["expire"] = lua("expire")

    def releases(self, metric: bytes | None = None, first: int = 0, last: int | None = None) -> list[Release]:
        return self._read(self._members(metric, first, _LAST if last is None else last))

    def spans(self) -> dict[bytes, tuple[int, int, int]]:
        periods: dict[bytes, set[int]] = {}
        for member in self._members(None, 0, _LAST):
            periods.setdefault(member.metric, set()).add(member.period)
        return {metric: (len(found), min(found), max(found)) for metric, found in periods.items()}

    def page(self, metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Release]:
        self.pending()  # lists the batches that have a verdict and are not listed yet
        start = b"-" if after is None else b"(" + Member(*after, b"\xff" * 16, b"\xff" * 16).encode()
        key = self._keys.releases if metric is None else self._keys.releases_of(metric)
        raw = self._client.one(command("ZRANGEBYLEX", key, start, "+", "LIMIT", 0, limit), write=False)
        return self._read([Member.decode(one) for one in raw])

    def release(self, id: bytes) -> Release | None:  # noqa: A002  it is an id
        batch = self.batch(id)
        if batch is None or batch.state != "accepted" or batch.header.kind != "batch":
            return None
        period, metric = batch.header.period, batch.header.metric
        found = [member for member in self._members(metric, period, period) if member.id == id]
        return next(iter(self._read(found)), None)

    def expire(self, before: int) -> int:
        keys, deleted = self._keys, 0
        for member in self._members(None, 0, before - 1):
            lists = (keys.releases, keys.releases_of(member.metric), keys.doomed, keys.marks)
            deleted += self._client.one(self._lua["expire"](lists, member.encode()))
        self._delete_doomed()
        return deleted

    def expired(self) -> list[Release]:
        self._delete_doomed()  # a crash may have left releases that are on no list
        return self._records(self._keys.expired)

    def opened_and_refused(self) -> list[Release]:
        self.pending()  # as above
        return self._records(self._keys.opened_and_refused)

    def _records(self, key: bytes) -> list[Release]:
        flat = self._client.one(command("HGETALL", key), write=False)
        found = [(Member.decode(raw), record.decode()) for raw, record in zip(flat[::2], flat[1::2], strict=True)]
        return [Release(one.id, one.metric, one.period, b"", record) for one, record in sorted(found)]

    def discarded(self, metric: bytes, first: int, last: int) -> dict[int, str | None]:
        self.pending()  # as above
        call = command("ZRANGEBYSCORE", self._keys.discards_of(metric), first, last)
        periods = self._client.one(call, write=False)
        if not periods:
            return {}
        reasons = self._client.one(command("HMGET", self._keys.discard_reasons_of(metric), *periods), write=False)
        found = zip(periods, reasons, strict=True)
        return {int(period): None if reason is None else reason.decode() for period, reason in found}

    def _delete_doomed(self) -> None:
        for raw in self._client.one(command("ZRANGE", self._keys.doomed, 0, -1), write=False):
            member = Member.decode(raw)
            names = self._keys.pair(member.metric, member.period)
            for release in self._read([member]):  # none if this was done before a crash
                self._client.one(self._lua["put"]((self._keys.expired,), raw, release.record))
            self._client.one(command("UNLINK", names.counts(member.token), names.nonces(member.token)))
            self._client.one(command("ZREM", self._keys.doomed, raw))

    def _members(self, metric: bytes | None, first: int, last: int) -> list[Member]:
        """The releases that are listed for the periods first to last; there may be none."""
        self.pending()  # as above
        if first > last:
            return []
        key = self._keys.releases if metric is None else self._keys.releases_of(metric)
        end = b"+" if last >= _LAST else b"(" + (last + 1).to_bytes(4)
        raw = self._client.one(command("ZRANGEBYLEX", key, b"[" + first.to_bytes(4), end), write=False)
        return [Member.decode(one) for one in raw]

    def _read(self, members: Sequence[Member]) -> list[Release]:
        found: list[Release] = []
        for at in range(0, len(members), _AT_ONCE):
            part = members[at : at + _AT_ONCE]
            calls = [command("GET", self._keys.pair(one.metric, one.period).counts(one.token)) for one in part]
            for member, blob in zip(part, self._client.run(calls, write=False), strict=True):
                if blob is not None:  # None: it was deleted a moment ago
                    record, tally = blob[4 : 4 + int.from_bytes(blob[:4])], blob[4 + int.from_bytes(blob[:4]) :]
                    found.append(Release(member.id, member.metric, member.period, tally, record.decode()))
        return found
