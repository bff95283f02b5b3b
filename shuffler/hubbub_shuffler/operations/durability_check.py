"""Periodic checks, once a minute, of what can change under a running service."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from hubbub_shuffler.storage import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.storage import AsyncStorage

__all__ = ["watch"]

_EVERY = 60.0
_LOG = logging.getLogger("hubbub_shuffler")


async def watch(storage: AsyncStorage, every: float = _EVERY) -> None:
    """Check whether the storage still keeps what it acknowledges, until cancelled."""
    with suppress(StorageError):
        if await storage.room() is None:
            _LOG.warning("the storage has no known limit: set maxmemory of the Redis, or HUBBUB_SHUFFLER_STORAGE_QUOTA")
    while True:
        await asyncio.sleep(every)
        with suppress(StorageError):  # a storage that does not answer shows elsewhere; its settings stay unknown
            await storage.inspect()
