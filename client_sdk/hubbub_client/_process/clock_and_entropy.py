"""Clock and entropy of the SDK: its only access to the system's time and random bytes, besides `hubbub.randomness`.

No setting, argument or environment variable replaces anything here. A test passes its own `clock`, `pace`, `rng` and
`coins` to a client.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

__all__ = ["is_system_clock", "monotonic", "sleep", "token", "wall"]


def wall() -> float:
    """Unix time by the system's clock, which may be set to anything."""
    return time.time()


def is_system_clock(clock: Callable[[], float]) -> bool:
    """Whether a client goes by the system's clock."""
    return clock is wall or clock is time.time


def monotonic() -> float:
    """Seconds that have passed since some moment. It never runs backwards."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait, and block this thread."""
    time.sleep(seconds)


def token(size: int) -> str:
    """A random name of `size` bytes, in hexadecimal. It decides nothing that anyone could see."""
    return secrets.token_hex(size)
