"""What outsiders ask the storage: one question of a kind at a time, and no answer is waited for without end.

Anyone can ask for the status. Without this, many who ask would queue up in front of the uploads, and a supervisor who
asks whether a storage that hangs is ready would wait as long as it hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hubbub_shuffler.storage import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.storage import AsyncStorage, Overview

__all__ = ["Asked"]

T = TypeVar("T")
_PATIENCE = 5.0
"""Seconds for an answer."""


class Asked:
    """A storage for those who only look at it. StorageError also when it takes too long."""

    def __init__(self, storage: AsyncStorage, patience: float = _PATIENCE) -> None:
        self._storage = storage
        self._check: _Question[None] = _Question(patience)
        self._overview: _Question[Overview] = _Question(patience)

    async def check(self) -> None:
        """As the storage's."""
        await self._check.answer(self._storage.check)

    async def overview(self) -> Overview:
        """As the storage's."""
        return await self._overview.answer(self._storage.overview)


class _Question(Generic[T]):
    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._open: asyncio.Task[T] | None = None

    async def answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the first one hears who asks is for all who ask meanwhile; whoever gives up cancels nothing."""
        asked = self._open
        if asked is None or asked.done():
            asked = self._open = asyncio.create_task(ask())
            asked.add_done_callback(_heard)
        await asyncio.wait({asked}, timeout=self._patience)
        if not asked.done():
            raise StorageError("it takes too long to answer")
        return asked.result()


def _heard(asked: asyncio.Task[Any]) -> None:
    """Nobody may be left to hear of a failure; asyncio would log its text then."""
    if not asked.cancelled():
        asked.exception()
