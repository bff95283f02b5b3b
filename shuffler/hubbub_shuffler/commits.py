"""Group commit: what comes while one commit is under way goes into the next, as one.

So many devices pay for one write to disk, and the storage can't tell them apart: one blob per bucket and commit.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from hubbub_service_common.episodes import Episode
from hubbub_service_common.logs import where
from hubbub_shuffler.high_water import HighWater
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Reason, StorageError, Terms

if TYPE_CHECKING:
    from hubbub_shuffler.admission import Admitted

__all__ = ["Commits", "Outcome"]

_LONGEST_WAIT = 0.005
"""Seconds for which a commit waits for more."""
_LOG = logging.getLogger("hubbub_shuffler")


Outcome: TypeAlias = "dict[Bucket, Reason] | Literal['overloaded', 'storage-full']"
"""The buckets that took nothing, and why; or the refusal for all, if nothing at all could be stored."""


class _Shared(asyncio.Future[Outcome]):
    """What a commit came to, awaited by all who are in it; one of them who is cancelled does not cancel the others."""

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002  the signature is asyncio's
        return False


class _Group:
    __slots__ = ("outcome", "reports", "uploads")

    def __init__(self) -> None:
        self.reports: dict[Admitted, list[bytes]] = {}
        self.outcome = _Shared()
        self.uploads = 0

    def resolve(self, outcome: Outcome) -> None:
        """Say what it came to. The first word counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Commits:
    """Collects what is to be kept, and has one commit under way at a time."""

    def __init__(self, storage: AsyncStorage) -> None:
        self._storage = storage
        self.high_water = HighWater(storage)
        self._next: _Group | None = None
        self._task: asyncio.Task[None] | None = None
        self._episode = Episode(_LOG, "reports are stored again")

    def add(self, place: Admitted, sealed: list[bytes]) -> asyncio.Future[Outcome]:
        """Put these into the next commit: they are durable once its outcome is there and does not say otherwise."""
        group = self._next
        if group is None:
            group = self._next = _Group()
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work())
        group.uploads += 1
        reports = group.reports.get(place)
        if reports is None:
            group.reports[place] = sealed
        else:
            reports += sealed
        return group.outcome

    async def _work(self) -> None:
        try:
            while self._next is not None:
                await self._collect(self._next)
                group, self._next = self._next, None
                try:
                    await self._commit(group)
                finally:
                    group.resolve("overloaded")
        finally:
            if self._next is not None:  # cancelled, since the process ends: nobody may wait for it any longer
                self._next.resolve("overloaded")
                self._next = None

    async def _commit(self, group: _Group) -> None:
        """Store it, or tell everyone in it to try again. The log is told once of each outage: a line has a time."""
        arrivals = _merged(group.reports)
        try:
            if not await self.high_water.admit(arrivals):
                group.resolve("storage-full")
                return
            group.resolve(await self._storage.add(arrivals))
        except Exception as error:  # noqa: BLE001  whatever it was, each waiting upload must be told to try again
            what = error if isinstance(error, StorageError) else where(error)
            self._episode.fault(f"reports can't be stored: {what}")
        else:
            self._episode.none()

    async def _collect(self, group: _Group) -> None:
        """Let in what is on its way: as long as each turn of the event loop brings more, up to a limit.

        With one device at a time that is one turn; with many, each commit and what surrounds it is shared by more.
        """
        until, before = monotonic() + _LONGEST_WAIT, -1
        while group.uploads != before and monotonic() < until:
            before = group.uploads
            await asyncio.sleep(0)


def _merged(reports: dict[Admitted, list[bytes]]) -> list[Arrivals]:
    """One entry per bucket: two bundles may have admitted to the same one."""
    if len(reports) == 1:
        return [Arrivals(place.bucket, place.terms, sealed) for place, sealed in reports.items()]
    terms: dict[Bucket, Terms] = {}
    merged: dict[Bucket, list[bytes]] = {}
    for place, sealed in reports.items():
        terms.setdefault(place.bucket, place.terms)
        merged.setdefault(place.bucket, []).extend(sealed)
    return [Arrivals(bucket, terms[bucket], sealed) for bucket, sealed in merged.items()]
