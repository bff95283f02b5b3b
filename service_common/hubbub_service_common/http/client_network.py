"""Client networks: what counts as one address where addresses are limited."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_pton

__all__ = ["network_of"]

_MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv6 address that stands for an IPv4 address."""
_LOOPBACK6 = bytes(15) + b"\x01"
_NOWHERE = b"?"


def network_of(host: str) -> bytes | None:
    """An IPv4 address or an IPv6 /64; None for loopback.

    Everything that is not an address counts as one network, so that a strange proxy can't be used to evade the limit.
    """
    try:
        packed = inet_pton(AF_INET6, host.partition("%")[0]) if ":" in host else inet_pton(AF_INET, host)
    except (OSError, ValueError):
        return _NOWHERE
    if packed.startswith(_MAPPED):
        packed = packed[len(_MAPPED) :]
    if len(packed) == 4:
        return None if packed[0] == 127 else packed
    return None if packed == _LOOPBACK6 else packed[:8]
