"""What outsiders ask the storage: one question of a kind at a time, and no answer is waited for without end.

Anyone can ask for the status. Without this, many who ask would queue up in front of the uploads, and a supervisor who
asks whether a storage that hangs is ready would wait as long as it hangs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_service_common.process.single_flight import PATIENCE, OneQuestion
from hubbub_service_common.storage.kinds import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.ingest.high_water_mark import HighWater
    from hubbub_shuffler.storage import AsyncStorage, Overview

__all__ = ["Asked"]


class Asked:
    """A storage for those who only look at it. StorageError also when it takes too long."""

    def __init__(self, storage: AsyncStorage, patience: float = PATIENCE) -> None:
        self._storage = storage
        self._check: OneQuestion[None] = OneQuestion(patience)
        self._overview: OneQuestion[Overview] = OneQuestion(patience)
        self._room: OneQuestion[None] = OneQuestion(patience)

    async def check(self) -> None:
        """As the storage's."""
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
        """As the storage's."""
        return await self._overview.answer(self._storage.overview)
