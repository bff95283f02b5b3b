"""The Protocol of a storage for waiting reports: what it must do, and what it must not be able to tell.

A backend holds opaque bytes by bucket. It stores no address, no header, no time of arrival and no order of arrival.
tests/shuffler/storage/test_storage.py tests each sentence of `Storage` for every backend.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hubbub.wire import Kind
from hubbub_service_common.storage.free_space import Room
from hubbub_service_common.storage.kinds_and_errors import StorageError, StorageKind

__all__ = [
    "CLOSED_FOR",
    "LONGEST_PAUSE",
    "OTHERWISE",
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
"""Most seconds for which a batch is leased or postponed. A later due time was set by a wrong clock."""

OTHERWISE = "let that one run until no bucket waits, then give this one an empty storage"
"""What the operator should do about a storage that a newer version wrote, on every backend."""

PIECE_BYTES = 2**20
"""Most bytes of reports that a storage hands out at once, or keeps under one id."""

Reason: TypeAlias = Literal["period-closed", "revoked-key", "metric-disabled"]
"""Why a bucket takes no report. A device drops a late or switched-off report; after a revoked key it seals again."""

CLOSED_FOR: tuple[Reason, ...] = ("period-closed", "revoked-key", "metric-disabled")
"""Why a bucket was closed, by the number that is stored for it. 0 is at its time; the others are before it, so none of
its reports leave."""


class BucketGone(StorageError):
    """The reports of this bucket can't be read, or no longer: another worker settled or discarded them."""


class BucketDamaged(StorageError):
    """Reports of this bucket are missing or can't be read. Other buckets are not held up.

    `bucket`: which one, where the call was about several.
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
    """The key of a crowd: reports of one metric, one period and one key wait and leave together."""

    metric: bytes
    period: int
    key: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What is fixed for a bucket from its first report on. None of it depends on when that report came."""

    name: str
    """The metric's name."""
    size: int
    """Bytes of each sealed report."""
    closes_at: int
    """Unix time from which no report is taken."""
    minimum: int
    """Fewest reports that may leave together, as known when the bucket was opened."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The reports of one group commit for one bucket."""

    bucket: Bucket
    terms: Terms
    sealed: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Closed:
    """A bucket that takes no more reports and is not planned yet."""

    bucket: Bucket
    terms: Terms
    early: bool
    """Closed before its time because its key is revoked or its metric switched off: none of its reports may leave."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a closed bucket: as many batches as there are ids, or with `discard` only a notice."""

    ids: tuple[bytes, ...]
    seed: bytes
    distinct: int
    duplicates: int
    discard: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What is forwarded under one id, the same at every attempt."""

    id: bytes
    bucket: Bucket
    terms: Terms
    kind: Kind
    part: int
    parts: int
    reports: int
    """Number of reports, fixed by the plan; 0 for the notice of a discard."""
    sent: bool
    """Whether the aggregator has taken it and owes a verdict."""
    attempts: int
    held: str = ""
    """If held: why the aggregator refused it. Empty otherwise."""
    until: int = 0
    """If held: the Unix time until which it is offered again; 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch under a lease. The token is a fence: once the lease has gone to another worker, this claim can change
    nothing."""

    batch: Batch
    token: bytes


class HeldBatch(NamedTuple):
    """A batch that was refused and is kept, as shown to the operator."""

    id: bytes
    name: str
    """The metric's name."""
    period: int
    reports: int
    why: str
    since: int
    """Unix time, rounded down to an hour."""
    until: int
    """As in `Batch`."""


class Count(NamedTuple):
    """Sums of what happened to reports of a metric."""

    reports: int
    batches: int


class Waiting(NamedTuple):
    """A bucket whose reports are still in the storage."""

    name: str
    state: str
    reports: int
    closes_at: int
    """Unix time from which no report is taken."""
    held: bool
    """Whether all its unsettled batches are held."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What is in the storage, for the status page and the tests."""

    waiting: list[Waiting]
    batches: dict[str, int]
    """By state: "planned" (not taken by the aggregator yet) or "sent". Held batches are not included."""
    held: dict[str, Count]
    """Held batches, by the reason of the refusal."""
    counts: dict[tuple[str, str], Count]
    """By metric name and what happened: "ingested", "duplicate", "discarded", "damaged", "halved" or the aggregator's
    verdict. Reports ingested = duplicate + discarded + damaged + all verdicts + waiting. Under an empty metric name,
    "lost": reports that were acknowledged, and of which the storage has no trace any more."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one bucket."""

    bucket: Bucket
    name: str
    """The metric's name."""
    state: str
    reports: int
    """How many reports it should have."""
    lost: int
    """How many of those can't be read; 0 if they were not checked."""
    on_its_way: bool
    """The aggregator has, or may have, some of its batches: it can't be planned again, only discarded."""
    lacks: int = 0
    """Bytes that the disk lacks now to mend it."""


class Repairs(Protocol):
    """Repair of buckets whose reports are missing or can't be read."""

    def find(self) -> list[Damage]:
        """All damage there is now, after a look at every waiting report. No other call has to wait for it."""
        ...

    def mend(self, bucket: Bucket) -> Damage | None:
        """Keep what can be read of a bucket, and count the rest as "damaged". Returns what was wrong, if anything.

        A planned bucket is planned again. A bucket that is on its way either has all its reports afterwards or stays as
        it is, and no other call waits while it is read. NeedsRoom if the disk lacks room for a copy.
        """
        ...

    def discard(self, bucket: Bucket) -> int:
        """Give a bucket up, and count its reports as "damaged". Returns how many there were."""
        ...

    def remains(self) -> int:
        """In how many places parts of reports remain that can't be deleted."""
        ...


class Storage(Protocol):
    """Holds sealed reports by bucket until each bucket is settled, then forgets them.

    Every method blocks until it is done, and several threads may call at once. `AsyncStorage` has the same methods for
    the event loop.
    """

    kind: StorageKind
    """Which backend it is."""

    @property
    def repair(self) -> Repairs:
        """Repairs, for the operator. `forget` by itself mends buckets that could not be read twice, some time apart."""
        ...

    @property
    def durable(self) -> bool:
        """Whether acknowledged reports survive a crash, as last seen by `inspect` or at opening."""
        ...

    def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """Keep these reports durably, except for buckets that are closed or due. Returns the reason for each of those.

        Whether a bucket is due is decided by this process's clock. Whether it is closed is decided in the same step
        that keeps its reports. After a StorageError some reports may be kept; if the same bytes are sent again, they
        count once. BucketDamaged names the bucket at fault: without that one, the others can be kept.
        """
        ...

    def close(self, revoked: Collection[int], off: Collection[bytes] = (), *, due: float = -math.inf) -> list[Closed]:
        """Close for good every bucket that is due, has a revoked key or belongs to a metric that is off. Returns all
        buckets that are closed and not planned.

        `revoked`: ids of keys. `off`: ids of metrics. `due`: a time that has certainly been reached; no clock is read.
        """
        ...

    def read(self, bucket: Bucket) -> Iterator[bytes]:
        """All reports of a closed or planned bucket, duplicates included, in pieces and in no particular order.

        A piece is a whole number of reports, `terms.size` bytes each, and at most PIECE_BYTES long unless one report
        is longer. Memory stays bounded however large the bucket is. A bucket never changes once it is closed: every
        iteration that reaches its end gave the same reports. BucketGone if the iteration can't reach its end, or if the
        bucket is neither closed nor planned.
        """
        ...

    def seed(self, bucket: Bucket) -> bytes | None:
        """The seed of a planned bucket; None for any other."""
        ...

    def plan(self, bucket: Bucket, plan: Plan) -> bool:
        """Fix ids, membership and seed in one step; False if another worker did so before."""
        ...

    def halved(self, name: str, period: int, reports: int) -> bool:
        """Note how many reports a closed period had, in place of the last one's number. True if it is below half of
        that.

        This is counted as "halved" for the metric. A period that is not later than the last one changes nothing.
        """
        ...

    def held_periods(self) -> bytes:
        """What `hold_periods` kept last; empty if there is none."""
        ...

    def hold_periods(self, before: bytes, after: bytes) -> bool:
        """Replace `before` by `after`, durably and in one step; False if what is kept is neither of them."""
        ...

    def claim(self, lease: float) -> Claim | None:
        """A batch that is due, claimed for this caller alone for the next `lease` seconds; None if there is none.

        The batch that has been due for longest comes first, so none can starve behind others that fail. A clock that
        was ahead for a while and is right again holds up no batch for more than LONGEST_PAUSE.
        """
        ...

    def extend(self, claim: Claim, lease: float) -> bool:
        """Extend the lease to `lease` seconds from now, for an attempt that takes long; False if the claim was lost."""
        ...

    def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        """Give the batch back, to be tried again after `seconds`; False if the claim was lost."""
        ...

    def settle(self, claim: Claim, verdict: str) -> bool:
        """Finish the batch with this verdict: it never comes back. False if the claim was lost."""
        ...

    def hold_back(self, claim: Claim, why: str, *, since: int, until: int, seconds: float) -> bool:
        """Give a refused batch back, to be offered again after `seconds`; False if the claim was lost.

        `why`: the reason of the refusal. `since`: now; ignored if the batch was held before. `until`: see `Batch`.
        """
        ...

    def held_batches(self) -> list[HeldBatch]:
        """All held batches, the oldest period first."""
        ...

    def offer(self, ids: Collection[bytes] | None = None) -> int:
        """Make held batches due now, these or all, except those that are being offered. Returns how many."""
        ...

    def claim_held(self, id: bytes, lease: float) -> Claim | None:  # noqa: A002  it is an id
        """Claim a held batch, due or not; None if none has this id, or if it is being offered."""
        ...

    def forget(self, past: float = -math.inf) -> bool | None:
        """Really delete settled and discarded reports, including those that another process began to delete.

        True: no trace is left, by any process. False: something must be tried again later. None: deletion is still
        going on, so ask again in a moment. That a bucket was closed is forgotten `forget_after` seconds after its
        closing time. `past`: a time that is certainly past.
        """
        ...

    def overview(self) -> Overview:
        """What is in the storage now."""
        ...

    def inspect(self) -> None:
        """Check again whether the storage is `durable`, and log a change. StorageError if that can't be checked."""
        ...

    def room(self) -> Room | None:
        """How full the storage is; None if it has no known limit. Room beyond the mark is for every call but `add`."""
        ...

    def check(self) -> None:
        """StorageError unless the storage can be written now."""
        ...

    def disconnect(self) -> None:
        """Close everything that is open. No method may be called after this."""
        ...
