"""Domains: what a mechanism may randomize, a list of values, bins in order or a range of numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import decimal_text, exact_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Bins", "Bounds", "Categories", "Domain"]

LARGEST_DOMAIN = 65_536
MOST_BINS = 256
"""More would lengthen reports beyond 32 bytes, and narrower bins hold no more than noise."""
_SMALLEST_SIZE, _LARGEST_SIZE = Fraction(1, 10**100), Fraction(10**100)


class Domain(ABC):
    """What a mechanism may randomize."""

    __slots__ = ()

    @property
    @abstractmethod
    def in_words(self) -> str:
        """Completes "... does not fit ..."."""

    @property
    @abstractmethod
    def estimates(self) -> int:
        """How many values are estimated."""

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """The numbers between which every true value lies."""

    @property
    def span(self) -> float:
        """The distance between the limits. Errors are compared with it."""
        return self.limits[1] - self.limits[0]

    @property
    def sensitivity(self) -> float:
        """By how much one device's other value moves the sum of all values, as a Euclidean distance, in spans.

        A list of values is counted value by value: one count loses a device and another gains it.
        """
        return math.sqrt(2)

    @property
    def is_optimum_proven(self) -> bool:
        """Whether the optimum of `_least_variance` is a lower bound, and not only the best that is known."""
        return False

    @property
    @abstractmethod
    def unit_of_variance(self) -> float:
        """The factor that brings the root of `Mechanism.typical_variance` to the scale of the estimates."""

    @property
    @abstractmethod
    def shorter(self) -> str:
        """What makes reports shorter or errors smaller. Completes "..., or ..."; empty if nothing does."""

    @abstractmethod
    def fingerprint(self) -> list[str | int]:
        """What distinguishes this domain from any other, as JSON."""

    @abstractmethod
    def between(self) -> Sequence[Fraction]:
        """Inputs between grid points, which a mechanism must round. Exact as floats."""

    @abstractmethod
    def inputs(self, held: Sequence[int | Fraction]) -> NDArray[np.int64] | NDArray[np.float64]:
        """A mechanism's inputs as an array, as `randomize_many` and `simulate` take them."""

    @abstractmethod
    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        """The true values of the estimates when `counts[i]` devices hold `inputs[i]`."""


@dataclass(frozen=True, slots=True)
class Categories(Domain):
    """A closed list of `size` values, known by their index. The share of each is estimated."""

    size: int

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int):
            raise InvalidParameter(f"size must be a whole number, got {self.size!r}")
        if not 2 <= self.size <= LARGEST_DOMAIN:
            raise InvalidParameter(f"size must be between 2 and {LARGEST_DOMAIN}, got {self.size}")

    @property
    def in_words(self) -> str:
        return f"{self.size} values"

    @property
    def estimates(self) -> int:
        return self.size

    @property
    def limits(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def sensitivity(self) -> float:
        """Of two values, one count says both."""
        return math.sqrt(2) if self.size > 2 else 1.0

    @property
    def is_optimum_proven(self) -> bool:
        return True

    @property
    def unit_of_variance(self) -> float:
        return 1.0

    @property
    def shorter(self) -> str:
        return "shorten the list of values" if self.size > 2 else ""

    def fingerprint(self) -> list[str | int]:
        return [self.size]

    def between(self) -> Sequence[Fraction]:
        return ()

    def inputs(self, held: Sequence[int | Fraction]) -> NDArray[np.int64]:
        import numpy as np

        return np.array([int(value) for value in held], np.int64)

    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        """The share of each value."""
        import numpy as np

        held = np.asarray(counts, np.float64)
        return np.asarray(np.bincount(np.asarray(inputs, np.intp), held, self.size) / held.sum())


@dataclass(frozen=True, slots=True)
class Bins(Categories):
    """`size` bins of a number, in order. Errors are compared for the share in the first k bins, for every k."""

    def __post_init__(self) -> None:
        Categories.__post_init__(self)  # not super(): a dataclass with slots is a new class
        if self.size > MOST_BINS:
            raise InvalidParameter(f"there are at most {MOST_BINS} bins, got {self.size}")

    @property
    def in_words(self) -> str:
        return f"{self.size} bins in order"

    @property
    def sensitivity(self) -> float:
        """One device moves the count of the first k bins by one."""
        return 1.0

    @property
    def shorter(self) -> str:
        return "take fewer bins" if self.size > 2 else ""


@dataclass(frozen=True, slots=True)
class Bounds(Domain):
    """Numbers from `lower` to `upper`, whose mean is estimated. Numbers outside are clamped."""

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", exact_number(self.lower, "the lower bound"))
        object.__setattr__(self, "upper", exact_number(self.upper, "the upper bound"))
        for number in (self.lower, self.upper, self.width):
            if number and not _SMALLEST_SIZE <= abs(number) <= _LARGEST_SIZE:
                raise InvalidParameter(
                    f"bounds and their distance must be zero or from 1e-100 to 1e100 in size, got {float(number):g}: "
                    "their squares must fit a float"
                )
        if not self.lower < self.upper:
            raise InvalidParameter(
                f"the lower bound must be below the upper bound, got [{float(self.lower):g}, {float(self.upper):g}]"
            )

    @property
    def width(self) -> Fraction:
        return self.upper - self.lower

    @property
    def in_words(self) -> str:
        return "a range of numbers"

    @property
    def estimates(self) -> int:
        return 1

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.lower), float(self.upper)

    @property
    def span(self) -> float:
        return float(self.width)

    @property
    def sensitivity(self) -> float:
        return 1.0

    @property
    def unit_of_variance(self) -> float:
        """A typical variance is for bounds scaled to [-1, 1]."""
        return float(self.width) / 2

    @property
    def shorter(self) -> str:
        return "tighten the bounds"

    def fingerprint(self) -> list[str | int]:
        return [decimal_text(self.lower), decimal_text(self.upper)]

    def between(self) -> Sequence[Fraction]:
        return [Fraction(float(self.lower + self.width * part)) for part in (Fraction(3, 14), Fraction(5, 8))]

    def inputs(self, held: Sequence[int | Fraction]) -> NDArray[np.float64]:
        import numpy as np

        return np.array([float(value) for value in held], np.float64)

    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        """The mean."""
        import numpy as np

        held = np.asarray(counts, np.float64)
        return np.array([float(np.asarray(inputs, np.float64) @ held) / float(held.sum())])
