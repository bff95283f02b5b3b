"""Crowd simulation: the tally of a whole crowd's reports, without drawing each report. For simulations only.

A crowd is `counts[i]` devices that hold `values[i]`. `Mechanism.simulate` draws a tally as if every value had been
randomized; this module has what the mechanisms share for that. A device draws one report and never needs it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._grid_rounding import positions
from hubbub.mechanisms._symbols import whole_numbers
from hubbub.randomness import BulkRandomness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms.domains import Bounds

AT_ONCE = 2**24
"""Bytes of encoded reports in memory at once, if reports are drawn one by one."""


class CrowdRandomness(BulkRandomness):
    """Draws for many devices at once. Floats decide here, so only a simulation may supply them."""

    @abstractmethod
    def binomial(self, trials: NDArray[np.int64], chances: NDArray[np.float64] | float) -> NDArray[np.int64]:
        """How many of `trials` succeed, elementwise."""

    @abstractmethod
    def multinomial(self, trials: int, chances: ArrayLike) -> NDArray[np.int64]:
        """How often each outcome happens. Chances are scaled to sum to one."""


def devices(values: ArrayLike, counts: ArrayLike) -> NDArray[np.int64]:
    """The counts, checked to be one non-negative whole number for each value. InvalidParameter otherwise."""
    import numpy as np

    array = np.asarray(counts)
    if array.shape != np.shape(values) or array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidParameter("a crowd is a list of values and, for each, the whole number of devices that hold it")
    if array.size and array.min() < 0:
        raise InvalidParameter(f"a number of devices cannot be negative, got {array.min()}")
    return array.astype(np.int64)


def in_parts(values: ArrayLike, counts: ArrayLike, most: int) -> Iterator[NDArray[Any]]:
    """The value of every device, at most `most` values at a time."""
    import numpy as np

    held, many = np.asarray(values), devices(values, counts)
    ends = np.cumsum(many)
    for start in range(0, int(many.sum()), most):
        stop = min(start + most, int(ends[-1]))
        first, last = (int(np.searchsorted(ends, place, side="right")) for place in (start, stop - 1))
        part = many[first : last + 1].copy()
        part[-1] -= int(ends[last]) - stop
        part[0] -= start - (int(ends[first]) - int(many[first]))
        yield np.repeat(held[first : last + 1], part)


def per_item(values: ArrayLike, counts: ArrayLike, size: int, name: str) -> NDArray[np.int64]:
    """How many devices hold each item 0 .. size-1."""
    import numpy as np

    items = whole_numbers(values, size, f"a value of {name}")
    found = np.zeros(size, np.int64)
    np.add.at(found, items, devices(values, counts))
    return found


def per_grid_point(
    values: ArrayLike, counts: ArrayLike, bounds: Bounds, steps: int, name: str, rng: CrowdRandomness
) -> NDArray[np.int64]:
    """How many devices are at each grid point 0 .. steps, after rounding each at random without bias."""
    import numpy as np

    many = devices(values, counts)
    scaled = positions(values, bounds, name) * steps
    below = np.minimum(np.floor(scaled), steps - 1)
    up = rng.binomial(many, scaled - below)
    points, found = below.astype(np.int64), np.zeros(steps + 1, np.int64)
    np.add.at(found, points, many - up)
    np.add.at(found, points + 1, up)
    return found
