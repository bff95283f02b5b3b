"""Signals that ask a service to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["stopping"]


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the block, SIGTERM and SIGINT call `stop` in the running loop. After it, they end the process at once."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
