"""Begun periods in the storage: all processes hold a period to the same bundle, that of the first process.

Each process fetches its own bundle. Without this, an aggregator could serve them different ones, and split a crowd by
the process that a device happens to reach.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hubbub.errors import ChangedPeriod
from hubbub_shuffler.bundle.begun_periods import Held, Said
from hubbub_shuffler.storage import StorageError

if TYPE_CHECKING:
    from hubbub_shuffler.storage import AsyncStorage

__all__ = ["HeldPeriods"]

_ATTEMPTS = 100
"""Attempts to write the record. Each one that fails means that another process wrote it first."""


class HeldPeriods:
    """The one record in a storage, for the bundle of this process. `skew`: seconds, as in the settings."""

    def __init__(self, storage: AsyncStorage, skew: float) -> None:
        self._storage, self._skew = storage, skew
        self.through, self.until = -1, -math.inf
        """The newest period that is held to the bundle given last, and when the next period begins."""
        self.known = False
        """Whether this process has read from the storage what is held."""

    async def hold(
        self,
        said: Said,
        now: float,
        *,
        before: Said | None = None,
        by_both: float = -math.inf,
        present: float = -math.inf,
    ) -> None:
        """Hold all periods that have begun to this bundle. ChangedPeriod if the bundle would change one; StorageError
        if that can't be known now.

        `before`: the current bundle. If this process held periods to it, periods that have begun since began under it.
        `now`: a time that is believed, or minus infinity. Without a believed time, no begun period is let go, and only
        the next period can begin: if it has begun at the time `by_both`, which takes both our clock and the other
        service's. So neither clock can begin a period alone, nor choose which: a clock that is a year ahead would hold
        all periods of that year. `present`: the earlier of the two clocks' times, though ours may have been set.
        Periods past their horizon at that time need not be listed.
        """
        sure = now > -math.inf
        known = [codebook for each in (said, before) if each for codebook in each.body.codebooks]
        over = -math.inf if sure else present - max(codebook.forward_horizon for codebook in known)
        for _ in range(_ATTEMPTS):
            raw = await self._storage.held_periods()
            held = Held.from_bytes(raw)
            newest = said.begun(now, self._skew) if sure else self._next(said, held, by_both)
            if before is not None and self.through >= 0 and newest >= 0:
                held = self._caught_up(before, held, newest, now if sure else by_both, sure=sure)
            found = said.held(held, newest, now if sure else 0.0, before, over)
            after = found.to_bytes()
            if after == raw or await self._storage.hold_periods(raw, after):
                through = newest if sure else max((stretch.last for stretch in found.stretches), default=-1)
                self.through, self.until, self.known = through, said.begins(through + 1, self._skew), True
                return
        raise StorageError("what begun periods are held to changes faster than it can be read")

    def _next(self, said: Said, held: Held, by_both: float) -> int:
        """The period after those that are held, if it has begun at the time `by_both`; -1 if not."""
        following = max((stretch.last for stretch in held.stretches), default=-1) + 1
        return following if following and said.begins(following, self._skew) <= by_both else -1

    def _caught_up(self, before: Said, held: Held, newest: int, now: float, *, sure: bool) -> Held:
        # no period begins under an expired bundle
        newest = min(newest, before.begun(min(now, before.body.expires - 1), self._skew))
        try:
            return before.held(held, newest, now if sure else 0.0)
        except ChangedPeriod:
            return held  # other processes have moved on to another bundle
