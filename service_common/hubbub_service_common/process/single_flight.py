"""A question that many may ask at once: it is put once, and no answer is waited for without end.

Anyone can ask whether a service is ready. Without this, many who ask would queue up in front of others, and a
supervisor who asks whether a storage that hangs is ready would wait as long as it hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from hubbub_service_common.storage.kinds import StorageError

__all__ = ["PATIENCE", "OneQuestion", "TookTooLong"]

T = TypeVar("T")
PATIENCE = 5.0
"""Seconds for an answer."""


class TookTooLong(StorageError):
    """No answer came in time."""


class OneQuestion(Generic[T]):
    """One question of one kind. TookTooLong, which is a StorageError, when the answer does."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._open: asyncio.Task[T] | None = None

    async def answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Callers who ask while an answer is on its way share it. A caller who gives up does not cancel it."""
        asked = self._open
        if asked is None or asked.done():
            asked = self._open = asyncio.create_task(ask())
            asked.add_done_callback(_heard)
        await asyncio.wait({asked}, timeout=self._patience)
        if not asked.done():
            raise TookTooLong("it takes too long to answer")
        return asked.result()


def _heard(asked: asyncio.Task[Any]) -> None:
    """Nobody may be left to hear of a failure; asyncio would log its text then."""
    if not asked.cancelled():
        asked.exception()
