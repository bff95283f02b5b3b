"""Spooled bodies in Redis: one hash of pieces each, so that any process can finish what another one acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from hubbub_aggregator.storage.redis.key_names import Keys
from hubbub_service_common.redis.calls_and_scripts import Call, Script, command, script_text
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.memory import memory_of
from hubbub_service_common.storage.free_space import headroom
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["RedisBodies"]

_UNNAMED, _NAMED = 86_400, 30 * 86_400
"""Seconds until a body expires: one that no batch names, and one that a dead process did not remove."""
_COMING = 3_600
"""Seconds for which an announced body counts if the process that announced it is dead."""


class RedisBodies:
    """The `Bodies` of one storage."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._client, self._keys = client, keys
        self._count_removal, self._announce, self._arrived = (
            Script(script_text(__package__, name)) for name in ("count_removal", "announce", "arrived")
        )

    def announce(self, name: str, size: int) -> None:
        announce = self._announce((self._keys.coming, self._keys.coming_until), name, size, _COMING)
        coming = size + int(self._client.one(announce, write=False))
        # look at the memory afterwards: bytes that arrive in between count twice, and none are missed
        for used, limit in memory_of(self._client):
            if limit and limit - used - coming < headroom(limit, 8) + coming // 2:
                raise StorageError("Redis has too little memory for a batch and the work on it: raise maxmemory")

    def withdraw(self, name: str) -> None:
        with suppress(StorageError):  # Redis is away: it ends by itself
            self._client.one(self._left(name, 0), write=False)

    def _left(self, name: str, size: int) -> Call:
        return self._arrived((self._keys.coming, self._keys.coming_until), name, size)

    def keep(self, name: str, pieces: Iterable[bytes], size: int) -> None:
        key, number = self._keys.body(name), 0
        try:
            for number, piece in enumerate(pieces, 1):
                size = max(0, size - len(piece))
                kept = [command("HSET", key, number, piece), command("EXPIRE", key, _UNNAMED)]
                self._client.run([*kept, self._left(name, size)])
            self._client.run([command("HSET", key, "pieces", number), command("EXPIRE", key, _UNNAMED)])
        except Exception:
            with suppress(StorageError):  # Redis is away: the pieces expire by themselves
                self.remove(name)
            raise

    def hold(self, name: str) -> None:
        self._client.one(command("EXPIRE", self._keys.body(name), _NAMED))

    def read(self, name: str) -> Iterator[bytes] | None:
        key = self._keys.body(name)
        whole = self._client.one(command("HGET", key, "pieces"), write=False)
        return None if whole is None else self._pieces(key, int(whole))

    def _pieces(self, key: bytes, whole: int) -> Iterator[bytes]:
        for number in range(1, whole + 1):
            piece = self._client.one(command("HGET", key, number), write=False)
            if piece is None:
                return  # removed meanwhile; the reader sees that it is short
            yield piece

    def remove(self, name: str) -> None:
        key, noted = self._keys.body(name), self._count_removal((self._keys.marks,))
        if self._client.one(command("EXISTS", key), write=False):
            # Counted before and after: a rewrite in between still has the body, and a crash may skip the second count.
            self._client.one(noted)
            self._client.one(command("UNLINK", key))
            self._client.one(noted)
