r"""Exact randomness: integers from the operating system, never a float.

Every decision on a privacy path is one of six draws, each exact in integer arithmetic:

    below(n)          uniform on 0 .. n-1, by rejection
    coin(a, b)        True with probability a / b
    coins(n, a, b)    n independent bits, each 1 with probability a / 2**b
    pick(cumulative)  index i with probability proportional to the i-th integer weight
    coin_exp(a, b)    True with probability exp(-a / b)          (Canonne, Kamath, Steinke 2020, Alg. 1)
    retry(attempt)    the first result of `attempt` that is not None

`discrete_laplace`, `subset` and `subset_bits` are built from these. A test can therefore subclass `Randomness`,
branch over all outcomes of the six, and learn the *exact* law of any sampler without knowing its formula.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010,
Algorithms 1 (exponential coin) and 2 (discrete Laplace).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BulkRandomness",
    "Randomness",
    "SystemBulkRandomness",
    "SystemRandomness",
    "discrete_laplace",
    "ones",
    "subset",
    "subset_bits",
]

T = TypeVar("T")

WORD = 2**64
"""Mechanisms state their fixed probabilities as integers out of this."""


class Randomness(ABC):
    """Draws of single values. A subclass supplies uniform bits."""

    @abstractmethod
    def bits(self, count: int) -> int:
        """A uniform integer of `count` bits."""

    def below(self, bound: int) -> int:
        """Uniform on 0 .. bound-1, by rejection. A modulo would favour small values."""
        if bound < 1:
            raise ValueError(f"bound must be at least 1, got {bound}")
        width = (bound - 1).bit_length()
        while True:
            drawn = self.bits(width)
            if drawn < bound:
                return drawn

    def coin(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator, exactly."""
        if not 0 <= numerator <= denominator:
            raise ValueError(f"a probability is between 0 and 1, got {numerator}/{denominator}")
        return self.below(denominator) < numerator

    def coins(self, count: int, numerator: int, places: int) -> int:
        """An integer of `count` independent bits, each 1 with probability numerator / 2**places, exactly.

        It works digit by digit, the last one first. If the bit so far is 1 with probability p, then a uniform bit OR it
        is 1 with probability (1 + p)/2, and a uniform bit AND it with p/2. Each step puts one more digit of the
        numerator behind the binary point. All bits are drawn at once, always in the same time.
        """
        if not 0 <= numerator <= 1 << places:
            raise ValueError(f"a probability is between 0 and 1, got {numerator}/2**{places}")
        every = (1 << count) - 1
        if numerator == 1 << places:
            return every
        while places and not numerator & 1:
            numerator, places = numerator >> 1, places - 1
        drawn, found = self.bits(count * places), 0
        for place in range(places):
            word = drawn >> place * count & every
            found = found | word if numerator >> place & 1 else found & word
        return found

    def buffered(self, size: int) -> Randomness:  # noqa: ARG002  only a subclass that fetches bytes uses it
        """The same draws for one short computation. Fetches `size` bytes at once if it can."""
        return self

    def pick(self, cumulative: Sequence[int]) -> int:
        """Index i with probability (cumulative[i] - cumulative[i-1]) / cumulative[-1]."""
        return bisect_right(cumulative, self.below(cumulative[-1]))

    def coin_exp(self, numerator: int, denominator: int) -> bool:
        """True with probability exp(-numerator/denominator), exactly (CKS 2020, Algorithm 1)."""
        if numerator < 0:
            raise ValueError(f"the exponent must not be positive, got {numerator}/{denominator}")
        while numerator > denominator:  # exp(-g) = exp(-1) exp(-(g-1)): all factors must succeed
            if not self.coin_exp(1, 1):
                return False
            numerator -= denominator
        trials = 1
        while self.coin(numerator, denominator * trials):
            trials += 1
        return trials % 2 == 1

    def retry(self, attempt: Callable[[], T | None]) -> T:
        """Run a memoryless attempt until it yields something."""
        while (result := attempt()) is None:
            pass
        return result


class SystemRandomness(Randomness):
    """The operating system's generator. It holds no state, so forks and threads share nothing."""

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        return int.from_bytes(os.urandom(size)) >> (8 * size - count)

    def buffered(self, size: int) -> Randomness:
        return _Fetched(size)


class _Fetched(Randomness):
    """Bytes of the operating system, fetched in one call and each used once. An instance must not outlive the call that
    makes it, because a fork would share its bytes."""

    def __init__(self, size: int) -> None:
        self._bytes, self._used = os.urandom(size), 0

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        start, end = self._used, self._used + size
        if end > len(self._bytes):
            self._bytes, start, end = os.urandom(max(size, 64)), 0, size
        self._used = end
        return int.from_bytes(self._bytes[start:end]) >> (8 * size - count)


def discrete_laplace(rng: Randomness, scale: int, rate: int) -> int:
    r"""An integer Y with P[Y = y] proportional to exp(-|y| rate/scale), exactly (CKS 2020, Algorithm 2)."""
    if scale < 1 or rate < 1:
        raise ValueError(f"scale and rate must be positive integers, got {scale} and {rate}")

    def attempt() -> int | None:
        rest = rng.below(scale)
        if not rng.coin_exp(rest, scale):
            return None
        whole = 0
        while rng.coin_exp(1, 1):
            whole += 1
        magnitude = (rest + scale * whole) // rate
        negative = rng.coin(1, 2)
        if negative and magnitude == 0:  # only the positive zero counts, or zero would be twice as likely
            return None
        return -magnitude if negative else magnitude

    return rng.retry(attempt)


def subset(rng: Randomness, size: int, count: int) -> list[int]:
    """A uniform `count`-subset of 0 .. size-1, sorted (Floyd's algorithm: one draw per element)."""
    if not 0 <= count <= size:
        raise ValueError(f"cannot choose {count} of {size}")
    chosen: set[int] = set()
    for last in range(size - count, size):
        drawn = rng.below(last + 1)
        chosen.add(last if drawn in chosen else drawn)
    return sorted(chosen)


def subset_bits(rng: Randomness, size: int, count: int) -> int:
    """A uniform `count`-subset of 0 .. size-1 as the 1 bits of an integer. Faster than `subset` for a large count.

    A coin for each element gives about `count` of them. Then the surplus is removed, or the shortfall added, uniformly.
    Coins favour no element, so the set is uniform given its size, before that step and after it.
    """
    if not 0 <= count <= size or size < 1:
        raise ValueError(f"cannot choose {count} of {size}")
    if 16 * count < size:  # for few elements, one draw each is faster
        return sum(1 << place for place in subset(rng, size, count))
    found = rng.coins(size, (256 * count + size // 2) // size, 8)
    off = found.bit_count() - count
    there = ones(found if off > 0 else found ^ ((1 << size) - 1))
    for place in subset(rng, len(there), abs(off)):
        found ^= 1 << there[place]
    return found


def ones(number: int) -> list[int]:
    """The positions of the 1 bits, in ascending order."""
    if 8 * number.bit_count() > number.bit_length():
        return [place for place, digit in enumerate(bin(number)[:1:-1]) if digit == "1"]
    places = []
    while number:
        places.append((number & -number).bit_length() - 1)
        number &= number - 1
    return places


class BulkRandomness(ABC):
    """The same draws as arrays, for many values at once. It loads numpy; devices never need it."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` uniform 64-bit words."""

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Uniform on 0 .. bound-1, by rejection on the top bits."""
        import numpy as np

        if not 1 <= bound <= 2**63:
            raise ValueError(f"bound must be from 1 to 2**63, got {bound}")
        width = (bound - 1).bit_length()
        if width == 0:
            return np.zeros(count, np.int64)
        shift = np.uint64(64 - width)
        kept = np.empty(count, np.uint64)
        done = 0
        while done < count:
            drawn = self.words(count - done) >> shift
            drawn = drawn[drawn < np.uint64(bound)]
            kept[done : done + len(drawn)] = drawn
            done += len(drawn)
        return kept.astype(np.int64)

    def coin(self, threshold: int, count: int) -> NDArray[np.bool_]:
        """True with probability threshold / 2**64."""
        import numpy as np

        if not 0 <= threshold <= WORD:
            raise ValueError(f"threshold must be from 0 to 2**64, got {threshold}")
        if threshold == WORD:
            return np.ones(count, np.bool_)
        return self.words(count) < np.uint64(threshold)

    def coins(self, rows: int, size: int, threshold: int) -> NDArray[np.uint8]:
        """Rows of `size` bytes, whose bits are independent and 1 with probability threshold / 2**64."""
        import numpy as np

        if not 0 <= threshold < WORD:
            raise ValueError(f"threshold must be from 0 to 2**64 - 1, got {threshold}")
        count = -(-rows * size // 8)
        found, places = np.zeros(count, np.uint64), 64
        while places and not threshold & 1:
            threshold, places = threshold >> 1, places - 1
        for place in range(places):
            word = self.words(count)
            found = found | word if threshold >> place & 1 else found & word
        return found.view(np.uint8)[: rows * size].reshape(rows, size)

    def coin_exp(self, numerators: NDArray[np.int64], denominator: int) -> NDArray[np.bool_]:
        """True with probability exp(-numerators/denominator), elementwise; numerators from 0 to denominator."""
        import numpy as np

        trials = np.zeros(len(numerators), np.int64)
        active = np.arange(len(numerators))
        step = 0
        while len(active):
            step += 1
            active = active[self.below(denominator * step, len(active)) < numerators[active]]
            trials[active] = step
        return np.equal(trials % 2, 0)

    def discrete_laplace(self, scale: int, rate: int, count: int) -> NDArray[np.int64]:
        """`count` independent draws of the law of `discrete_laplace`."""
        import numpy as np

        drawn = np.empty(count, np.int64)
        missing = np.arange(count)
        while len(missing):
            size = len(missing)
            rest = self.below(scale, size)
            accepted = self.coin_exp(rest, scale)
            whole = np.zeros(size, np.int64)
            going = np.flatnonzero(accepted)
            while len(going := going[self.coin_exp(np.ones(len(going), np.int64), 1)]):
                whole[going] += 1
            magnitude = (rest + scale * whole) // rate
            negative = self.coin(WORD // 2, size)
            accepted &= ~(negative & (magnitude == 0))
            drawn[missing[accepted]] = np.where(negative, -magnitude, magnitude)[accepted]
            missing = missing[~accepted]
        return drawn


class SystemBulkRandomness(BulkRandomness):
    """AES-128-CTR keystreams under keys from the operating system, twenty times faster than its own generator.

    Each draw takes a fresh key and keeps nothing, so forks and threads can never share a stream.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        import numpy as np
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        keystream = Cipher(AES(os.urandom(16)), CTR(bytes(16))).encryptor()
        return np.frombuffer(keystream.update(bytes(8 * count)), np.uint64)
