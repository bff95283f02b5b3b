"""Rate limits for uploads, per client network. No address is kept.

Each address has a token bucket, in memory only. The state is two rows of numbers. An address picks one number in each
row by a hash, under a key that is drawn when the process starts and never leaves it. No table can fill up, so nothing
is evicted, and a sender cannot get its own bucket forgotten by flooding a table. Two addresses that pick the same
number share it. An address is held up by others only if both of its numbers are shared, and no sender can choose whom
it shares with.

A number is the time at which its bucket is full again. A time in the past means nothing, so an address that was quiet
for `burst` / `rate` seconds has left no trace at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b
from math import ceil
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from hubbub_service_common.http.client_network import network_of

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["KEY_BYTES", "Limits", "Source", "sender_of"]

KEY_BYTES = 32
_BITS = 16
"""Two rows of 65,536 numbers: one megabyte. With 1,000 addresses over their limit, one other in 4,000 is held up."""
_PICK = Struct("<II")


class Source(NamedTuple):
    """Where an address has its two numbers. Without the key, this says nothing about the address."""

    first: int
    second: int


class Limits:
    """Buckets of `burst` tokens that fill at `rate` per second. `hops`: proxies in front that we trust."""

    def __init__(self, *, rate: float, burst: float, hops: int, key: bytes, clock: Callable[[], float]) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key has {KEY_BYTES} bytes, got {len(key)}")
        self._cost, self._window, self._hops, self._clock = 1 / rate, burst / rate, hops, clock
        self._hash = blake2b(key=key, digest_size=_PICK.size)
        self._first, self._second = array("d", bytes(8 << _BITS)), array("d", bytes(8 << _BITS))

    def source(self, scope: Scope) -> Source | None:
        """Whose bucket a request is charged to; None for loopback, which has no limit."""
        client = scope.get("client")
        sender = sender_of(scope["headers"], self._hops) if self._hops else None
        if sender is None:
            if client is None:
                return None
            sender = client[0]
        network = network_of(sender)
        if network is None:
            return None
        mixed = self._hash.copy()
        mixed.update(network)
        first, second = _PICK.unpack(mixed.digest())
        return Source(first >> (32 - _BITS), second >> (32 - _BITS))

    def take(self, source: Source) -> int:
        """Take one token. Returns 0, or the whole seconds until there will be one."""
        now = self._clock()
        full_at = self._full_at(source)
        wait = full_at - now - self._window + self._cost
        if wait > 0:
            return ceil(wait)
        self._set(source, (full_at if full_at > now else now) + self._cost)
        return 0

    def charge(self, source: Source, tokens: int) -> int:
        """Take these tokens, even if not all are there, unless some are already owed. Returns 0, or whole seconds to
        wait.

        One upload may be larger than what is left, but many at once may not: an address never owes more than one.
        """
        now = self._clock()
        full_at = self._full_at(source)
        owed = full_at - now - self._window
        if owed > 0:
            return ceil(owed + self._cost)
        self._set(source, max(full_at, now) + tokens * self._cost)
        return 0

    def _full_at(self, source: Source) -> float:
        first, second = self._first[source.first], self._second[source.second]
        return first if first < second else second

    def _set(self, source: Source, full_at: float) -> None:
        # never lower: another address that shares a number would get tokens for nothing
        self._first[source.first] = max(self._first[source.first], full_at)
        self._second[source.second] = max(self._second[source.second], full_at)


def sender_of(headers: Iterable[tuple[bytes, bytes]], hops: int) -> str | None:
    """The sender of a request according to the trusted proxies: entry `hops` from the right. Entries further left are
    the sender's own claim.

    None if no proxy added an entry. Fewer entries than proxies: the request came in behind the first proxy, and the
    leftmost entry says from where.
    """
    said = [value for name, value in headers if name == b"x-forwarded-for"]
    if not said:
        return None
    entries = (said[0] if len(said) == 1 else b",".join(said)).rsplit(b",", hops)
    entry = entries[-hops if len(entries) >= hops else 0].strip().decode("latin-1")
    if entry[:1] == "[":
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
