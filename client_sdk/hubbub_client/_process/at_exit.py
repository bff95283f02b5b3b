"""Closing all clients at the end of the process, within one time limit for all of them."""

from __future__ import annotations

import atexit
from functools import cache
from typing import Protocol
from weakref import WeakSet

from hubbub_client._process.clock_and_entropy import monotonic

__all__ = ["SECONDS_AT_EXIT", "close_at_exit"]

SECONDS_AT_EXIT = 2.0


class Closable(Protocol):
    def close(self, timeout: float = ...) -> None: ...


_open: WeakSet[Closable] = WeakSet()


def close_at_exit(client: Closable) -> None:
    """Close a client when the interpreter exits, unless it is gone by then."""
    _register()
    _open.add(client)


@cache  # once, and not at import
def _register() -> None:
    atexit.register(_close_all)


def _close_all() -> None:
    deadline = monotonic() + SECONDS_AT_EXIT
    for client in tuple(_open):
        client.close(max(deadline - monotonic(), 0.0))
