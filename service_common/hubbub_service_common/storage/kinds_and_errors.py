"""Kinds and errors of every storage, and the refusal of data that newer software wrote."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["StorageAway", "StorageError", "StorageKind", "StorageStuck", "refuse_newer"]

StorageKind: TypeAlias = Literal["sqlite", "redis"]
"""The backends, as a storage names itself and as a status shows it."""


class StorageError(Exception):
    """The storage can't do this now: it is full, locked or unreachable. Asking again later is safe.

    If a connection broke, the work may have been done all the same. The text repeats nothing of what was sent.
    """


class StorageAway(StorageError):
    """The storage can't be reached or is not ready: it is down, starts, or another server takes over. That passes."""


class StorageStuck(StorageAway):
    """The storage answers, but takes no writes until the operator does something. The text says what."""


def refuse_newer(found: int, known: int, otherwise: str) -> None:
    """StorageError if newer software wrote the storage: this version does not know what its data means.

    `otherwise`: what to do without the newer version.
    """
    if found > known:
        raise StorageError(
            f"it was written by a newer version of this software (layout {found}; this one knows {known} and below). "
            f"Nothing in it was changed. Install the newer version again; or {otherwise}"
        )
