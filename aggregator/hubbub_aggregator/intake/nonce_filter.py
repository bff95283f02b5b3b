"""In-memory filter of nonces: it rules out most nonces that were never added, without any other lookup.

A Bloom filter that keeps all bits of a nonce in one block of few words (Putze, Sanders, Singler, "Cache-, Hash- and
Space-Efficient Bloom Filters", 2007, section 3), so that a lookup costs one memory access, however full it is. It never
misses an added nonce, and is wrong about some others: with blocks of one word about 41 in 10,000 at 16 bits per nonce,
with four words about 1.5 in 10,000 at 24 bits. The place of a nonce depends on random numbers of this process, so that
an outsider cannot choose nonces that collide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub_service_common.process.clock_and_entropy import entropy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

__all__ = ["Asked", "NonceFilter", "hashes"]

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
        self._blocks = self.size_of(capacity, bits, words) * 8 // (words * _WORD)
        self._words = [np.zeros(self._blocks, np.uint64) for _ in range(words)]
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

        for piece in _pieces(ordered):
            at = self._at(piece)
            begins = _begins(at)
            at = at[begins]
            for number, words in enumerate(self._words):
                words[at] |= np.bitwise_or.reduceat(self._bits(piece, number), begins)

    def ask(self, ordered: Hashes) -> Asked:
        """Which of these sorted hashes may have been added, and what is needed to add all of them soon after.

        For a large filter with blocks of one word: its memory is in no cache, and one read serves both.
        """
        import numpy as np

        (words,), maybe, writes, start = self._words, list[Any](), list[Any](), 0
        for piece in _pieces(ordered):
            at, bits = self._at(piece), self._bits(piece, 0)
            found = words[at]
            maybe.append(np.flatnonzero((found & bits) == bits) + start)
            begins = _begins(at)
            writes.append((at[begins], found[begins] | np.bitwise_or.reduceat(bits, begins)))
            start += len(piece)
        return Asked(self.name, np.concatenate(maybe) if maybe else np.zeros(0, np.intp), writes)

    def add_asked(self, asked: Asked) -> None:
        """Add all hashes that were asked about. Nothing may have been added to this filter since then."""
        for at, found in asked.writes:
            self._words[0][at] = found

    def may_hold(self, hashed: Hashes) -> NDArray[np.intp]:
        """The positions of the hashes that may have been added. The others were not."""
        import numpy as np

        found, start = list[Any](), 0
        for piece in _pieces(hashed):
            some = self._may_hold(piece, 0)
            for number in range(1, len(self._words)):
                some = some[self._may_hold(piece[some], number)]
            found.append(some + start)
            start += len(piece)
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _may_hold(self, hashed: Hashes, number: int) -> NDArray[np.intp]:
        """The same, judged by one word of each block."""
        import numpy as np

        bits = self._bits(hashed, number)
        return np.flatnonzero((self._words[number][self._at(hashed)] & bits) == bits)

    def _at(self, hashed: Hashes) -> NDArray[np.intp]:
        """The block of each hash. Sorted hashes have sorted blocks."""
        import numpy as np

        return ((hashed >> np.uint64(32)) * np.uint64(self._blocks) >> np.uint64(32)).astype(np.intp)

    def _bits(self, hashed: Hashes, number: int) -> Hashes:
        """The bits of each hash in this word of its block."""
        import numpy as np

        one, low = np.uint64(1), np.uint64(_WORD - 1)
        places = hashed * self._secret >> np.uint64(64 - 6 * self._set * (number + 1))
        found: Hashes = one << (places & low)
        for further in range(1, self._set):
            found |= one << ((places >> np.uint64(6 * further)) & low)
        return found


class Asked(NamedTuple):
    """What a filter knows of some hashes, and the words that it would have after adding them."""

    name: object
    """Identifies the filter. It is not the filter itself, which must be freed before a larger one replaces it."""
    maybe: NDArray[np.intp]
    """The positions of the hashes that it may hold."""
    writes: list[tuple[NDArray[np.intp], Hashes]]
    """Places and words, piece by piece."""


def _begins(at: NDArray[np.intp]) -> NDArray[np.intp]:
    """The positions where another block begins."""
    import numpy as np

    return np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))


def _pieces(hashed: Hashes) -> Iterator[Hashes]:
    for start in range(0, len(hashed), _PIECE):
        yield hashed[start : start + _PIECE]
