"""The component whose report is a place near the bin, out of a window that slides with it, or any other place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _random_sets
from hubbub.mechanisms._channel_component import Component

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

__all__ = ["Window"]


@dataclass(frozen=True, slots=True)
class Window(Component):
    """One of the places 0 .. d + w - 2. Those from bin x on, as many as the window is wide, are near it."""

    width: int

    def __post_init__(self) -> None:
        if not 1 <= self.width < self.size:
            raise InvalidParameter(f"a window of {self.width} bins does not fit {self.size} bins")

    @property
    def near(self) -> int:
        return self.width

    @property
    def far(self) -> int:
        return self.size - 1

    def overlap(self, one: int, other: int) -> Fraction:
        return Fraction(max(0, self.width - abs(one - other)))

    @property
    def bits(self) -> int:
        return _random_sets.place_bits(self.reports)

    @property
    def cells(self) -> int:
        return self.size + self.width - 1

    @property
    def near_reports(self) -> int:
        return self.width

    @property
    def reports(self) -> int:
        return self.cells

    def draw(self, held: int, high: int, low: int, rng: Randomness) -> int:
        near, far = rng.below(self.near), rng.below(self.far)
        if rng.coin(self.near * high, self.near * high + self.far * low):
            return held + near
        return far + self.width * (far >= held)

    def is_report(self, number: int) -> bool:
        return number < self.cells

    def named(self, number: int) -> tuple[int, ...]:
        return tuple(range(max(0, number - self.width + 1), min(number + 1, self.size)))

    def numbers(self) -> Iterable[int]:
        return range(self.cells)

    def in_words(self) -> str:
        return f"a stretch of {self.width} bins"

    def draw_many(self, held: NDArray[np.int64], high: int, low: int, rng: BulkRandomness) -> NDArray[np.uint8]:
        import numpy as np

        from hubbub.mechanisms._bit_reports import bits_of

        n, at_near = len(held), self.near * high
        near, far = rng.below(self.near, n), rng.below(self.far, n)
        beside = far + self.width * (far >= held)
        places = np.where(rng.below(at_near + self.far * low, n) < at_near, held + near, beside)
        return bits_of(places, self.bits)

    def are_reports(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
        import numpy as np

        return np.asarray(self._places(bits) < self.cells)

    def _places(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        return np.asarray(bits @ (1 << np.arange(self.bits)))

    def counts(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        return np.bincount(self._places(bits), minlength=self.cells).astype(np.int64)

    def reports_in(self, cells: NDArray[np.int64]) -> int | None:
        return int(cells.sum()) if int(cells.min()) >= 0 else None

    def simulate(self, every: NDArray[np.int64], high: int, low: int, rng: CrowdRandomness) -> NDArray[np.int64] | None:
        import numpy as np

        law, cells = self.means(float(self.chance(high, low))), np.zeros(self.cells, np.int64)
        for x in np.flatnonzero(every):
            cells += rng.multinomial(int(every[x]), law[:, x])
        return cells

    def means(self, chance: float) -> NDArray[np.float64]:
        import numpy as np

        after = np.arange(self.cells)[:, None] - np.arange(self.size)
        return np.where((after >= 0) & (after < self.width), chance / self.near, (1 - chance) / self.far)

    def second_moments(self, shares: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        import numpy as np

        return np.diag(self.means(chance) @ shares)

    def mean_squares(self, weights: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        import numpy as np

        return np.asarray(weights**2 @ self.means(chance))

    def extremes(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return weights.min(axis=1), weights.max(axis=1)
