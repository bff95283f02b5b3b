r"""Weights of a mixture's components: those with the least mean variance of the shares in the first k bins.

With J = sum_l c_l J_l and K = sum_k w_k w_k', the mean variance is tr(K J^-1) up to a constant. It is convex in c, and
the multiplicative step

    c_l  <-  c_l g_l^s / sum,       g_l = tr(K J^-1 J_l J^-1)

leaves the optimum where it is (Silvey, Titterington and Torsney, Communications in Statistics A7, 1978, for s = 1/2).
Because of convexity, max g_l / sum(c_l g_l) - 1 bounds how far the value is above the optimum.

Weights depend little on epsilon. They are found for epsilons in steps of 9 %, so that a search over epsilons finds
them once, and that the integers of a codebook do not hang on the last digit of a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._channel_component import Component
from hubbub.mechanisms._set_component import Sets
from hubbub.mechanisms._weighted_sums import Part, information

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["best_sets", "design_epsilon", "weighted"]

SMALLEST, LARGEST = -5, 4
"""Powers of two. A design for epsilon 1/32 serves every smaller one, and one for 16 every larger one."""
STEPS = 8
"""Designs from one power of two to the next."""
LEAST_WEIGHT = 0.02
"""Components with less are left out: they cost a tally more cells than they are worth."""
_EXPONENT, _MOST_STEPS = 0.9, 1_000
_FEW, _CLOSE, _NEAR = 64, 1e-3, 5e-3
"""Up to 64 bins the value is within 0.1 % of the least, and beyond, where each step takes long, within 0.5 %."""

Weighted = tuple[tuple[Component, int], ...]


def design_epsilon(epsilon: Fraction) -> float:
    """The epsilon for which weights are found, near the one that is asked for."""
    place = round(STEPS * math.log2(epsilon))
    return float(2.0 ** (min(max(place, STEPS * SMALLEST), STEPS * LARGEST) / STEPS))


def best_sets(size: int, width: int, epsilon: float) -> Sets:
    """Sets of as many cells as have the least variance for the share of a cell."""
    cells, odds = -(-size // width), math.exp(epsilon)

    def variance(count: int) -> float:
        p = count * odds / (count * odds + cells - count)
        q = (count - p) / (cells - 1)
        return q * (1 - q) / (p - q) ** 2 + (1 - p - q) / (p - q) / cells

    middle = int(cells / (odds + 1))
    return Sets(size, width, min((k for k in range(middle - 1, middle + 3) if 0 < k < cells), key=variance))


@lru_cache(maxsize=256)
def weighted(listed: Callable[[int, float], tuple[Component, ...]], size: int, epsilon: float, whole: int) -> Weighted:
    """The components that `listed` gives for a size and an epsilon, with integer weights that sum to `whole`.

    Those of small weight are left out.
    """
    try:
        import numpy as np
    except ImportError as error:  # a device has none, and needs none: a compiled codebook states the weights
        raise InvalidParameter(
            "finding the weights of components needs numpy, which is not installed",
            "use the compiled codebook, codebook.json",
        ) from error

    components = listed(size, epsilon)
    odds = math.exp(epsilon)
    near = [one.near * odds / (one.near * odds + one.far) for one in components]
    matrices = np.stack([information(Part(one, 1.0, p), size)[1] for one, p in zip(components, near, strict=True)])
    chances = _best(matrices, np.full(len(matrices), 1 / len(matrices)))
    kept = np.flatnonzero(chances >= LEAST_WEIGHT)
    integers = _integers(_best(matrices[kept], chances[kept]), whole)
    return tuple((components[place], weight) for place, weight in zip(kept.tolist(), integers, strict=True))


def _best(matrices: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances with which the mean variance is certainly close to the least, from a first guess."""
    import numpy as np

    size, chances = matrices.shape[1], start / start.sum()
    blocks = [(some, some.reshape(len(some), -1), queries) for some, queries in _blocks(matrices)]
    for _ in range(_MOST_STEPS):
        gains = np.zeros(len(chances))
        for some, flat, queries in blocks:
            inverse = np.linalg.inv(np.tensordot(chances, some, 1))
            gains += flat @ (inverse @ queries @ inverse).ravel()
        relative = gains / (chances @ gains)
        if relative.max() <= 1 + (_CLOSE if size <= _FEW else _NEAR):
            break
        chances = chances * relative**_EXPONENT
        chances /= chances.sum()
    return np.asarray(chances)


def _blocks(matrices: NDArray[np.float64]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The matrices and K, as blocks on the diagonal of a basis in which all of the matrices have such blocks.

    Where the cells of all sets are equally wide, counting bins from the other end changes nothing. What is even and
    what is odd under that stay apart, and inverting two halves takes a quarter of the time.
    """
    import numpy as np

    size = matrices.shape[1]
    firsts = np.tri(size - 1, size)
    queries, half = firsts.T @ firsts, np.eye(size // 2) / np.sqrt(2)
    if size % 2 or not np.allclose(matrices, matrices[:, ::-1, ::-1]):
        return [(matrices, queries)]
    bases = [np.vstack([half, sign * half[::-1]]) for sign in (1, -1)]
    return [(basis.T @ matrices @ basis, basis.T @ queries @ basis) for basis in bases]


def _integers(chances: NDArray[np.float64], whole: int) -> list[int]:
    """The chances out of `whole`: rounded down, and the rest to those that lost most."""
    import numpy as np

    floors = np.floor(chances * whole).astype(np.int64)
    lost = np.argsort(floors - chances * whole, kind="stable")
    floors[lost[: whole - int(floors.sum())]] += 1
    found: list[int] = floors.tolist()
    return found
