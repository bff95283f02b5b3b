"""The storage Protocol: what must be remembered, and what must happen at once or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from hubbub.problems import InvalidParameter
from hubbub.wire import BatchHeader
from hubbub_service_common.storage.kinds import StorageError, StorageKind

__all__ = [
    "Accepted",
    "Batch",
    "Bodies",
    "KeyTaken",
    "Outcome",
    "Release",
    "SignedBundle",
    "State",
    "Storage",
    "StorageError",
    "StoredCodebook",
    "StoredKey",
]

State: TypeAlias = Literal["pending", "accepted", "refused"]
Outcome: TypeAlias = Literal["accepted", "settled", "outdated"]
"""What came of accepting a batch: it is done, by this call; another gave the verdict before, or the batch is gone; or
others were accepted for its pair since that was read."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch or discard by its id, with its verdict once there is one."""

    id: bytes
    header: BatchHeader
    digest: bytes
    """SHA-256 of the whole body: the same id with another digest is a conflict."""
    state: State
    spool: str | None = None
    """Name of the file that holds the body, while it is pending."""
    reason: str | None = None
    """Why it was refused; of a discard, why the shuffler did not want it, None if its crowd was too small."""
    valid: int | None = None
    invalid: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Everything that accepting a batch writes."""

    valid: int
    invalid: Mapping[str, int]
    tally: bytes
    nonces: bytes
    record: str
    """The release record, as JSON."""


@dataclass(frozen=True, slots=True)
class Release:
    """One accepted batch. It never changes; its nonces are forgotten after the horizon."""

    id: bytes
    metric: bytes
    period: int
    tally: bytes
    record: str


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A sealing key for the periods from first to last. A revoked one has no private part any more."""

    id: int
    first_period: int
    last_period: int
    public_key: bytes
    private_key: bytes | None = field(repr=False)
    revoked: bool = False

    def covers(self, period: int) -> bool:
        return self.first_period <= period <= self.last_period


@dataclass(frozen=True, slots=True)
class StoredCodebook:
    """A compiled codebook and the first period it is in force for."""

    first_period: int
    compiled: bytes


@dataclass(frozen=True, slots=True)
class SignedBundle:
    """The bundle as it is served."""

    sequence: int
    issued: int
    content: bytes
    """Digest of what was signed, apart from times and sequence: says whether it is still true."""
    raw: bytes


class KeyTaken(InvalidParameter):
    """The id of a new key, or one of its periods, has a live key by now: read again what there is."""


class Bodies(Protocol):
    """Spooled bodies where every process finds them. They are copies: each process works on a file of its own."""

    def make_sure_of_room(self, coming: int) -> None:
        """StorageError if there is no room to work on bodies of `coming` bytes, the sum of all that are arriving."""

    def keep(self, name: str, pieces: Iterable[bytes]) -> None:
        """Keep a body durably. It is forgotten after a month, or after a day unless `hold` was called.

        If it fails, nothing of the body stays, as far as that can still be seen to.
        """

    def hold(self, name: str) -> None:
        """A batch names this body now."""

    def read(self, name: str) -> Iterator[bytes] | None:
        """The whole body in pieces; None if it is not here."""

    def remove(self, name: str) -> None:
        """Forget a body; no error if it is gone already."""


class Storage(Protocol):
    """Everything durable when a method returns, or StorageError; each method happens at once or not at all.

    A batch is settled once: from pending to accepted or refused, and never again. Accepting writes verdict,
    tally, nonces and record together, and only if nothing was accepted for the pair since it was read.
    """

    kind: StorageKind
    """Which backend it is."""

    @property
    def durable(self) -> bool:
        """Whether what it acknowledges survives a crash, as far as `inspect` or the opening could see last."""
        ...

    bodies: Bodies | None
    """Where bodies are kept for all processes; None where there can be one process only."""

    # -- batches

    def admit(self, batch: Batch) -> Batch:
        """Keep a new batch. If the id is known already nothing changes, and what is kept is returned."""

    def batch(self, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        """The batch of this id."""

    def pending(self) -> list[Batch]:
        """Batches without a verdict."""

    def accepted(self, metric: bytes, period: int, start: int = 0) -> list[bytes]:
        """A mark of each batch that was accepted for a pair of metric and period, in order, from the start-th on.

        Their number from 0 on is the pair's version. A mark begins with the batch's id, and names this one acceptance:
        where a failover lost it and the batch is accepted again, it may be another.
        """

    def nonces(self, metric: bytes, period: int, mark: bytes) -> bytes:
        """What was counted then: 16 bytes each, sorted. None of them when they were forgotten."""

    def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:
        """Those of these few nonces, sorted, that were counted then, without reading all that were."""

    def accept(
        self,
        id: bytes,  # noqa: A002  it is an id
        version: int,
        accepted: Accepted,
        last: bytes | None = None,
    ) -> Outcome:
        """Settle a pending batch as released. No change if the pair's version is another by now.

        `last`: the mark of the last one at that version, empty if there was none. No change if it is another by now:
        after a failover, others may have been accepted in the place of those that it lost. None: whichever it was.
        """

    def refuse(
        self,
        id: bytes,  # noqa: A002  it is an id
        reason: str,
        valid: int | None,
        invalid: Mapping[str, int],
        record: str | None = None,
    ) -> bool:
        """Settle a pending batch as never to be released. False, and no change, if it is not pending any more.

        `record`: what it cost to have opened it, as JSON, if it was; kept with the verdict, and as long as that.
        """

    def drop(self, id: bytes, spool: str) -> bool:  # noqa: A002  it is an id
        """Forget a pending batch, as if it had never been sent: its body, of this name, is gone.

        False, and no change, if it has its verdict, or was sent again since and has another body.
        """

    def lease(self, id: bytes, holder: str, seconds: float) -> bool:  # noqa: A002  it is an id
        """Whether this holder may work on a pending batch for this many seconds. Another call makes it longer.

        It saves work and decides nothing: two that work on one batch still settle it once.
        """

    # -- releases

    def releases(self, metric: bytes | None = None, first: int = 0, last: int | None = None) -> list[Release]:
        """Releases by (period, id), of all metrics or of one, in periods first to last."""

    def spans(self) -> dict[bytes, tuple[int, int, int]]:
        """Of each metric with releases: how many periods have one, the first and the last."""

    def page(self, metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Release]:
        """At most `limit` releases by (period, id), after a given one."""

    def release(self, id: bytes) -> Release | None:  # noqa: A002  it is an id
        """The release of this id."""

    def expire(self, before: int) -> int:
        """Delete the releases of periods before this one, really; how many. The ids of their batches stay known,
        and so do their records: what a release has cost is not undone by deleting it.
        """

    def expired(self) -> list[Release]:
        """What `expire` has deleted, by (period, id): records with empty tallies, for the ledger."""

    def opened_and_refused(self) -> list[Release]:
        """The batches that were refused with a record, by (period, id), with empty tallies: for the ledger, too."""

    def discarded(self, metric: bytes, first: int, last: int) -> dict[int, str | None]:
        """The periods, first to last, of which a shuffler reported a discard for this metric, each with its reason."""

    # -- codebooks, keys and the bundle

    def codebooks(self) -> list[StoredCodebook]:
        """Every codebook that was ever in force, oldest first."""

    def starts(self) -> list[int]:
        """The first period of each codebook, oldest first: tells cheaply whether one was added."""

    def add_codebook(self, codebook: StoredCodebook) -> bool:
        """Keep a codebook. False, and no change, if there is one that starts as late."""

    def move_codebook(self, first: int, to: int) -> bool:
        """Let the only codebook, which starts with period `first`, start with `to`. False, and no change, if there is
        another one, or this one starts otherwise.
        """

    def switched_off(self) -> frozenset[str]:
        """Names of the metrics that a command switched off."""

    def switch(self, name: str, *, off: bool) -> None:
        """Switch a metric off, or on again, by its name."""

    def sealing_keys(self) -> list[StoredKey]:
        """Every key within its horizon, by first period."""

    def add_key(self, key: StoredKey, *, instead_of: int | None = None) -> None:
        """Keep a key; `instead_of` revokes that one at the same moment and erases its private part.

        KeyTaken, and no change, if the id is in use, or the key is not revoked and any of its periods still has a live
        one.
        """

    def revoke_key(self, id: int) -> None:  # noqa: A002  it is an id
        """Revoke a key and erase its private part, without another in its place; no change if it is not there."""

    def drop_key(self, id: int) -> None:  # noqa: A002  it is an id
        """Erase a key that nobody needs, so that its id is free; no change if it is not there."""

    def forget(self, through: int) -> bool:
        """Erase the keys that end at or before this period and the nonces of their periods, together.

        Whether there was any. Periods with a pending batch stay.
        """

    def scrub(self) -> bool:
        """Wipe the traces of what was erased, also by another process or before a crash. Whether none is left.

        `add_key`, `revoke_key`, `drop_key` and `forget` do it too; what stands in the way, such as a long reader, makes
        another call necessary.
        """

    def bundle(self) -> SignedBundle | None:
        """The newest bundle."""

    def publish(self, bundle: SignedBundle, last: int | None) -> bool:
        """Keep a newer bundle. False, and no change, if `last` is not the newest sequence any more."""

    # -- the rest

    def tallied(self) -> dict[str, int]:
        """Batches by state, discards, refused batches and invalid reports by reason, as `kind:name`."""

    def remembered(self, question: str) -> int | None:
        """An answer that took long to compute."""

    def remember(self, question: str, answer: int) -> None:
        """Keep such an answer."""

    def time(self) -> float | None:
        """What the storage's own clock says; None if it has none, or does not tell."""

    def size(self) -> int | None:
        """Bytes that it takes, on disk or in the memory of all Redis servers; None if that can't be asked."""

    def inspect(self) -> None:
        """Check again whether it is `durable`, and log what changed. StorageError if that can't be checked."""

    def check(self) -> None:
        """StorageError unless something could be written now."""

    def close(self) -> None:
        """Nothing may be asked any more."""
