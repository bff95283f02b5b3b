"""What the shuffler needs of a place to keep reports, and what it must not be able to tell.

A backend holds opaque bytes by bucket. It stores no address, no header and no time of arrival, and no order in
which reports came. Each sentence of `Storage` is held by tests/shuffler/test_storage.py, for every backend.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hubbub.wire import Kind

__all__ = [
    "LONGEST_PAUSE",
    "Arrivals",
    "Batch",
    "Bucket",
    "Claim",
    "Closed",
    "Contents",
    "Count",
    "Overview",
    "Plan",
    "Reason",
    "Storage",
    "StorageError",
    "Terms",
    "Waiting",
]

LONGEST_PAUSE = 3_600.0
"""Most seconds for which a batch is leased or postponed: what is due later than that was set by a wrong clock."""

Reason: TypeAlias = Literal["period-closed", "revoked-key"]
"""Why a bucket takes nothing: the device drops what is late, and seals again what has a revoked key."""


class StorageError(Exception):
    """The storage cannot do what it was asked now: full, locked, unreachable. Nothing was half done."""


class Bucket(NamedTuple):
    """What makes a crowd: reports of one metric, one period and one key wait and leave together."""

    metric: bytes
    period: int
    key: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a bucket from its first report on; none of it depends on when that came."""

    name: str
    """The metric's."""
    size: int
    """Bytes of each sealed report."""
    closes_at: int
    """Unix time from which no report is taken."""
    minimum: int
    """Fewest reports that may leave, as known when the bucket was opened."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Reports for one bucket out of one group commit."""

    bucket: Bucket
    terms: Terms
    sealed: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Closed:
    """A bucket that takes nothing more and is not planned yet."""

    bucket: Bucket
    terms: Terms
    revoked: bool
    """Closed before its time, for its key: nothing of it may leave."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All reports of a closed bucket, duplicates included, in no particular order, and its seed once planned."""

    reports: list[bytes]
    seed: bytes | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a closed bucket: as many batches as there are ids, or with `discard` nothing but a notice."""

    ids: tuple[bytes, ...]
    seed: bytes
    distinct: int
    duplicates: int
    discard: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be forwarded under one id, the same at every attempt."""

    id: bytes
    bucket: Bucket
    terms: Terms
    kind: Kind
    part: int
    parts: int
    sent: bool
    """Whether the aggregator has taken it and owes a verdict."""
    attempts: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch under a lease. The token fences: once the lease went to another, this claim changes nothing."""

    batch: Batch
    token: bytes


class Count(NamedTuple):
    """What happened to reports of a metric, summed up."""

    reports: int
    batches: int


class Waiting(NamedTuple):
    """A bucket whose reports are still here."""

    name: str
    state: str
    reports: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is, for the status page and the tests."""

    waiting: list[Waiting]
    batches: dict[str, int]
    """By state: "planned" (not taken by the aggregator yet) or "sent"."""
    counts: dict[tuple[str, str], Count]
    """By metric name and what happened: "ingested", "duplicate", "discarded", or the aggregator's verdict.

    Reports ingested = duplicate + discarded + all verdicts + waiting."""


class Storage(Protocol):
    """Holds sealed reports by bucket until each bucket is settled, and forgets them then."""

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """Keep all of it durably in one step, except for buckets that are closed or due: why, for each of those.

        Whether a bucket is open is decided by the storage's clock within the same step.
        """
        ...

    async def close(self, revoked: Collection[int]) -> list[Closed]:
        """Close for good what is due or has a revoked key; all buckets that are closed and not planned."""
        ...

    async def read(self, bucket: Bucket) -> Contents:
        """What a closed bucket holds."""
        ...

    async def plan(self, bucket: Bucket, plan: Plan) -> bool:
        """Fix ids, membership and seed in one step; False if someone else did it before."""
        ...

    async def claim(self, lease: float) -> Claim | None:
        """A batch that is due and nobody else's for the next `lease` seconds; None if there is none.

        The one that is due for longest comes first, so none can starve behind others that fail. A clock that was
        ahead for a while and is right again holds up no batch for more than LONGEST_PAUSE.
        """
        ...

    async def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        """Give the batch back, to be tried again after so long; False if the claim was lost."""
        ...

    async def settle(self, claim: Claim, verdict: str) -> bool:
        """The batch is done, under this verdict, and never comes back; False if the claim was lost."""
        ...

    async def forget(self) -> bool:
        """Really delete what is settled or discarded; False if something must be tried again later.

        Also what another process began to delete: True means that no trace is left by any of them.
        """
        ...

    async def overview(self) -> Overview:
        """What there is."""
        ...

    async def check(self) -> None:
        """StorageError unless reports could be taken now."""
        ...

    async def aclose(self) -> None:
        """Let go of everything that is held open."""
        ...
