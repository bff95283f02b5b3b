"""The storage protocol: what a backend must remember, and which changes must be atomic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from hubbub.errors import InvalidParameter
from hubbub.wire import BatchHeader
from hubbub_service_common.storage.kinds_and_errors import StorageError, StorageKind

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
"""What came of accepting a batch. `accepted`: this call did it. `settled`: the batch has a verdict already, or is gone.
`outdated`: other batches were accepted for its pair since the pair was read."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch or discard, with its verdict once there is one."""

    id: bytes
    header: BatchHeader
    digest: bytes
    """SHA-256 of the whole body: the same id with another digest is a conflict."""
    state: State
    spool: str | None = None
    """Name of the file that holds the body, while it is pending."""
    reason: str | None = None
    """Why it was refused. For a discard: why the shuffler dropped it, None if its crowd was too small."""
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
    """A sealing key for the periods from first to last. A revoked key has no private part."""

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
    """Digest of what was signed, apart from times and sequence. It tells whether the bundle is still current."""
    raw: bytes


class KeyTaken(InvalidParameter):
    """The id of a new key, or one of its periods, has got a live key meanwhile. Read the keys again."""


class Bodies(Protocol):
    """Spooled bodies, where every process finds them. They are copies: each process works on its own file."""

    def announce(self, name: str, size: int) -> None:
        """Say that a body of this size is coming. Of two at once, in any processes, the second one sees the first.

        StorageError if there is no room to work on it and on all that was announced before and has not come.
        """

    def withdraw(self, name: str) -> None:
        """Say that nothing more of a body is coming. No error if it was not announced, or if this can't be said."""

    def keep(self, name: str, pieces: Iterable[bytes], size: int) -> None:
        """Keep a body of this size durably: for a day, or for a month once `hold` was called.

        If it fails, it removes what it wrote of the body, as far as it still can.
        """

    def hold(self, name: str) -> None:
        """Say that a batch names this body now."""

    def read(self, name: str) -> Iterator[bytes] | None:
        """The whole body in pieces; None if it is not here."""

    def remove(self, name: str) -> None:
        """Forget a body; no error if it is gone already."""


class Storage(Protocol):
    """Durable storage. Each method is atomic: when it returns, its changes are durable, or it raises StorageError.

    A batch is settled once: from pending to accepted or refused, and never again. Accepting writes verdict,
    tally, nonces and record together, and only if nothing was accepted for the pair since it was read.
    """

    kind: StorageKind
    """Which backend it is."""

    @property
    def durable(self) -> bool:
        """Whether acknowledged changes survive a crash, as far as the last `inspect` (or the opening) could see."""
        ...

    bodies: Bodies | None
    """Bodies that all processes share; None if only one process can use the storage."""

    # -- batches

    def admit(self, batch: Batch) -> Batch:
        """Keep a new batch and return it. If its id is known already, change nothing and return the kept batch."""

    def batch(self, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        """The batch of this id."""

    def pending(self) -> list[Batch]:
        """Batches without a verdict."""

    def accepted(self, metric: bytes, period: int, start: int = 0) -> list[bytes]:
        """The marks of the batches accepted for a pair of metric and period, in order, from number `start` on.

        Their number from 0 on is the pair's version. A mark begins with the batch's id and names one acceptance: if a
        failover loses it and the batch is accepted again, the mark may be different.
        """

    def nonces(self, metric: bytes, period: int, mark: bytes) -> bytes:
        """The nonces of one acceptance: 16 bytes each, sorted. Empty once they are forgotten."""

    def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:
        """Those of a few sorted nonces that belong to one acceptance, without reading all of that acceptance."""

    def accept(
        self,
        id: bytes,  # noqa: A002  it is an id
        version: int,
        accepted: Accepted,
        last: bytes | None = None,
    ) -> Outcome:
        """Settle a pending batch as accepted. No change if the pair has another version by now.

        `last`: the mark of the last acceptance at that version, empty if there was none. No change if it differs by
        now: after a failover, other batches may have been accepted in place of the lost ones. None: any mark will do.
        """

    def refuse(
        self,
        id: bytes,  # noqa: A002  it is an id
        reason: str,
        valid: int | None,
        invalid: Mapping[str, int],
        record: str | None = None,
    ) -> bool:
        """Settle a pending batch as never to be released. False, and no change, if it is no longer pending.

        `record`: the cost of having opened it, as JSON, if it was opened. It is kept as long as the verdict.
        """

    def drop(self, id: bytes, spool: str) -> bool:  # noqa: A002  it is an id
        """Forget a pending batch, as if it had never been sent, because its body of this name is gone.

        False, and no change, if it has a verdict, or if it was sent again since and has another body.
        """

    def lease(self, id: bytes, holder: str, seconds: float) -> bool:  # noqa: A002  it is an id
        """Whether this holder may work on a pending batch for this many seconds. Another call extends the lease.

        A lease only saves work: if two processes work on one batch, it is still settled once.
        """

    # -- releases

    def releases(self, metric: bytes | None = None, first: int = 0, last: int | None = None) -> list[Release]:
        """Releases in order of (period, id), of all metrics or of one, in periods first to last."""

    def spans(self) -> dict[bytes, tuple[int, int, int]]:
        """For each metric with releases: how many periods have one, and the first and last of these periods."""

    def page(self, metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Release]:
        """At most `limit` releases in order of (period, id), after a given one."""

    def release(self, id: bytes) -> Release | None:  # noqa: A002  it is an id
        """The release of this id."""

    def expire(self, before: int) -> int:
        """Delete the releases of periods before this one for good, and return how many.

        The ids of their batches stay known, and so do their records: deleting a release does not undo its cost.
        """

    def expired(self) -> list[Release]:
        """What `expire` has deleted, in order of (period, id): records with empty tallies, for the ledger."""

    def opened_and_refused(self) -> list[Release]:
        """The batches that were refused with a record, in order of (period, id), with empty tallies, for the ledger."""

    def discarded(self, metric: bytes, first: int, last: int) -> dict[int, str | None]:
        """The periods, first to last, for which a shuffler reported a discard of this metric, each with its reason."""

    # -- codebooks, keys and the bundle

    def codebooks(self) -> list[StoredCodebook]:
        """Every codebook that was ever in force, oldest first."""

    def starts(self) -> list[int]:
        """The first period of each codebook, oldest first: a cheap way to see whether one was added."""

    def add_codebook(self, codebook: StoredCodebook) -> bool:
        """Keep a codebook. False, and no change, if another one starts with the same period or a later one."""

    def move_codebook(self, first: int, to: int) -> bool:
        """Move the start of the only codebook from period `first` to period `to`.

        False, and no change, if there is another codebook, or if this one does not start with `first`.
        """

    def switched_off(self) -> frozenset[str]:
        """Names of the metrics that a command switched off."""

    def switch(self, name: str, *, off: bool) -> None:
        """Switch a metric off, or on again, by its name."""

    def sealing_keys(self) -> list[StoredKey]:
        """Every key within its horizon, in order of its first period."""

    def add_key(self, key: StoredKey, *, instead_of: int | None = None) -> None:
        """Keep a key. In the same step, the key `instead_of` is revoked and its private part erased.

        KeyTaken, and no change, if the id is in use, or if the key is live and one of its periods still has a live key.
        """

    def revoke_key(self, id: int) -> None:  # noqa: A002  it is an id
        """Revoke a key and erase its private part, without replacing it. No change if it does not exist."""

    def drop_key(self, id: int) -> None:  # noqa: A002  it is an id
        """Erase a key that is not needed, which frees its id. No change if it does not exist."""

    def forget(self, through: int) -> bool:
        """Erase the keys that end at or before this period, together with the nonces of their periods.

        Returns whether there was any. Periods with a pending batch stay.
        """

    def scrub(self) -> bool:
        """Wipe the traces of erased data, also of what another process erased, or this one before a crash.

        Returns whether no trace is left. `add_key`, `revoke_key`, `drop_key` and `forget` do this too. If something is
        in the way, such as a long read, another call is needed.
        """

    def bundle(self) -> SignedBundle | None:
        """The newest bundle."""

    def publish(self, bundle: SignedBundle, last: int | None) -> bool:
        """Keep a newer bundle. False, and no change, if `last` is no longer the newest sequence."""

    # -- the rest

    def tallied(self) -> dict[str, int]:
        """Counts as `kind:name`: batches by state, discards, and refused batches and invalid reports by reason."""

    def remembered(self, question: str) -> int | None:
        """An answer that took long to compute; None if it is not known."""

    def remember(self, question: str, answer: int) -> None:
        """Keep such an answer."""

    def time(self) -> float | None:
        """The time by the storage's own clock; None if it has none, or does not answer."""

    def size(self) -> int | None:
        """Bytes that the storage takes, on disk or in the memory of all Redis servers; None if it can't be asked."""

    def inspect(self) -> None:
        """Check again whether the storage is `durable`, and log a change. StorageError if it can't be checked."""

    def check(self) -> None:
        """Raise StorageError unless the storage can be written now."""

    def close(self) -> None:
        """Close the storage. No method may be called after this."""
