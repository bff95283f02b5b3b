"""Storage probes for status, health and metrics: one question of each kind at a time, with a limit on the wait.

Anyone can ask for the status. Without this, many such requests would queue up in front of uploads, and a readiness
probe of a storage that hangs would hang as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_service_common.process.single_flight import PATIENCE, OneQuestion
from hubbub_service_common.storage.kinds_and_errors import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.ingest.high_water_mark import HighWater
    from hubbub_shuffler.storage import AsyncStorage, Overview

__all__ = ["Asked"]


class Asked:
    """A storage for callers that only look at it. StorageError also when an answer takes too long."""

    def __init__(self, storage: AsyncStorage, patience: float = PATIENCE) -> None:
        self._storage = storage
        self._check: OneQuestion[None] = OneQuestion(patience)
        self._overview: OneQuestion[Overview] = OneQuestion(patience)
        self._room: OneQuestion[None] = OneQuestion(patience)

    async def check(self) -> None:
        """As `Storage.check`."""
        await self._check.answer(self._storage.check)

    async def writable(self) -> bool:
        """Whether `check` finds nothing wrong."""
        try:
            await self.check()
        except StorageError:
            return False
        return True

    async def is_full(self, high_water: HighWater) -> bool:
        """Whether ingest has stopped at the high-water mark."""
        await self._room.answer(high_water.refresh)
        return high_water.stopped

    async def overview(self) -> Overview:
        """As `Storage.overview`."""
        return await self._overview.answer(self._storage.overview)
