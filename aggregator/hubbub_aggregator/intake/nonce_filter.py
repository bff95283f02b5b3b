"""In-memory filter of nonces: it rules out most nonces that were never added, without any other lookup.

A Bloom filter that keeps all bits of a nonce in one block of few words (Putze, Sanders, Singler, "Cache-, Hash- and
Space-Efficient Bloom Filters", 2007, section 3), so that a lookup costs one memory access, however full it is. It never
misses an added nonce, and is wrong about some others: with blocks of one word about 41 in 10,000 at 16 bits per nonce,
with four words about 1.5 in 10,000 at 24 bits. The place of a nonce depends on random numbers of this process, so that
an outsider cannot choose nonces that collide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub_service_common.process.clock_and_entropy import entropy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

__all__ = ["Asked", "NonceFilter", "Question", "hashes"]

_SET = {1: 5, 4: 2}
"""Words in a block, and bits that one nonce sets in each word: the best numbers at 16 and at 24 bits per nonce."""
_WORD = 64
_PIECE = 2**14
"""Nonces that are processed at once. Intermediate results then stay in the cache of a core."""
_SECRETS = [int.from_bytes(entropy(8)) | 1 for _ in range(5)]


def hashes(nonces: NDArray[Any]) -> Hashes:
    """A 64-bit hash of each 16-byte nonce. It is the same for all filters of this process, and of no other."""
    import numpy as np

    halves = nonces.view(np.uint64).reshape(-1, 2)
    first, second, times, also, last = (np.uint64(secret) for secret in _SECRETS)
    found: Hashes = (halves[:, 0] ^ first) * times
    found ^= found >> np.uint64(32)
    found += (halves[:, 1] ^ second) * also
    found ^= found >> np.uint64(29)
    found *= last
    found ^= found >> np.uint64(32)
    return found


class NonceFilter:
    """Room for `capacity` nonces, at `bits` bits each. More may be added; then it is wrong more often.

    Blocks of more words are wrong less often, and take longer to add to. Filters with different `secret`s, which are
    odd numbers, are wrong about different nonces.
    """

    def __init__(self, capacity: int, bits: int, secret: int, words: int = 1) -> None:
        import numpy as np

        self.name = object()
        self.capacity, self._secret, self._set = capacity, np.uint64(secret), _SET[words]
        self.words, self.kind = words, (secret, words)
        """Filters of one kind look for a hash by the same bits, and those with as many blocks in the same place."""
        self.blocks = self.size_of(capacity, bits, words) * 8 // (words * _WORD)
        self._words = [np.zeros(self.blocks, np.uint64) for _ in range(words)]
        """The first word of each block, then the second of each: a nonce that the first rules out touches no other."""

    @staticmethod
    def size_of(capacity: int, bits: int, words: int = 1) -> int:
        """Bytes that a filter takes."""
        return max(1, capacity * bits // (words * _WORD)) * words * _WORD // 8

    @property
    def size(self) -> int:
        return sum(int(words.nbytes) for words in self._words)

    def add(self, ordered: Hashes) -> None:
        """Add these hashes. They are sorted, so that memory is written from start to end."""
        import numpy as np

        for piece in (ordered[some] for some in _slices(len(ordered))):
            at = self.at(piece)
            begins = _begins(at)
            at = at[begins]
            for number, words in enumerate(self._words):
                words[at] |= np.bitwise_or.reduceat(self.bits(piece, number), begins)

    def ask(self, ordered: Hashes) -> Asked:
        """Which of these sorted hashes may have been added, and what is needed to add all of them soon after.

        For a large filter with blocks of one word: its memory is in no cache, and one read serves both.
        """
        import numpy as np

        (words,), size, maybe = self._words, len(ordered), list[Any]()
        at, changed = np.empty(size, np.intp), np.empty(size, np.uint64)
        for piece in _slices(size):
            at[piece] = self.at(ordered[piece])
            found = words.take(at[piece])
            np.bitwise_or(found, self.bits(ordered[piece], 0), out=changed[piece])
            maybe.append(np.flatnonzero(changed[piece] == found) + piece.start)
        same = np.flatnonzero(at[1:] == at[:-1])
        shared = np.concatenate((same, same + 1))  # some of them twice, which changes nothing
        return Asked(self.name, _joined(maybe), at, changed, at[shared], self.bits(ordered[shared], 0))

    def add_asked(self, asked: Asked) -> None:
        """Add all hashes that were asked about. Nothing may have been added to this filter since then."""
        import numpy as np

        (words,) = self._words
        words[asked.at] = asked.words
        np.bitwise_or.at(words, asked.shared, asked.bits)

    def may_hold(self, question: Question) -> NDArray[np.intp]:
        """The positions of the hashes that may have been added. The others were not."""
        import numpy as np

        places, (first, *others), found = question.places(self), question.bits(self), list[Any]()
        for piece in _slices(len(places)):
            bits = first[piece]
            some = np.flatnonzero((self._words[0].take(places[piece]) & bits) == bits) + piece.start
            at = places[some]
            for words, bits_of in zip(self._words[1:], others, strict=True):
                bits = bits_of[some]
                have = (words.take(at) & bits) == bits
                some, at = some[have], at[have]
            found.append(some)
        return _joined(found)

    def at(self, hashed: Hashes) -> NDArray[np.intp]:
        """The block of each hash. Sorted hashes have sorted blocks."""
        import numpy as np

        return ((hashed >> np.uint64(32)) * np.uint64(self.blocks) >> np.uint64(32)).astype(np.intp)

    def bits(self, hashed: Hashes, number: int) -> Hashes:
        """The bits of each hash in this word of its block."""
        import numpy as np

        one, low = np.uint64(1), np.uint64(_WORD - 1)
        places = hashed * self._secret >> np.uint64(64 - 6 * self._set * (number + 1))
        found: Hashes = one << (places & low)
        for further in range(1, self._set):
            found |= one << ((places >> np.uint64(6 * further)) & low)
        return found


class Question:
    """Hashes that several filters are asked about. What filters of one kind or size need is worked out once."""

    def __init__(self, hashed: Hashes) -> None:
        self.hashed = hashed
        self._places: tuple[object, NDArray[np.intp]] | None = None
        self._bits: tuple[object, list[Hashes]] | None = None

    def but(self, left: NDArray[np.bool_]) -> Question:
        """The same with those hashes only that are left."""
        fewer = Question(self.hashed[left])
        if self._places is not None:
            fewer._places = self._places[0], self._places[1][left]
        if self._bits is not None:
            fewer._bits = self._bits[0], [bits[left] for bits in self._bits[1]]
        return fewer

    def places(self, filter_: NonceFilter) -> NDArray[np.intp]:
        """The block of each hash in this filter."""
        if self._places is None or self._places[0] != filter_.blocks:
            self._places = filter_.blocks, _piecewise(filter_.at, self.hashed)
        return self._places[1]

    def bits(self, filter_: NonceFilter) -> list[Hashes]:
        """The bits of each hash in each word of its block."""
        if self._bits is None or self._bits[0] != filter_.kind:
            bits = [_piecewise(partial(filter_.bits, number=number), self.hashed) for number in range(filter_.words)]
            self._bits = filter_.kind, bits
        return self._bits[1]


class Asked(NamedTuple):
    """What a filter knows of some hashes, and what to write to add them."""

    name: object
    """Identifies the filter. It is not the filter itself, which must be freed before a larger one replaces it."""
    maybe: NDArray[np.intp]
    """The positions of the hashes that it may hold."""
    at: NDArray[np.intp]
    words: Hashes
    """For each hash, its block as it is with this hash added."""
    shared: NDArray[np.intp]
    bits: Hashes
    """Blocks that several of the hashes share, and the bits of each of these: only one of the words gets written."""


def _begins(at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The positions where another block begins."""
    import numpy as np

    return np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))


def _slices(size: int) -> Iterator[slice]:
    for start in range(0, size, _PIECE):
        yield slice(start, min(start + _PIECE, size))


def _joined(positions: list[Any]) -> NDArray[np.intp]:
    import numpy as np

    return np.concatenate(positions) if positions else np.zeros(0, np.intp)


def _piecewise(work: Callable[[Hashes], NDArray[Any]], hashed: Hashes) -> NDArray[Any]:
    import numpy as np

    return np.concatenate([work(hashed[piece]) for piece in _slices(len(hashed))] or [work(hashed)])
