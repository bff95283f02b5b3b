"""Nonces as the storages keep them: 16 bytes each, sorted, end to end."""

from __future__ import annotations

from bisect import bisect_left

from hubbub.wire import NONCE_BYTES

__all__ = ["each", "holds"]


def each(nonces: bytes) -> list[bytes]:
    """The nonces as a list."""
    return [nonces[at : at + NONCE_BYTES] for at in range(0, len(nonces), NONCE_BYTES)]


def holds(nonces: bytes, wanted: bytes) -> bool:
    """Whether the wanted nonce is among them."""
    starts = range(0, len(nonces), NONCE_BYTES)
    at = bisect_left(starts, wanted, key=lambda start: nonces[start : start + NONCE_BYTES]) * NONCE_BYTES
    return nonces[at : at + NONCE_BYTES] == wanted
