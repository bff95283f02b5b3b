"""What the shuffler needs of a place to keep reports, and what it must not be able to tell.

A backend holds opaque bytes by bucket. It stores no address, no header and no time of arrival, and no order in
which reports came. Each sentence of `Storage` is held by tests/shuffler/storage/test_storage.py, for every backend.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hubbub.wire import Kind
from hubbub_service_common.storage.kinds import StorageError, StorageKind
from hubbub_service_common.storage.room import Room

__all__ = [
    "CLOSED_FOR",
    "LONGEST_PAUSE",
    "PIECE_BYTES",
    "Arrivals",
    "Batch",
    "Bucket",
    "BucketDamaged",
    "BucketGone",
    "Claim",
    "Closed",
    "Count",
    "Damage",
    "HeldBatch",
    "NeedsRoom",
    "Overview",
    "Plan",
    "Reason",
    "Repairs",
    "Room",
    "Storage",
    "StorageError",
    "Terms",
    "Waiting",
]

LONGEST_PAUSE = 3_600.0
"""Most seconds for which a batch is leased or postponed: what is due later than that was set by a wrong clock."""

PIECE_BYTES = 2**20
"""Most bytes of reports that a storage hands out, or keeps under one id, at once."""

Reason: TypeAlias = Literal["period-closed", "revoked-key", "metric-disabled"]
"""Why a bucket takes nothing: the device drops what is late or switched off, and seals again under a revoked key."""

CLOSED_FOR: tuple[Reason, ...] = ("period-closed", "revoked-key", "metric-disabled")
"""Why it was closed, by the number that is kept of that: 0 in time; the others before it, so nothing of it leaves."""


class BucketGone(StorageError):
    """The reports of this bucket are not here to be read (any more): another worker settled or discarded them."""


class BucketDamaged(StorageError):
    """Reports of this bucket are not there any more, or can't be read. It holds up no other bucket.

    `bucket`: which one, where several were asked for.
    """

    def __init__(self, text: str, bucket: Bucket | None = None) -> None:
        super().__init__(text)
        self.bucket = bucket


class NeedsRoom(StorageError):
    """The disk has no room to copy what can be read of a damaged bucket. `needed`: bytes of the copy."""

    def __init__(self, text: str, needed: int) -> None:
        super().__init__(text)
        self.needed = needed


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
    early: bool
    """Closed before its time, since its key is revoked or its metric switched off: nothing of it may leave."""


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
    reports: int
    """How many it has, fixed by the plan; none for a notice of a discard."""
    sent: bool
    """Whether the aggregator has taken it and owes a verdict."""
    attempts: int
    held: str = ""
    """Why the aggregator refused it, if this shuffler does not take that for the last word; else empty."""
    until: int = 0
    """If held: the Unix time until which it is offered again, 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch under a lease. The token fences: once the lease went to another, this claim changes nothing."""

    batch: Batch
    token: bytes


class HeldBatch(NamedTuple):
    """A batch that was refused and is kept, for the operator."""

    id: bytes
    name: str
    """The metric's."""
    period: int
    reports: int
    why: str
    since: int
    """Unix time, rounded down to an hour."""
    until: int
    """As in `Batch`."""


class Count(NamedTuple):
    """What happened to reports of a metric, summed up."""

    reports: int
    batches: int


class Waiting(NamedTuple):
    """A bucket whose reports are still here."""

    name: str
    state: str
    reports: int
    closes_at: int
    """Unix time from which no report is taken."""
    held: bool
    """Whether every batch of it that is not settled is held."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is, for the status page and the tests."""

    waiting: list[Waiting]
    batches: dict[str, int]
    """By state: "planned" (not taken by the aggregator yet) or "sent". Not those that are held."""
    held: dict[str, Count]
    """What is held, by why."""
    counts: dict[tuple[str, str], Count]
    """By metric name and what happened: "ingested", "duplicate", "discarded", "damaged", "halved" or the aggregator's
    verdict. Reports ingested = duplicate + discarded + damaged + all verdicts + waiting. Without a metric's name,
    "lost": reports that were acknowledged, and that the storage knows nothing of any more."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one bucket."""

    bucket: Bucket
    name: str
    """The metric's."""
    state: str
    reports: int
    """How many it should have."""
    lost: int
    """How many of those can't be read; 0 where nobody looked."""
    on_its_way: bool
    """The aggregator has some of its batches, or may have: it can't be planned again, only discarded."""
    lacks: int = 0
    """Bytes of room that the disk lacks now, without which it can't be mended."""


class Repairs(Protocol):
    """What can be done about buckets of which reports are missing, or can't be read."""

    def find(self) -> list[Damage]:
        """All that is wrong now, after a look at every report that waits. Nobody has to wait for it."""
        ...

    def mend(self, bucket: Bucket) -> Damage | None:
        """Let what can be read of it go on, and count the rest as "damaged"; what was wrong with it, if anything.

        A planned bucket is planned again. One that is on its way has the same reports as ever or stays as it is, and
        nobody has to wait while it is read. NeedsRoom if it has to wait for room.
        """
        ...

    def discard(self, bucket: Bucket) -> int:
        """Give it up, and count it as "damaged"; how many reports that were."""
        ...

    def remains(self) -> int:
        """How many places have parts of reports that nobody can delete."""
        ...


class Storage(Protocol):
    """Holds sealed reports by bucket until each bucket is settled, and forgets them then.

    Every method blocks until it is done, and several threads may call at once. `AsyncStorage` has the same methods
    beside the event loop.
    """

    kind: StorageKind
    """Which backend it is."""

    @property
    def repair(self) -> Repairs:
        """For an operator. By itself, `forget` mends what could not be read twice, some time apart."""
        ...

    @property
    def durable(self) -> bool:
        """Whether what it acknowledges survives a crash, as far as `inspect` or the opening could see last."""
        ...

    def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """Keep all of it durably, except for buckets that are closed or due: why, for each of those.

        Whether a bucket is due is decided by the clock of this process, whether it is closed in the one step that
        keeps what is for it. After a StorageError some of it may be kept: if the same bytes are sent again, they
        count once. BucketDamaged says which bucket is at fault: without that one, the others can be kept.
        """
        ...

    def close(self, revoked: Collection[int], off: Collection[bytes] = (), *, due: float = -math.inf) -> list[Closed]:
        """Close for good what is due, has a revoked key or is of a metric that is off; all that is closed, not planned.

        `revoked`: ids of keys; `off`: ids of metrics; `due`: the time that it is for sure. No clock is read.
        """
        ...

    def read(self, bucket: Bucket) -> Iterator[bytes]:
        """All reports of a closed or planned bucket, duplicates included, in pieces and in no particular order.

        A piece is a whole number of reports, `terms.size` bytes each, and at most PIECE_BYTES long unless one report
        is longer; memory stays bounded however large the bucket is. A bucket never changes once it is closed: every
        iteration that comes to its end gave the same reports. BucketGone if it can't come to its end, or if the
        bucket is neither closed nor planned.
        """
        ...

    def seed(self, bucket: Bucket) -> bytes | None:
        """The seed of a planned bucket; None for any other."""
        ...

    def plan(self, bucket: Bucket, plan: Plan) -> bool:
        """Fix ids, membership and seed in one step; False if someone else did it before."""
        ...

    def halved(self, name: str, period: int, reports: int) -> bool:
        """Note how many reports a closed period had; whether that is below half of the last one's, which it replaces.

        Counted as "halved" for this metric. A period that is not later than the last one changes nothing.
        """
        ...

    def held_periods(self) -> bytes:
        """What `hold_periods` kept last; nothing if there is none."""
        ...

    def hold_periods(self, before: bytes, after: bytes) -> bool:
        """Keep this instead of `before`, durably and in one step; False if neither of them is what is kept."""
        ...

    def claim(self, lease: float) -> Claim | None:
        """A batch that is due and nobody else's for the next `lease` seconds; None if there is none.

        The one that is due for longest comes first, so none can starve behind others that fail. A clock that was
        ahead for a while and is right again holds up no batch for more than LONGEST_PAUSE.
        """
        ...

    def extend(self, claim: Claim, lease: float) -> bool:
        """Hold the batch for `lease` seconds from now, for an attempt that takes long; False if the claim was lost."""
        ...

    def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        """Give the batch back, to be tried again after `seconds`; False if the claim was lost."""
        ...

    def settle(self, claim: Claim, verdict: str) -> bool:
        """The batch is done, under this verdict, and never comes back; False if the claim was lost."""
        ...

    def hold_back(self, claim: Claim, why: str, *, since: int, until: int, seconds: float) -> bool:
        """Give a refused batch back, to be offered again after `seconds`; False if the claim was lost.

        `why`: the reason of the refusal; `since`: now, kept if it was held before; `until`: see `Batch`.
        """
        ...

    def held_batches(self) -> list[HeldBatch]:
        """All that are held, the oldest period first."""
        ...

    def offer(self, ids: Collection[bytes] | None = None) -> int:
        """Make held batches due now, these or all, except those that are being offered; how many."""
        ...

    def claim_held(self, id: bytes, lease: float) -> Claim | None:  # noqa: A002  it is an id
        """A held batch, due or not; None if there is none of this id, or it is being offered."""
        ...

    def forget(self, past: float = -math.inf) -> bool | None:
        """Really delete what is settled or discarded; False if something must be tried again later.

        That a bucket was closed is forgotten `forget_after` seconds after it. `past`: a time that is past for sure.
        Also what another process began to delete: True means that no trace is left by any of them. None: it goes on
        beside us, so ask again in a moment.
        """
        ...

    def overview(self) -> Overview:
        """What there is."""
        ...

    def inspect(self) -> None:
        """Check again whether it is `durable`, and log what changed. StorageError if that can't be checked."""
        ...

    def room(self) -> Room | None:
        """How full it is; None if nothing says how much it may hold. What is behind the mark is for all but `add`."""
        ...

    def check(self) -> None:
        """StorageError unless it can be written now."""
        ...

    def disconnect(self) -> None:
        """Let go of everything that is held open. Nothing may be asked any more."""
        ...
