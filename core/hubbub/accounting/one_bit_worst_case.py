"""The exact δ(ε) of the worst data set of one-bit reports, not just a bound on it.

Every data set is a mixture of those with inputs 0 and 1, and δ is convex. So the answer is the largest δ_m over both
directions and over the number m of others that hold 1. `one_bit_delta` computes δ_m.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hubbub.accounting.blanket import MOST_REPORTS
from hubbub.accounting.epsilon_search import smallest_epsilon
from hubbub.accounting.one_bit_delta import Coin, deltas

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DATA_SETS = 10_000
"""Up to this many reports every data set is evaluated. Above it, blocks of data sets are."""


class Census:
    """Every data set of a batch, or blocks of them, in both directions.

    A block of w neighbouring m is bounded by its common part, a batch of n - (w - 1). The other w - 1
    report independently of the victim, so putting them back is post-processing. At both ends some data sets
    are evaluated one by one, because the worst is among them if reports are rarely flipped.
    """

    def __init__(self, coin: Coin, reports: int, blocks: int = MOST_DATA_SETS) -> None:
        reports = min(reports, MOST_REPORTS)
        width, edge = -(-reports // blocks), blocks // 10 if reports > blocks else 0
        middle = np.arange(edge, reports - edge, width)
        starts = np.concatenate([np.arange(edge), middle, np.arange(reports - edge, reports)])
        self._edge, self._ones = edge, starts
        self._zeros = reports - np.append(starts[1:], reports)  # how many hold 0 if m is the last of its block
        self._sides = coin.directions() if coin.low != coin.high else ()

    def delta(self, epsilon: float, enough: float = 1.0) -> float:
        """The maximum of δ(ε) over data sets and directions, from above, or any value found above `enough`."""
        some = self._worst(self._spaced(), epsilon)
        if some > enough:
            return some
        return max((float(found.max()) for found in self._all(epsilon, some)), default=0.0)

    def epsilon(self, delta: float, ceiling: float, guess: float) -> float:
        """The smallest ε below `ceiling` at which `delta` is certified for all data sets, or `ceiling`.

        Few data sets are near the worst. ε is solved for those and then checked on all.
        """
        some, found = self._spaced(), 0.0
        for _ in range(8):
            found = smallest_epsilon(partial(self._worst, some), delta, ceiling, max(guess, found), found)
            values = self._all(found, delta)
            if found >= ceiling or all(float(value.max()) <= delta for value in values):
                return found
            some = [
                np.unique(np.concatenate([chosen, np.argsort(-value)[:64]]))
                for chosen, value in zip(some, values, strict=True)
            ]
        return smallest_epsilon(self.delta, delta, ceiling, found, found)

    def _spaced(self) -> list[NDArray[np.intp]]:
        count = len(self._ones)
        at = np.union1d(np.arange(0, count, max(1, count // 128)), [self._edge, count - self._edge - 1])
        return [at[at < count] for _ in self._sides]

    def _all(self, epsilon: float, enough: float = 0.0) -> list[NDArray[np.float64]]:
        """δ(ε) of every data set. Those shown to be at most `enough` are not evaluated more closely."""
        return [deltas(side, self._zeros, self._ones, epsilon, enough) for side in self._sides]

    def _worst(self, some: list[NDArray[np.intp]], epsilon: float) -> float:
        found = [
            deltas(side, self._zeros[chosen], self._ones[chosen], epsilon)
            for side, chosen in zip(self._sides, some, strict=True)
        ]
        return max((float(value.max()) for value in found), default=0.0)
