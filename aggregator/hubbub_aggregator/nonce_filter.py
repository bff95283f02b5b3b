"""A filter of nonces in memory: says of most that they were never added, without looking anywhere else.

A Bloom filter whose bits for one nonce are all in one word of 64 (Putze, Sanders, Singler, "Cache-, Hash- and
Space-Efficient Bloom Filters", 2007, section 3), so that asking costs one access to memory whatever it holds. It never
misses what was added, and is wrong about some others: 4 in 1,000 at 16 bits for each nonce, 1 at 24 bits. Where a nonce
goes depends on random numbers of this process, so that nobody outside can choose nonces that fall together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

__all__ = ["NonceFilter", "hashes"]

_SET = 5
"""Bits that one nonce sets."""
_PIECE = 2**15
"""Nonces that are worked on at once: what the arithmetic takes for itself then stays in the cache of a core."""
_SECRETS = [int.from_bytes(os.urandom(8)) | 1 for _ in range(5)]


def hashes(nonces: NDArray[Any]) -> Hashes:
    """64 bits of each nonce of 16 bytes, the same in all filters of this process and of no other."""
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
    """Room for a number of nonces, at a number of bits each. More may be added; then it is wrong more often.

    Filters with unlike `secret`s, odd numbers, are wrong about unlike nonces.
    """

    def __init__(self, capacity: int, bits: int, secret: int) -> None:
        import numpy as np

        self.capacity, self._secret = capacity, np.uint64(secret)
        self._words = np.zeros(self.size_of(capacity, bits) // 8, np.uint64)

    @staticmethod
    def size_of(capacity: int, bits: int) -> int:
        """Bytes that a filter takes."""
        return max(1, capacity * bits // 64) * 8

    @property
    def size(self) -> int:
        return int(self._words.nbytes)

    def add(self, ordered: Hashes) -> None:
        """Never be wrong about these. They are sorted, so that memory is written from its begin to its end."""
        import numpy as np

        for piece in _pieces(ordered):
            at, bits = self._at(piece), self.bits(piece)
            begins = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
            self._words[at[begins]] |= np.bitwise_or.reduceat(bits, begins)

    def may_hold(self, hashed: Hashes) -> NDArray[np.intp]:
        """Which of them may have been added, by their positions. The others were not."""
        import numpy as np

        found, start = list[Any](), 0
        for piece in _pieces(hashed):
            found.append(self.may_hold_bits(piece, self.bits(piece)) + start)
            start += len(piece)
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def may_hold_bits(self, hashed: Hashes, bits: Hashes) -> NDArray[np.intp]:
        """The same for few, with their bits: those are the same in all filters with the same secret."""
        import numpy as np

        return np.flatnonzero((self._words[self._at(hashed)] & bits) == bits)

    def _at(self, hashed: Hashes) -> NDArray[np.intp]:
        """The word of each, in the order of the hashes."""
        import numpy as np

        return ((hashed >> np.uint64(32)) * np.uint64(len(self._words)) >> np.uint64(32)).astype(np.intp)

    def bits(self, hashed: Hashes) -> Hashes:
        """The bits of each in its word."""
        import numpy as np

        one, low = np.uint64(1), np.uint64(63)
        places = hashed * self._secret >> np.uint64(64 - 6 * _SET)
        found: Hashes = one << (places & low)
        for number in range(1, _SET):
            found |= one << ((places >> np.uint64(6 * number)) & low)
        return found


def _pieces(hashed: Hashes) -> Iterator[Hashes]:
    for start in range(0, len(hashed), _PIECE):
        yield hashed[start : start + _PIECE]
