"""Name lookups with a time limit, which the system's own lookup does not offer.

A lookup runs in a daemon thread, and the caller waits for it only until the limit. A second caller joins a lookup that
is still running instead of starting another: a resolver that hangs costs one thread per name, however often a device
tries.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, TypeAlias

__all__ = ["Address", "Lookup", "addresses_of"]

Address: TypeAlias = tuple[socket.AddressFamily, Any]
"""Family, and what `socket.connect` takes for it."""

Lookup: TypeAlias = Callable[[str, int], list[Address]]
"""A lookup that may take as long as the system allows. Raises OSError."""


class _Pending:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.found: list[Address] = []
        self.error = ""


_Key: TypeAlias = tuple[int, Lookup, str, int]
# By process, as the thread that would finish a lookup does not exist in a forked child. Single operations on a dict
# need no lock, so a fork cannot leave one locked either.
_pending: dict[_Key, _Pending] = {}
_last_known: dict[_Key, list[Address]] = {}


def system_lookup(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(family, address) for family, _, _, _, address in found]


def addresses_of(host: str, port: int, within: float, lookup: Lookup = system_lookup) -> list[Address]:
    """The addresses of this name, the best first. Raises OSError if there are none, TimeoutError if the lookup takes
    too long.

    While the interpreter exits, no thread can be started: then the addresses that were found last time are used.
    """
    with suppress(ValueError):
        ip_address(host)
        return system_lookup(host, port)  # an IP address, which needs no lookup
    key = (os.getpid(), lookup, host, port)
    mine = _Pending()
    pending = _pending.setdefault(key, mine)
    if pending is mine and not _start(key, mine):
        _pending.pop(key, None)
        if key not in _last_known:
            raise OSError("no thread can be started to look up a name")
        return _last_known[key]
    if not pending.done.wait(within):
        raise TimeoutError("looking up the name took too long")
    if pending.error:
        raise OSError(pending.error)
    return pending.found


def _start(key: _Key, pending: _Pending) -> bool:
    if sys.is_finalizing():
        return False
    try:
        threading.Thread(target=_run, args=(key, pending), name="hubbub-lookup", daemon=True).start()
    except RuntimeError:
        return False
    return True


def _run(key: _Key, pending: _Pending) -> None:
    _, lookup, host, port = key
    try:
        pending.found = lookup(host, port)
        if not pending.found:
            pending.error = "the name leads nowhere"
    except Exception as error:  # noqa: BLE001  for the callers that wait; the next one may ask again
        pending.error = f"{type(error).__name__} while looking up the name: {error}"
    else:
        _last_known[key] = pending.found
    _pending.pop(key, None)
    pending.done.set()
