"""The high-water mark: where ingest stops, so that what was acknowledged can be closed, forwarded and deleted.

The storage says how much may still come (`Storage.room`). It is asked at most once a second, and before that only when
a quarter of what it said has come: so up to four processes on one storage stay below the mark together, and an upload
costs an addition and a comparison. Once stopped, ingest goes on when enough has left, not at the first free byte.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from hubbub_service_common.episodes import Episode

if TYPE_CHECKING:
    from hubbub_shuffler.storage import Arrivals, AsyncStorage, Room

__all__ = ["HighWater"]

_EVERY = 1.0
_SHARE = 4
_PER_BUCKET = 32 * 2**10
"""Bytes that a commit takes beside its reports, for each bucket: pages of SQLite's log, or what Redis has for a key."""
_LOG = logging.getLogger("hubbub_shuffler")


class HighWater:
    """Whether a group commit still fits."""

    def __init__(self, storage: AsyncStorage, clock: Callable[[], float] = monotonic) -> None:
        self._storage, self._clock = storage, clock
        self.room: Room | None = None
        """As it was last seen; None if nothing says how much there is."""
        self.stopped = False
        self._looked = float("-inf")
        self._granted = 0
        self._too_much = 0
        """Bytes of the commit that did not fit: before it would, nothing else is taken either."""
        self._episode = Episode(_LOG, "there is room in the storage again: reports are taken")

    @property
    def is_full(self) -> bool:
        """Stopped, and nothing else is to be expected before the next look."""
        return self.stopped and self._clock() - self._looked < _EVERY

    async def admit(self, arrivals: Sequence[Arrivals]) -> bool:
        """Whether these may be stored. StorageError if that can't be seen."""
        need = sum(2 * arrival.terms.size * len(arrival.sealed) + _PER_BUCKET for arrival in arrivals)
        await self.refresh()
        if self.room is None:
            return True
        if need > self._granted and not self.stopped:
            await self.look()
        if self.stopped:
            return False
        if need > self._granted:
            self._too_much = need
            self._stop()
            return False
        self._granted -= need
        return True

    async def refresh(self) -> None:
        """See how much room there is, unless that was seen a moment ago. StorageError if it can't be seen."""
        if self._clock() - self._looked >= _EVERY:
            await self.look()

    async def look(self) -> None:
        """See how much room there is now."""
        self.room = room = await self._storage.room()
        self._looked = self._clock()
        if room is None:
            self.stopped = False
            self._episode.none()
            return
        self._granted = max(0, room.left) // _SHARE
        if room.left <= 0:
            self._stop()
        elif self.stopped and room.left >= room.again + _SHARE * self._too_much:
            self.stopped, self._too_much = False, 0
            self._episode.none()

    def _stop(self) -> None:
        self.stopped = True
        limit = self.room.limit >> 20 if self.room else 0
        self._episode.fault(
            f"no more reports are taken: the storage is full up to the mark (its limit is {limit} MiB). What is "
            "there is still forwarded and deleted, which makes room. Give it more if this comes again"
        )
