"""Fast, repeatable and NOT private: randomness for simulations and tests only.

Nothing that a device runs may import this module; an import contract holds the SDK to it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from hubbub.randomness import BulkRandomness, Randomness

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["InsecureBulkRandomness", "InsecureRandomness"]


class InsecureRandomness(Randomness):
    """A seeded Mersenne twister behind the interface of the real thing."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)  # noqa: S311  repeatable on purpose; see the module's first line

    def bits(self, count: int) -> int:
        return self._generator.getrandbits(count) if count else 0


class InsecureBulkRandomness(BulkRandomness):
    """A seeded PCG64 behind the interface of the real thing."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, np.uint64)
