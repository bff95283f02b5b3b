r"""Random sets of `count` of `size` places that contain one place more often than the others: draws, counts, moments.

A set contains the held place with probability p; its other members are uniform. Of a set that holds x, another place
is a member with q = (k - p) / (d - 1), and two places v, w are members together with

    c1 = p (k-1) / (d-1)  if x is one of them,      c2 = (k-1) (k - 2p) / ((d-1) (d-2))  otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.randomness import ones, subset_bits

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

AT_ONCE = 2**22
"""Numbers drawn or unpacked in one step."""


def draw(rng: Randomness, held: int, size: int, count: int, keep: tuple[int, int]) -> int:
    """A set as the 1 bits of a number. It has the held place with probability `keep[0]` / `keep[1]`.

    First draw all but one of the set from the other places, numbered from the held one on. Then always draw the last
    one, even if the held place takes its place: a device must not take longer when it lies.
    """
    others = subset_bits(rng, size - 1, count - 1)
    last = rng.retry(lambda: _unless(others, rng.below(size - 1)))
    return turned(others | 1 << (size - 1 if rng.coin(*keep) else last), size, held + 1)


def turned(chosen: int, size: int, by: int) -> int:
    """The set with each place i moved to place (i + by) mod size."""
    by %= size
    return (chosen << by | chosen >> (size - by)) & ((1 << size) - 1)


def _unless(taken: int, place: int) -> int | None:
    return None if taken >> place & 1 else place


def place_bits(size: int) -> int:
    """Bits that hold the number of any place."""
    return (size - 1).bit_length()


def as_list(chosen: int, width: int) -> int:
    """The members of a set as a number: one after the other, `width` bits each, the smallest first."""
    return sum(place << i * width for i, place in enumerate(ones(chosen)))


def from_list(number: int, width: int, count: int) -> list[int]:
    """The members that a number lists."""
    return [number >> i * width & ((1 << width) - 1) for i in range(count)]


# -- at the aggregator ------------------------------------------------------------------------------


def draw_many(
    rng: BulkRandomness, held: NDArray[np.int64], size: int, count: int, keep: Callable[[int], NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """The sorted members of one set for each held place, one set per row, with the other places in the order of
    random words. A row with two equal words is drawn again, since its order would not be uniform.

    `keep` draws for a number of devices whether their set has the held place.
    """
    import numpy as np

    n, d = len(held), size
    order, missing = np.empty((n, d - 1), np.int64), np.arange(n)
    while len(missing):
        words = rng.words(len(missing) * (d - 1)).reshape(-1, d - 1)
        order[missing] = np.argsort(words, axis=1)
        sorted_words = np.sort(words, axis=1)
        missing = missing[np.equal(sorted_words[:, 1:], sorted_words[:, :-1]).any(axis=1)]
    chosen = order[:, :count]
    chosen[:, 0] = np.where(keep(n), d - 1, chosen[:, 0])
    return np.asarray(np.sort((chosen + held[:, None] + 1) % d, axis=1))


def is_few(every: NDArray[np.int64], size: int) -> bool:
    """Whether `every[x]` holders of each place x are so few that each had better draw its own set."""
    import numpy as np

    return bool(np.count_nonzero(every) * size > every.sum())


def simulate(rng: CrowdRandomness, every: NDArray[np.int64], size: int, count: int, p: float) -> NDArray[np.int64]:
    """How many sets of a crowd have each place, if `every[x]` devices hold x.

    Place by place: a device that needs r more of the m places left takes this one with chance r / m. This gives a
    uniform set of the other places, drawn at once for all devices that hold the same one.
    """
    import numpy as np

    some = np.flatnonzero(every)
    cells, need = np.zeros(size, np.int64), np.zeros((len(some), count + 1), np.int64)
    kept = rng.binomial(every[some], p)
    cells[some] = kept
    need[:, count - 1] += kept
    need[:, count] += every[some] - kept
    left, more = np.full((len(some), 1), size - 1), np.arange(count + 1)
    for place in range(size):
        others = some != place
        taken = rng.binomial(need[others], np.minimum(more / left[others], 1))
        cells[place] += taken.sum()
        need[others] -= taken
        need[others, :-1] += taken[:, 1:]
        left[others] -= 1
    return cells


def second_moments(shares: ArrayLike, count: int, p: float) -> NDArray[np.float64]:
    """How often two places are members together, if `shares[x]` of the devices hold x; on the diagonal, how often
    one is."""
    import numpy as np

    held = np.asarray(shares, np.float64)
    d, k = len(held), count
    q = (k - p) / (d - 1)
    sums = held[:, None] + held[None, :]
    together, beside = p * (k - 1) / (d - 1), (k - 1) * (k - 2 * p) / ((d - 1) * (d - 2)) if d > 2 else 0.0
    matrix = sums * together + (held.sum() - sums) * beside
    np.fill_diagonal(matrix, q * held.sum() + held * (p - q))
    return np.asarray(matrix)


def mean_squares(weights: NDArray[np.float64], count: int, p: float) -> NDArray[np.float64]:
    """E[(sum of the members' weights)^2] for each row of weights (axis 0) and each held place (axis 1).

    If r of m places are drawn, the square of their sum has the mean r/m S2 + r(r-1)/(m(m-1)) (S1^2 - S2), with S1 and
    S2 the sums of the weights and of their squares over the m places.
    """
    import numpy as np

    b, m = np.asarray(weights, np.float64), weights.shape[1] - 1
    first = b.sum(axis=1, keepdims=True) - b
    second = (b**2).sum(axis=1, keepdims=True) - b**2

    def drawn(r: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        pairs = r * (r - 1) / (m * (m - 1)) if m > 1 else 0.0
        return r / m * first, r / m * second + pairs * (first**2 - second)

    (with_mean, with_square), (_, without) = drawn(count - 1), drawn(count)
    return np.asarray(p * (b**2 + 2 * b * with_mean + with_square) + (1 - p) * without)
