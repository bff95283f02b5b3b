"""Begun periods are held to one bundle by all processes on a storage: whoever comes first says to which.

Each process has a bundle of its own. Without this, an aggregator could serve them different ones, and split a crowd by
the process that a device happens to reach.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hubbub.problems import ChangedPeriod
from hubbub_shuffler.begun_periods import Held, Said
from hubbub_shuffler.storage import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.storage import AsyncStorage

__all__ = ["HeldPeriods"]

_ATTEMPTS = 100
"""Each that fails is another process that got on."""


class HeldPeriods:
    """The one record of a storage, for the bundle of this process. `skew`: seconds, as in the settings."""

    def __init__(self, storage: AsyncStorage, skew: float) -> None:
        self._storage, self._skew = storage, skew
        self.through, self.until = -1, -math.inf
        """The newest period that is held to the bundle that was given last, and when the next one begins."""

    async def hold(self, said: Said, now: float, *, before: Said | None = None) -> None:
        """Hold all periods that have begun to this bundle; ChangedPeriod if one is held to other, StorageError if that
        can't be known now.

        `before`: the bundle at hand. If this process held periods to it, what has begun since began under it.
        """
        newest = said.begun(now, self._skew)
        for _ in range(_ATTEMPTS):
            raw = await self._storage.held_periods()
            held = Held.from_bytes(raw)
            if before is not None and self.through >= 0:
                held = self._caught_up(before, held, now)
            after = said.held(held, newest, now, before).to_bytes()
            if after == raw or await self._storage.hold_periods(raw, after):
                self.through, self.until = newest, said.begins(newest + 1, self._skew)
                return
        raise StorageError("what begun periods are held to changes faster than it can be read")

    def _caught_up(self, before: Said, held: Held, now: float) -> Held:
        # nothing begins under a bundle that has expired
        newest = before.begun(min(now, before.body.expires - 1), self._skew)
        try:
            return before.held(held, newest, now)
        except ChangedPeriod:
            return held  # other processes have gone on from it
