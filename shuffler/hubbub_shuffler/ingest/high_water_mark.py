"""The high-water mark: where ingest stops, so that acknowledged reports can still be closed, forwarded and deleted.

The storage says how much room is left (`Storage.room`). It is asked at most once a second, and sooner only when a
quarter of that room has been used. So up to four processes on one storage stay below the mark together, and an upload
costs an addition and a comparison. Once stopped, ingest resumes when enough has left, not at the first free byte.

Where it stops and resumes depends on the storage alone. A commit that does not fit is refused and changes nothing for
others; otherwise one sender could stop ingest by asking for much.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hubbub_service_common.process.clock_and_entropy import monotonic
from hubbub_service_common.process.fault_episodes import Episode

if TYPE_CHECKING:
    from hubbub_shuffler.storage import Arrivals, AsyncStorage, Room

__all__ = ["HighWater"]

_EVERY = 1.0
_FRESH = 0.05
"""Seconds for which the last look also serves uploads that want more than a share: many of them cost little."""
_SHARE = 4
_PER_BUCKET = 32 * 2**10
"""Bytes that a commit takes for each bucket beside its reports: pages of SQLite's log, or Redis's overhead of a key."""
_SMALL = 2 * _PER_BUCKET
"""Bytes that let a small commit in. With less left, there is no point in going on."""
_LARGE = 4 * 2**20
"""Bytes that let in any upload of usual size. With this much left, ingest need not stop."""
_HALVED = 60.0
_LOG = logging.getLogger("hubbub_shuffler")


class HighWater:
    """Whether a group commit still fits."""

    def __init__(self, storage: AsyncStorage, clock: Callable[[], float] = monotonic) -> None:
        self._storage, self._clock = storage, clock
        self.room: Room | None = None
        """The room as last seen; None if the storage has no known limit."""
        self.stopped = False
        self._since = self._looked = float("-inf")
        self._granted = 0
        self._untouched = False
        """Whether nothing has been granted since the last look."""
        self._episode = Episode(_LOG, "there is room in the storage again: reports are taken")

    @property
    def is_full(self) -> bool:
        """Whether ingest is stopped, and the last look is recent enough to refuse an upload without another."""
        return self.stopped and self._clock() - self._looked < _EVERY

    async def admit(self, arrivals: Sequence[Arrivals], *, whole: bool = False) -> bool:
        """Whether these may be stored. StorageError if that can't be told.

        `whole`: they can't be stored in parts, so they may take all that is left instead of a share. `_need` counts
        twice what reports take, so this leaves room for what other processes were granted before.
        """
        need = _need(arrivals)
        await self.refresh()
        if self.room is None:
            return True
        if need > self._granted and not self.stopped and not self._is_fresh(whole=whole):
            await self.look()
        if self.stopped or need > (self.room.left if whole and self._untouched else self._granted):
            return False
        self._granted = max(0, self._granted - need)
        self._untouched = False
        return True

    def is_hopeless(self, arrivals: Sequence[Arrivals]) -> bool:
        """Whether these would hardly fit even into an empty storage. Ask after `admit` refused them."""
        return self.room is not None and _need(arrivals) > self.room.most // 2

    async def refresh(self) -> None:
        """Look how much room there is, unless that was done a moment ago. StorageError if it can't be told."""
        if self._clock() - self._looked >= _EVERY:
            await self.look()

    async def look(self) -> None:
        """Look how much room there is now."""
        self.room = room = await self._storage.room()
        self._looked = self._clock()
        if room is None:
            self._go_on()
            return
        self._granted, self._untouched = max(0, room.left) // _SHARE, True
        least = _least(room)
        if room.left < least or room.left <= 0:
            self._stop(room)
        elif self.stopped and room.left >= max(2 * least, self._again(room)):
            self._go_on()

    def _is_fresh(self, *, whole: bool) -> bool:
        """Whether another look would hardly show anything new."""
        return self._untouched and (not whole or self._clock() - self._looked < _FRESH)

    def _again(self, room: Room) -> int:
        """Bytes that must be left for ingest to resume: half as much after each minute.

        Some data may never leave, such as records of closed buckets. It must not keep ingest stopped.
        """
        return min(room.again, room.most // 4) >> int((self._clock() - self._since) // _HALVED)

    def _go_on(self) -> None:
        self.stopped = False
        self._episode.none()

    def _stop(self, room: Room) -> None:
        if not self.stopped:
            self.stopped, self._since = True, self._clock()
        self._episode.fault(
            f"no more reports are taken: the storage is full up to the mark (its limit is {room.limit >> 20} MiB). "
            "Stored reports are still forwarded and deleted, which makes room. Give it more if this happens again"
        )


def _need(arrivals: Sequence[Arrivals]) -> int:
    """Most bytes that these take, including the storage's log."""
    return sum(2 * arrival.terms.size * len(arrival.sealed) + _PER_BUCKET for arrival in arrivals)


def _least(room: Room) -> int:
    """With fewer bytes than this left, ingest stops. Even the smallest storage has four times as much when empty."""
    return min(max(_SMALL, room.most // 64), _LARGE, room.most // 4)
