"""The component whose report is a random set of cells of bins: subset selection inside a mixture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _random_sets
from hubbub.mechanisms._channel_component import Component
from hubbub.randomness import ones

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

__all__ = ["Sets"]


@dataclass(frozen=True, slots=True)
class Sets(Component):
    """A random set of `count` of the cells of `width` bins."""

    width: int
    count: int

    def __post_init__(self) -> None:
        if not (1 <= self.width < self.size and 1 <= self.count < self.cells):
            raise InvalidParameter(
                f"sets of {self.count} cells of {self.width} bins do not fit {self.size} bins: "
                "a set holds some of the cells and not all"
            )

    @property
    def cells(self) -> int:
        return -(-self.size // self.width)

    @property
    def near(self) -> int:
        return self.count

    @property
    def far(self) -> int:
        return self.cells - self.count

    def overlap(self, one: int, other: int) -> Fraction:
        k = self.count
        together = one // self.width == other // self.width
        return Fraction(k) if together else Fraction(k * (k - 1), self.cells - 1)

    @property
    def listed(self) -> int:
        """Bits of one cell in a list, or 0 if a bit for each cell but the last is shorter. How many cells a set has is
        known, so that the last bit follows."""
        width = _random_sets.place_bits(self.cells)
        return width if self.count * width < self.cells - 1 else 0

    @property
    def bits(self) -> int:
        return self.count * self.listed or self.cells - 1

    @property
    def near_reports(self) -> int:
        return comb(self.cells - 1, self.count - 1)

    @property
    def reports(self) -> int:
        return comb(self.cells, self.count)

    def draw(self, held: int, high: int, low: int, rng: Randomness) -> int:
        rng = rng.buffered(min(self.cells, 16 * self.count) + 128)
        keep = (self.near * high, self.near * high + self.far * low)
        return self._number(_random_sets.draw(rng, held // self.width, self.cells, self.count, keep))

    def _number(self, chosen: int) -> int:
        if self.listed:
            return _random_sets.as_list(chosen, self.listed)
        return chosen & ((1 << self.cells - 1) - 1)

    def _members(self, number: int) -> list[int]:
        if self.listed:
            return _random_sets.from_list(number, self.listed, self.count)
        found = ones(number)
        return found if len(found) == self.count else [*found, self.cells - 1]

    def is_report(self, number: int) -> bool:
        members = self._members(number)
        return len(members) == self.count and members[-1] < self.cells and sorted(set(members)) == members

    def named(self, number: int) -> tuple[int, ...]:
        starts = (cell * self.width for cell in self._members(number))
        return tuple(x for start in starts for x in range(start, min(start + self.width, self.size)))

    def numbers(self) -> Iterable[int]:
        for members in combinations(range(self.cells), self.count):
            yield self._number(sum(1 << cell for cell in members))

    def in_words(self) -> str:
        cells = f"{self.cells} bins" if self.width == 1 else f"{self.cells} groups of {self.width} bins"
        return f"{self.count} of the {cells}"

    def draw_many(self, held: NDArray[np.int64], high: int, low: int, rng: BulkRandomness) -> NDArray[np.uint8]:
        import numpy as np

        from hubbub.mechanisms._bit_reports import bits_of

        near = self.near * high
        members = _random_sets.draw_many(
            rng,
            held // self.width,
            self.cells,
            self.count,
            lambda many: rng.below(near + self.far * low, many) < near,
        )
        if self.listed:
            return bits_of(members.ravel(), self.listed).reshape(len(held), self.bits)
        bits = np.zeros((len(held), self.cells), np.uint8)
        np.put_along_axis(bits, members, 1, axis=1)
        return bits[:, :-1]

    def are_reports(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
        import numpy as np

        if not self.listed:
            members = bits.sum(axis=1, dtype=np.int64)
            return np.asarray((members == self.count) | (members == self.count - 1))
        places = self._places(bits)
        return np.asarray((places[:, -1] < self.cells) & (np.diff(places, axis=1) > 0).all(axis=1))

    def _places(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        return np.asarray(bits.reshape(len(bits), self.count, self.listed) @ (1 << np.arange(self.listed)))

    def counts(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        if self.listed:
            return np.bincount(self._places(bits).ravel(), minlength=self.cells).astype(np.int64)
        most = bits.sum(axis=0, dtype=np.int64)
        return np.append(most, len(bits) * self.count - most.sum())

    def reports_in(self, cells: NDArray[np.int64]) -> int | None:
        reports, rest = divmod(int(cells.sum()), self.count)
        return None if rest or int(cells.min()) < 0 or int(cells.max()) > reports else reports

    def simulate(self, every: NDArray[np.int64], high: int, low: int, rng: CrowdRandomness) -> NDArray[np.int64] | None:
        import numpy as np

        held = np.add.reduceat(every, range(0, self.size, self.width))
        if _random_sets.is_few(held, self.cells):
            return None
        return _random_sets.simulate(rng, held, self.cells, self.count, float(self.chance(high, low)))

    def means(self, chance: float) -> NDArray[np.float64]:
        import numpy as np

        means = np.full((self.cells, self.size), (self.count - chance) / (self.cells - 1))
        means[np.arange(self.size) // self.width, np.arange(self.size)] = chance
        return means

    def second_moments(self, shares: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        import numpy as np

        held = np.add.reduceat(shares, range(0, self.size, self.width))
        return _random_sets.second_moments(held, self.count, chance)

    def mean_squares(self, weights: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        import numpy as np

        each = _random_sets.mean_squares(weights, self.count, chance)
        return np.asarray(each[:, np.arange(self.size) // self.width])

    def extremes(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        import numpy as np

        order = np.sort(weights, axis=1)
        return order[:, : self.count].sum(axis=1), order[:, -self.count :].sum(axis=1)
