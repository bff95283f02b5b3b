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
        self.known = False
        """Whether the storage was asked what is held."""

    async def hold(self, said: Said, now: float, *, before: Said | None = None) -> None:
        """Hold all periods that have begun to this bundle; ChangedPeriod if one is held to other, StorageError if that
        can't be known now.

        `before`: the bundle at hand. If this process held periods to it, what has begun since began under it. `now`:
        a time that is believed; minus infinity if none is: then no period begins, and none that had begun is let go.
        """
        sure = now > -math.inf
        now = now if sure else 0.0
        newest = said.begun(now, self._skew) if sure else -1
        for _ in range(_ATTEMPTS):
            raw = await self._storage.held_periods()
            held = Held.from_bytes(raw)
            if before is not None and self.through >= 0 and sure:
                held = self._caught_up(before, held, now)
            found = said.held(held, newest, now, before)
            after = found.to_bytes()
            if after == raw or await self._storage.hold_periods(raw, after):
                through = newest if sure else max((stretch.last for stretch in found.stretches), default=-1)
                self.through, self.until, self.known = through, said.begins(through + 1, self._skew), True
                return
        raise StorageError("what begun periods are held to changes faster than it can be read")

    def _caught_up(self, before: Said, held: Held, now: float) -> Held:
        # nothing begins under a bundle that has expired
        newest = before.begun(min(now, before.body.expires - 1), self._skew)
        try:
            return before.held(held, newest, now)
        except ChangedPeriod:
            return held  # other processes have gone on from it
