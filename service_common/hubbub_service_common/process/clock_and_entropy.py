"""Clock and entropy of the services: their only access to the system's time and random bytes.

No setting and no environment variable replaces anything here. What decides about privacy, such as the seed of a batch's
order, gets its entropy as a constructor argument. A service passes `entropy`, the operating system's generator; only a
test passes another.
"""

from __future__ import annotations

import os
import secrets
import time

__all__ = ["below", "entropy", "monotonic", "sleep", "token", "wall"]


def wall() -> float:
    """Unix time by this machine's clock, which may be wrong: see `hubbub_service_common.clock.trusted_clock`."""
    return time.time()


def monotonic() -> float:
    """Seconds that have passed since some moment. It never runs backwards."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait, and block this thread."""
    time.sleep(seconds)


def entropy(size: int) -> bytes:
    """Bytes from the operating system's generator."""
    return os.urandom(size)


def below(bound: int) -> int:
    """A uniform integer from 0 to `bound` - 1, from the operating system's generator."""
    return secrets.randbelow(bound)


def token(size: int) -> str:
    """`size` bytes from the operating system's generator, in hexadecimal."""
    return entropy(size).hex()
