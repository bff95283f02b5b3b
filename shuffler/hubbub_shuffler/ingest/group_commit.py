"""Group commit: uploads that arrive during one commit go into the next one together.

Many devices share one write to disk, and the storage can't tell them apart: it gets one blob per bucket and commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from hubbub_service_common.process.clock_and_entropy import monotonic
from hubbub_service_common.process.fault_episodes import Episode
from hubbub_service_common.process.logs import where
from hubbub_shuffler.ingest.high_water_mark import HighWater
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, BucketDamaged, Reason, StorageError, Terms

if TYPE_CHECKING:
    from hubbub_shuffler.ingest.admission import Admitted

__all__ = ["Commits", "Outcome"]

_LONGEST_WAIT = 0.005
"""Seconds that a commit waits for more uploads."""
_LOG = logging.getLogger("hubbub_shuffler")


Upload: TypeAlias = "dict[Admitted, list[bytes]]"
Outcome: TypeAlias = "dict[Bucket, Reason] | Literal['overloaded', 'storage-full', 'too-large']"
"""The buckets that took nothing, and why. Or one refusal of the whole upload: nothing of it is certain to be stored."""


class _Shared(asyncio.Future["list[Outcome]"]):
    """The outcomes of a group, awaited by all its uploads. Cancelling one upload does not cancel the others."""

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002  the signature is asyncio's
        return False


class _Group:
    """Uploads that are stored together. `outcomes` has one for each, in the same order."""

    __slots__ = ("outcomes", "uploads")

    def __init__(self) -> None:
        self.uploads: list[Upload] = []
        self.outcomes = _Shared()


class Commits:
    """Collects uploads into groups, and runs one commit at a time."""

    def __init__(self, storage: AsyncStorage) -> None:
        self._storage = storage
        self.high_water = HighWater(storage)
        self._next: _Group | None = None
        self._task: asyncio.Task[None] | None = None
        self._episode = Episode(_LOG, "reports are stored again")

    async def add(self, upload: Upload) -> Outcome:
        """Put an upload into the next commit. It is durable when this returns, unless the outcome says otherwise."""
        group = self._next
        if group is None:
            group = self._next = _Group()
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work())
        index = len(group.uploads)
        group.uploads.append(upload)
        return (await group.outcomes)[index]

    async def _work(self) -> None:
        try:
            while self._next is not None:
                await self._collect(self._next)
                group, self._next = self._next, None
                outcomes: list[Outcome] = ["overloaded"] * len(group.uploads)
                try:
                    await self._commit(group.uploads, outcomes)
                finally:
                    group.outcomes.set_result(outcomes)
        finally:
            if self._next is not None:  # cancelled because the process ends: no upload may be left waiting
                self._next.outcomes.set_result(["overloaded"] * len(self._next.uploads))
                self._next = None

    async def _commit(self, uploads: list[Upload], outcomes: list[Outcome]) -> None:
        """Store the uploads, and fill in the outcome of each. One that is not reached is to be sent again.

        Uploads that do not fit together are tried in halves, so that one large upload does not keep out the others. A
        damaged bucket must not keep them out either: uploads with reports for it are to be sent again, once it is
        repaired. The log says once per outage that reports can't be stored.
        """
        parts: list[Sequence[int]] = [range(len(uploads))]
        damage: BucketDamaged | None = None
        try:
            while parts:
                part = parts.pop()
                try:
                    outcome = await self._store([uploads[index] for index in part])
                except BucketDamaged as error:
                    damage, others = error, [index for index in part if not _has(uploads[index], error.bucket)]
                    if len(others) == len(part):
                        raise
                    parts += [others] if others else []
                    continue
                if outcome is None:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                else:
                    for index in part:
                        outcomes[index] = outcome
            if damage is not None:
                raise damage
        except Exception as error:  # noqa: BLE001  whatever went wrong, every waiting upload must get an answer
            what = error if isinstance(error, StorageError) else where(error)
            self._episode.fault(f"reports can't be stored: {what}")
        else:
            self._episode.none()

    async def _store(self, uploads: list[Upload]) -> Outcome | None:
        """The outcome of these as one commit; None if they don't fit together, but fewer of them might."""
        arrivals, alone = _merged(uploads), len(uploads) == 1
        if await self.high_water.admit(arrivals, whole=alone):
            return await self._storage.add(arrivals)
        if self.high_water.stopped:  # fewer reports at once would not help
            return "storage-full"
        if not alone:
            return None
        # A single report can't be sent in parts: told "too-large", its device would drop it.
        splits = sum(len(arrival.sealed) for arrival in arrivals) > 1
        return "too-large" if splits and self.high_water.is_hopeless(arrivals) else "storage-full"

    async def _collect(self, group: _Group) -> None:
        """Wait for more uploads while each turn of the event loop brings some, up to a limit.

        With one device at a time that is one turn. With many, more of them share the cost of each commit.
        """
        until, before = monotonic() + _LONGEST_WAIT, -1
        while len(group.uploads) != before and monotonic() < until:
            before = len(group.uploads)
            await asyncio.sleep(0)


def _has(upload: Upload, bucket: Bucket | None) -> bool:
    return any(place.bucket == bucket for place in upload)


def _merged(uploads: list[Upload]) -> list[Arrivals]:
    """One entry per bucket: reports may have been admitted to the same bucket under two bundles."""
    if len(uploads) == 1 and len(uploads[0]) == 1:
        return [Arrivals(place.bucket, place.terms, sealed) for place, sealed in uploads[0].items()]
    reports: dict[Admitted, list[bytes]] = {}
    for upload in uploads:
        for place, sealed in upload.items():
            reports.setdefault(place, []).extend(sealed)
    if len(reports) == 1:
        return [Arrivals(place.bucket, place.terms, sealed) for place, sealed in reports.items()]
    terms: dict[Bucket, Terms] = {}
    merged: dict[Bucket, list[bytes]] = {}
    for place, sealed in reports.items():
        terms.setdefault(place.bucket, place.terms)
        merged.setdefault(place.bucket, []).extend(sealed)
    return [Arrivals(bucket, terms[bucket], sealed) for bucket, sealed in merged.items()]
