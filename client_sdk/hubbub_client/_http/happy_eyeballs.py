"""Happy Eyeballs: a connection to the first of a name's addresses that answers, in the manner of RFC 8305."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from hubbub_client._http.connection import TimeLimit
    from hubbub_client._http.dns import Address

__all__ = ["dial"]

_HEAD_START = 0.25
"""Seconds that an address gets before the next one is tried in parallel."""


def dial(addresses: Sequence[Address], limit: TimeLimit) -> socket.socket:
    """A connection to one of these addresses. Raises OSError if none accepts, TimeoutError if none does in time.

    An address that never answers delays the others by a moment only. One that is merely slow is not given up for the
    others, however many there are.
    """
    rest = iter(_alternating_families(addresses))
    trying: set[socket.socket] = set()
    failure = OSError("the name leads nowhere")
    try:
        with selectors.DefaultSelector() as selector:
            while True:
                address = next(rest, None)
                if address is None and not trying:
                    raise failure
                if address is not None:
                    try:
                        plain = _start_connecting(address)
                    except OSError as error:
                        failure = error
                        continue
                    trying.add(plain)
                    selector.register(plain, selectors.EVENT_WRITE)
                left = limit.left()
                for key, _ in selector.select(left if address is None else min(left, _HEAD_START)):
                    plain = cast("socket.socket", key.fileobj)
                    selector.unregister(plain)
                    trying.remove(plain)
                    code = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        return plain
                    plain.close()
                    failure = OSError(code, os.strerror(code))
    finally:
        for plain in trying:
            plain.close()


def _start_connecting(address: Address) -> socket.socket:
    family, where = address
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.setblocking(False)
        plain.connect(where)
    except BlockingIOError:  # in progress
        pass
    except OSError:
        plain.close()
        raise
    return plain


def _alternating_families(addresses: Sequence[Address]) -> list[Address]:
    """Alternate between the address families, as it is often one whole family that does not work."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    others = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for pair in zip_longest(first, others) for address in pair if address is not None]
