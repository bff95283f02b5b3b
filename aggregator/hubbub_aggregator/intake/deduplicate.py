"""Duplicate nonces of a batch: repeated inside the batch, or counted by a batch accepted for its metric and period.

The storage has what was accepted, batch by batch. For the pairs of metric and period in use, this process keeps filters
in memory and reads each accepted batch once to fill them, so that the cost of a nonce does not depend on how many there
are. A filter may be wrong about a new nonce, never about an old one; a nonce that it does not rule out is looked up in
the storage. docs/design/deduplication.md compares the ways to do this.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub.wire import NONCE_BYTES
from hubbub_aggregator.intake.nonce_filter import NonceFilter, Question, hashes
from hubbub_aggregator.storage import Storage, StorageError
from hubbub_service_common.process.clock_and_entropy import entropy, monotonic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub_aggregator.intake.nonce_filter import Asked, Hashes

__all__ = ["LIMIT", "Counted", "Duplicates", "Fresh", "as_nonces", "distinct", "masks"]

LIMIT = 640 * 2**20
"""Bytes of all filters that one process holds. Two fifths are for the filter of a whole pair, the rest for the filters
of its batches, which is enough for 100 million nonces. If one pair has more, its filter is wrong more often, later
batches get no filter, and the storage is asked more often."""
_PAIR_BITS, _RUN_BITS = 16, 24
"""Bits per nonce in the filter of a pair, when it is full, and in the filters of its batches."""
_RUN_WORDS = 4
"""Words in a block of the filters of batches. A nonce that none of them rules out must be looked up in the storage."""
_SECRETS = [int.from_bytes(entropy(8)) | 1 for _ in range(2)]
_SMALLEST = 2**16
"""Nonces that the smallest filter has room for."""
_GROWTH = 4
"""Factor by which the filter of a pair grows when it is full. The whole pair is read again then: on average a third of
a read per nonce."""
_FEW = 512
"""Nonces that are looked up one by one. For more of them it is less work to read the whole batch."""
_TABLE = 18
"""Leading bits of a hash that are compared first, to find a few hashes among many."""
_IDLE = 600.0
"""Seconds without a question after which the filters of a pair are dropped."""


def as_nonces(raw: bytes) -> NDArray[Any]:
    """One item per nonce. numpy drops trailing zeros, but all nonces are 16 bytes long, so that makes no two equal."""
    import numpy as np

    return np.frombuffer(raw, f"S{NONCE_BYTES}")


def distinct(parts: Sequence[bytes]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Every nonce once, sorted, and the position of its first occurrence in the joined parts."""
    import numpy as np

    found, first = np.unique(as_nonces(b"".join(parts)), return_index=True)
    return found, first


def masks(parts: Sequence[bytes], chosen: NDArray[np.intp]) -> list[NDArray[np.bool_]]:
    """For each part, which of its nonces are at one of these positions."""
    import numpy as np

    sizes = [len(part) // NONCE_BYTES for part in parts]
    keep = np.zeros(sum(sizes), np.bool_)
    keep[chosen] = True
    return np.split(keep, np.cumsum(sizes)[:-1])


def _places(hashed: Hashes, few: Hashes) -> NDArray[np.intp]:
    """The positions of the hashes that are among these few, which are sorted."""
    import numpy as np

    # A table of the leading bits of the few, small enough for a cache, cheaply rules out nearly all others.
    table, drop = np.zeros(2**_TABLE, np.bool_), np.uint64(64 - _TABLE)
    table[few >> drop] = True
    near = np.flatnonzero(table[hashed >> drop])
    at = np.searchsorted(few, hashed[near], side="right") - 1
    return near[few[at] == hashed[near]] if len(few) else near


def _of_a_pair(capacity: int) -> NonceFilter:
    return NonceFilter(capacity, _PAIR_BITS, _SECRETS[0])


def _of_a_run(capacity: int) -> NonceFilter:
    return NonceFilter(capacity, _RUN_BITS, _SECRETS[1], _RUN_WORDS)


@dataclass(slots=True)
class _Run:
    """Consecutive accepted batches that share a filter: a large one, or several small ones."""

    capacity: int
    filter: NonceFilter | None
    """None if there was no memory left: every nonce in question is looked up then."""
    marks: list[bytes] = field(default_factory=list)
    held: int = 0


@dataclass(slots=True)
class _Pair:
    """What this process knows about one metric and period."""

    all: NonceFilter = field(default_factory=lambda: _of_a_pair(_SMALLEST))
    marks: list[bytes] = field(default_factory=list)
    runs: list[_Run] = field(default_factory=list)
    held: int = 0
    expected: int = 0
    """How many nonces there will be, as far as shufflers said."""
    used: float = 0.0

    @property
    def size(self) -> int:
        return self.all.size + sum(run.filter.size for run in self.runs if run.filter is not None)

    def in_question(
        self, maybe: NDArray[np.intp], hashed: Hashes, found: NDArray[np.bool_]
    ) -> Iterator[tuple[bytes, NDArray[np.intp]]]:
        """Accepted batches, each with the nonces that it may have. There may be many batches, so each must cost little.

        The caller sets `found`: a nonce that was found in one batch is not looked up in the next.
        """
        question = Question(hashed)
        for run in self.runs:
            if not len(maybe):
                return
            asked = maybe if run.filter is None else maybe[run.filter.may_hold(question)]
            if not len(asked):
                continue
            for mark in run.marks:
                yield mark, asked
                asked = asked[~found[asked]]
                if not len(asked):
                    break
            left = ~found[maybe]
            if not left.all():
                maybe, question = maybe[left], question.but(left)

    def more(self, count: int) -> int:
        """Bytes that the filter of another batch of this size would take."""
        return 0 if self._shares(count) else NonceFilter.size_of(self._room_for(count), _RUN_BITS, _RUN_WORDS)

    def _shares(self, count: int) -> bool:
        return bool(self.runs) and self.runs[-1].held + count <= self.runs[-1].capacity

    def _room_for(self, count: int) -> int:
        # larger in a larger pair, to keep filters few: every nonce in question is looked up in each of them
        return max(_SMALLEST, count, (self.held + count) // 64)

    def add(self, mark: bytes, fresh: Fresh, *, room: int) -> None:
        """Add one accepted batch. It gets no filter of its own if all filters would then exceed `room` bytes."""
        ordered = fresh.hashes
        if not self._shares(len(ordered)):
            capacity, fits = self._room_for(len(ordered)), self.size + self.more(len(ordered)) <= room
            self.runs.append(_Run(capacity, _of_a_run(capacity) if fits else None))
        if fresh.asked is not None and fresh.asked.name is self.all.name:
            self.all.add_asked(fresh.asked)
        else:
            self.all.add(ordered)
        self.marks.append(mark)
        self.held += len(ordered)
        run = self.runs[-1]
        run.marks.append(mark)
        run.held += len(ordered)
        if run.filter is not None:
            run.filter.add(ordered)


class Fresh(NamedTuple):
    """Nonces that were not counted before, in the form that filters take."""

    hashes: Hashes
    """Sorted."""
    asked: Asked | None = None
    """What the filter of their pair said about exactly these; valid until something else is added to it."""


class Counted(NamedTuple):
    """Which of some nonces a pair has counted, and up to which version."""

    version: int
    repeated: NDArray[np.bool_]
    """Which of the nonces it has counted."""
    last: bytes
    """The mark of the last batch accepted up to that version; empty if there was none."""
    fresh: Fresh
    """The nonces that it has not counted, for `Duplicates.add` once they are accepted."""


class Duplicates:
    """Finds the nonces that the storage says were counted before. Any thread may ask."""

    def __init__(self, storage: Storage, limit: int = LIMIT) -> None:
        self._storage, self._limit = storage, limit
        self._largest = limit * 2 // 5 * 8 // _PAIR_BITS
        self._lock = threading.Lock()
        self._pairs: OrderedDict[tuple[bytes, int], _Pair] = OrderedDict()
        """The most recently used pair is the last."""

    def counted(self, metric: bytes, period: int, nonces: NDArray[Any], others: int = 0) -> Counted:
        """The version of a pair, and which of these nonces, sorted and distinct, it has counted up to that version.

        `others`: how many reports will come in other batches, if the shuffler said so. Room is made for them at once.
        """
        import numpy as np

        hashed = hashes(nonces)
        ordered, asked = np.sort(hashed), None
        with self._lock:
            pair = self._up_to_date(metric, period, len(nonces) + others)
            version, found = len(pair.marks), np.zeros(len(nonces), np.bool_)
            if version:
                asked = pair.all.ask(ordered)
                maybe = _places(hashed, ordered[asked.maybe])
                for mark, some in pair.in_question(maybe, hashed[maybe], found):
                    found[some[self._are_in(metric, period, mark, nonces[some])]] = True
            last = pair.marks[-1] if version else b""
        fresh = Fresh(np.sort(hashed[~found])) if found.any() else Fresh(ordered, asked)
        return Counted(version, found, last, fresh)

    def _are_in(self, metric: bytes, period: int, mark: bytes, nonces: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these nonces one accepted batch has. This is the exact answer."""
        import numpy as np

        if len(nonces) <= _FEW:
            held = as_nonces(self._storage.among(metric, period, mark, nonces.tobytes()))
        else:
            held = self._read(metric, period, mark)
        at = np.searchsorted(held, nonces)
        found = np.zeros(len(nonces), np.bool_)
        inside = at < len(held)
        found[inside] = held[at[inside]] == nonces[inside]
        return found

    def add(self, metric: bytes, period: int, version: int, batch: bytes, fresh: Fresh) -> None:
        """Add the nonces of a batch that was accepted at this version, which saves reading it.

        If another thread has asked about the pair since, it has read the batch already. A batch that does not directly
        follow the known ones is left for the next question to read.
        """
        with self._lock, suppress(StorageError):  # if this fails, the next question about the pair reads the batch
            pair = self._pairs.get((metric, period))
            if pair is None or len(pair.marks) != version:
                return
            marks = self._storage.accepted(metric, period, max(0, version - 1))
            before, new = (marks[:1], marks[1:2]) if version else ([], marks[:1])
            if before == pair.marks[-1:] and new and new[0].startswith(batch):
                del self._pairs[metric, period]  # until it is complete again
                self._take_in(metric, period, pair, new[0], fresh, len(fresh.hashes))
                self._keep(metric, period, pair)

    def trim(self) -> None:
        """Drop the pairs that were not asked about for a while: their nonces may have been erased since."""
        with self._lock:
            now = monotonic()
            for key in [key for key, pair in self._pairs.items() if now - pair.used > _IDLE]:
                del self._pairs[key]

    @property
    def size(self) -> int:
        """Bytes that the filters take."""
        return sum(pair.size for pair in self._pairs.values())

    def _up_to_date(self, metric: bytes, period: int, expected: int) -> _Pair:
        """The filters of a pair, with everything that was accepted for it. If a read fails, the pair is forgotten."""
        pair = self._pairs.get((metric, period)) or _Pair()
        known = len(pair.marks)
        marks = self._storage.accepted(metric, period, max(0, known - 1))
        self._pairs.pop((metric, period), None)  # until it is complete again
        if known and marks[:1] != pair.marks[-1:]:  # a failover lost an acceptance: nothing known here is certain
            pair, known = _Pair(), 0
            marks = self._storage.accepted(metric, period)
        pair.expected = max(pair.expected, expected)
        unread = marks[1:] if known else marks
        for number, mark in enumerate(unread):
            ordered = self._read_hashes(metric, period, mark)
            self._take_in(metric, period, pair, mark, Fresh(ordered), len(ordered) * (len(unread) - number))
        self._keep(metric, period, pair)
        return pair

    def _take_in(self, metric: bytes, period: int, pair: _Pair, mark: bytes, fresh: Fresh, expected: int) -> None:
        """Add one batch to the filters of its pair, which get room for all expected nonces and more."""
        needed = max(pair.held + expected, pair.expected)
        if needed > pair.all.capacity < self._largest:
            capacity = min(self._largest, max(2 * needed, _GROWTH * pair.all.capacity))
            pair.all = _of_a_pair(0)  # the old filter is freed before the new one is made
            self._make_room(pair.size + NonceFilter.size_of(capacity, _PAIR_BITS))
            pair.all = _of_a_pair(capacity)
            for earlier in pair.marks:
                pair.all.add(self._read_hashes(metric, period, earlier))
        more = pair.more(len(fresh.hashes))
        self._make_room(pair.size + (more if pair.size + more <= self._limit else 0))
        pair.add(mark, fresh, room=self._limit)

    def _make_room(self, needed: int) -> None:
        """Drop the least recently used pairs until this many bytes are free for the pair at work."""
        while self._pairs and self.size + needed > self._limit:
            self._pairs.popitem(last=False)

    def _read(self, metric: bytes, period: int, mark: bytes) -> NDArray[Any]:
        return as_nonces(self._storage.nonces(metric, period, mark))

    def _read_hashes(self, metric: bytes, period: int, mark: bytes) -> Hashes:
        import numpy as np

        return np.sort(hashes(self._read(metric, period, mark)))

    def _keep(self, metric: bytes, period: int, pair: _Pair) -> None:
        """Keep this pair as the most recently used; others are dropped if there is no room for all."""
        self._make_room(pair.size)
        pair.used = monotonic()
        self._pairs[metric, period] = pair
