"""What every storage of both services has: one error, a kind, and a version that an older software leaves alone."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["StorageAway", "StorageError", "StorageKind", "StorageStuck", "refuse_newer"]

StorageKind: TypeAlias = Literal["sqlite", "redis"]
"""The backends, as a storage says itself and as a status shows it."""


class StorageError(Exception):
    """The storage can't do what it was asked now: full, locked, unreachable. Asking again later is safe.

    Where a connection broke, it may have been done all the same. The text holds nothing of what was sent.
    """


class StorageAway(StorageError):
    """It can't be reached, or is not ready yet: it is down, starts, or another server takes over. That passes."""


class StorageStuck(StorageAway):
    """It answers, and takes no writes until somebody does something about it: the text says what."""


def refuse_newer(found: int, known: int, otherwise: str) -> None:
    """StorageError if a newer software wrote it: what it means there is not known here.

    `otherwise`: what to do without the newer version.
    """
    if found > known:
        raise StorageError(
            f"it was written by a newer version of this software (layout {found}; this one knows {known} and below). "
            f"Nothing in it was changed. Install the newer version again; or {otherwise}"
        )
