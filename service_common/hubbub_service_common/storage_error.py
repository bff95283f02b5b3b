"""The one error of every storage, of both services and on every backend."""

from __future__ import annotations

__all__ = ["StorageError"]


class StorageError(Exception):
    """The storage can't do what it was asked now: full, locked, unreachable. Asking again later is safe.

    Where a connection broke, it may have been done all the same. The text holds nothing of what was sent.
    """
