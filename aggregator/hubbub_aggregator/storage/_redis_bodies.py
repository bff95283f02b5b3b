"""Spooled bodies in Redis: one hash of pieces each, so that any process can finish what another acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hubbub_aggregator.storage._redis_keys import Keys
from hubbub_aggregator.storage._redis_link import Link, command

__all__ = ["RedisBodies"]

_UNNAMED, _NAMED = 86_400, 30 * 86_400
"""Seconds until a body is forgotten that no batch names, or that a dead process did not remove."""


class RedisBodies:
    """Holds `Bodies` of one storage."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        key, number = self._keys.body(name), 0
        for number, piece in enumerate(pieces, 1):
            self._link.run([command("HSET", key, number, piece), command("EXPIRE", key, _UNNAMED)])
        self._link.run([command("HSET", key, "pieces", number), command("EXPIRE", key, _UNNAMED)])

    def hold(self, name: str) -> None:
        self._link.one(command("EXPIRE", self._keys.body(name), _NAMED))

    def read(self, name: str) -> Iterator[bytes] | None:
        key = self._keys.body(name)
        whole = self._link.one(command("HGET", key, "pieces"), write=False)
        return None if whole is None else self._pieces(key, int(whole))

    def _pieces(self, key: bytes, whole: int) -> Iterator[bytes]:
        for number in range(1, whole + 1):
            piece = self._link.one(command("HGET", key, number), write=False)
            if piece is None:
                return  # removed meanwhile; the reader sees that it is short
            yield piece

    def remove(self, name: str) -> None:
        self._link.one(command("UNLINK", self._keys.body(name)))
