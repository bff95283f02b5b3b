"""Randomness for simulations and tests only: fast, repeatable and NOT private.

Nothing that a device runs may import this package. An import contract enforces it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from hubbub.mechanisms._crowd_simulation import CrowdRandomness
from hubbub.randomness import Randomness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["InsecureBulkRandomness", "InsecureRandomness"]


class InsecureRandomness(Randomness):
    """A seeded Mersenne twister with the interface of the real randomness."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)  # noqa: S311  repeatable on purpose; see the module's first line

    def bits(self, count: int) -> int:
        return self._generator.getrandbits(count) if count else 0


class InsecureBulkRandomness(CrowdRandomness):
    """A seeded PCG64 with the interface of the real randomness, and draws for whole crowds."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, np.uint64)

    def binomial(self, trials: NDArray[np.int64], chances: NDArray[np.float64] | float) -> NDArray[np.int64]:
        return np.asarray(self._generator.binomial(trials, chances), np.int64)

    def multinomial(self, trials: int, chances: ArrayLike) -> NDArray[np.int64]:
        shares = np.asarray(chances, np.float64)
        return np.asarray(self._generator.multinomial(trials, shares / shares.sum()), np.int64)

    def without_replacement(self, size: int, count: int) -> NDArray[np.int64]:
        """`count` different numbers of 0 .. size-1. Every set of them is equally likely."""
        return np.asarray(self._generator.choice(size, count, replace=False), np.int64)
