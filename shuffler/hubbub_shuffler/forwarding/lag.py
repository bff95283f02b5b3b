"""Forward lag: the age of the oldest bucket that is due or closed and still waits for a verdict.

Held batches have had their verdict and do not count. Other metrics show why they are late, and here they would hide
whether the rest makes progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hubbub_shuffler.storage import LONGEST_PAUSE

if TYPE_CHECKING:
    from hubbub_shuffler.storage import AsyncStorage, Claim, Overview

__all__ = ["Lag"]


class Lag:
    """Observes a batcher at work on its storage, and changes nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[bytes, tuple[int, float]] = {}
        """By id, for batches without a verdict that this process tried to forward: when the bucket closed, and when it
        tried last."""
        self._waiting: list[int] = []
        """When each waiting bucket closes, as last seen. Buckets that can't be closed or read now are included."""

    def now(self) -> float:
        """Seconds; 0 when nothing waits for a verdict."""
        now = self._clock()
        # An open batch comes back within LONGEST_PAUSE. If it does not, another process has it and knows its age.
        self._open = {id_: tried for id_, tried in self._open.items() if now - tried[1] <= LONGEST_PAUSE}
        closed = [*(at for at, _ in self._open.values()), *(at for at in self._waiting if at <= now)]
        return max((now - at for at in closed), default=0.0)

    def waiting(self, overview: Overview) -> None:
        """Take note of the waiting buckets. If there is no batch at all, other processes settled what we had tried."""
        self._waiting = [bucket.closes_at for bucket in overview.waiting if not bucket.held]
        if not any(overview.batches.values()):
            self._open.clear()

    def watch(self, storage: AsyncStorage) -> AsyncStorage:
        """The same storage, observed from here."""
        return cast("AsyncStorage", _Watched(storage, self))

    def claimed(self, claim: Claim) -> None:
        if not claim.batch.held:
            self._open[claim.batch.id] = claim.batch.terms.closes_at, self._clock()

    def settled(self, claim: Claim) -> None:
        self._open.pop(claim.batch.id, None)


class _Watched:
    """Every method of the storage. Calls of three of them are noted."""

    def __init__(self, storage: AsyncStorage, lag: Lag) -> None:
        self._storage, self._lag = storage, lag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def claim(self, lease: float) -> Claim | None:
        claim = await self._storage.claim(lease)
        if claim is not None:
            self._lag.claimed(claim)
        return claim

    async def settle(self, claim: Claim, verdict: str) -> bool:
        settled = await self._storage.settle(claim, verdict)
        self._lag.settled(claim)  # by us, or by the process that has the claim now
        return settled

    async def hold_back(self, claim: Claim, why: str, **named: Any) -> bool:
        held = await self._storage.hold_back(claim, why, **named)
        self._lag.settled(claim)
        return held
