"""The nonces of accepted batches in Redis: one sorted string for each batch, which can be read in parts."""

from __future__ import annotations

from math import isqrt

from hubbub.wire import NONCE_BYTES
from hubbub_aggregator.storage.sorted_nonces import each, holds
from hubbub_service_common.redis.calls_and_scripts import Call, command
from hubbub_service_common.redis.client import RedisClient

__all__ = ["Lengths", "among", "read"]

_WINDOW = 1024
"""Nonces that are read together at the end of a search."""
_KNOWN = 1_024
"""Batches whose lengths are remembered."""
_AT_ONCE = 512
"""Searches that share their rounds of calls."""


def read(client: RedisClient, key: bytes) -> bytes:
    """All nonces of a batch, sorted."""
    return client.one(command("GET", key), write=False) or b""


class Lengths:
    """How many nonces each batch has. That never changes, except to none when they are forgotten."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def of(self, client: RedisClient, key: bytes) -> int:
        found = self._known.get(key)
        if found is None:
            found = client.one(command("STRLEN", key), write=False) // NONCE_BYTES
            if found:
                self._known[key] = found
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        return found


def among(client: RedisClient, key: bytes, nonces: bytes, lengths: Lengths) -> bytes:
    """Those of these sorted nonces that the batch has, found near their likely place, or by bisection."""
    stored, wanted = lengths.of(client, key), each(nonces)
    found = list[bytes]()
    for at in range(0, len(wanted) if stored else 0, _AT_ONCE):
        some = wanted[at : at + _AT_ONCE]
        near = _near(client, key, stored, some)
        missed = [nonce for nonce, part in zip(some, near, strict=True) if not part]
        held = {nonce for nonce, part in zip(some, near, strict=True) if holds(part, nonce)}
        held.update(_search(client, key, stored, missed))
        found += [nonce for nonce in some if nonce in held]
    return b"".join(found)


def _near(client: RedisClient, key: bytes, stored: int, wanted: list[bytes]) -> list[bytes]:
    """What is stored around the place that each nonce would have among evenly spread ones; nothing if it is not there.

    Honest nonces are random: of a million, nine in ten are less than 800 places away from that.
    """
    width = min(stored, max(_WINDOW, 2 * isqrt(stored)))
    guesses = [int.from_bytes(nonce) * stored >> 8 * NONCE_BYTES for nonce in wanted]
    starts = [min(max(0, guess - width // 2), stored - width) for guess in guesses]
    parts = client.run([_range(key, start, width) for start in starts], write=False)
    ends = [(start == 0, start + width == stored) for start in starts]
    return [
        part if (begins or part[:NONCE_BYTES] <= nonce) and (reaches or nonce <= part[-NONCE_BYTES:]) else b""
        for nonce, part, (begins, reaches) in zip(wanted, parts, ends, strict=True)
    ]


def _search(client: RedisClient, key: bytes, stored: int, wanted: list[bytes]) -> list[bytes]:
    """Bisect for all nonces together: they start with the same width, so that one round of calls is a step for all."""
    starts, width = [0] * len(wanted), stored
    while width > _WINDOW:
        width = (width + 1) // 2
        middles = [min(start + width, stored - 1) for start in starts]
        said = client.run([_range(key, middle, 1) for middle in middles], write=False)
        for number, (nonce, middle) in enumerate(zip(wanted, middles, strict=True)):
            if said[number] <= nonce:
                starts[number] = middle
    parts = client.run([_range(key, start, width) for start in starts], write=False)
    return [nonce for nonce, part in zip(wanted, parts, strict=True) if holds(part, nonce)]


def _range(key: bytes, start: int, count: int) -> Call:
    return command("GETRANGE", key, start * NONCE_BYTES, (start + count) * NONCE_BYTES - 1)
