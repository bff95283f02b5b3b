"""Single flight: a question that many may ask at once is asked once, with a limit on the wait.

Anyone can ask whether a service is ready. Without this, many such requests would queue up in front of others, and a
readiness probe of a storage that hangs would hang as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["PATIENCE", "OneQuestion", "TookTooLong"]

T = TypeVar("T")
PATIENCE = 5.0
"""Seconds for an answer."""


class TookTooLong(StorageError):
    """The answer did not come in time."""


class OneQuestion(Generic[T]):
    """One question of one kind. TookTooLong, a StorageError, if the answer takes too long; None waits for ever."""

    def __init__(self, patience: float | None = PATIENCE) -> None:
        self._patience = patience
        self._open: asyncio.Task[T] | None = None

    async def answer(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Concurrent callers share one answer. A caller that gives up cancels nothing."""
        asked = self._open
        if asked is None or asked.done():
            asked = self._open = asyncio.create_task(ask())
            asked.add_done_callback(_heard)
        await asyncio.wait({asked}, timeout=self._patience)
        if not asked.done():
            raise TookTooLong("it takes too long to answer")
        return asked.result()


def _heard(asked: asyncio.Task[Any]) -> None:
    """Retrieve a failure: if all callers are gone, asyncio would log its text."""
    if not asked.cancelled():
        asked.exception()
