r"""Components of a mixture: small randomizers over bins 0 .. d-1, one of which the device draws by a private coin.

Each has two levels. Every report is `near` some bins and `far` from the others, and is high / low times likelier from a
near one. A bin has `near` near and `far` far reports, in units that cancel, so that it sends a near one with
probability near high / (near high + far low):

    sets       bins are joined to c cells of `width` bins; a report is a set of k cells. near : far = k : c - k.
    window     a report is one of d + w - 1 places; those near bin x are x .. x + w - 1. near : far = w : d - 1.

A tally counts, for a component, how many sets have each cell, or how many reports name each place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

__all__ = ["Component"]


@dataclass(frozen=True, slots=True)
class Component(ABC):
    """A randomizer over `size` bins with reports that are numbers of `bits` bits, and `cells` counts in a tally."""

    size: int

    @property
    @abstractmethod
    def near(self) -> int: ...

    @property
    @abstractmethod
    def far(self) -> int: ...

    @abstractmethod
    def overlap(self, one: int, other: int) -> Fraction:
        """Of the reports near one bin, those that are also near another, in the unit of `near`."""

    @property
    @abstractmethod
    def bits(self) -> int: ...

    @property
    @abstractmethod
    def cells(self) -> int: ...

    @property
    @abstractmethod
    def near_reports(self) -> int:
        """How many reports are near a bin."""

    def chance(self, high: int, low: int) -> Fraction:
        """The probability of a near report."""
        return Fraction(self.near * high, self.near * high + self.far * low)

    # -- on the device --------------------------------------------------------------------------

    @abstractmethod
    def draw(self, held: int, high: int, low: int, rng: Randomness) -> int:
        """A report of one bin. It takes as long for a far report as for a near one."""

    @abstractmethod
    def is_report(self, number: int) -> bool: ...

    @abstractmethod
    def named(self, number: int) -> tuple[int, ...]:
        """The bins that a report is near, in order."""

    @abstractmethod
    def numbers(self) -> Iterable[int]:
        """Every report."""

    @property
    @abstractmethod
    def reports(self) -> int:
        """How many reports there are."""

    @abstractmethod
    def in_words(self) -> str: ...

    # -- at the aggregator ----------------------------------------------------------------------

    @abstractmethod
    def draw_many(self, held: NDArray[np.int64], high: int, low: int, rng: BulkRandomness) -> NDArray[np.uint8]:
        """A report of each bin, as rows of `bits` bits, the lowest first."""

    @abstractmethod
    def are_reports(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows of bits are reports."""

    @abstractmethod
    def counts(self, bits: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The cells of a tally of reports, given as rows of bits."""

    @abstractmethod
    def reports_in(self, cells: NDArray[np.int64]) -> int | None:
        """How many reports give these counts. None: no set of reports does."""

    @abstractmethod
    def simulate(self, every: NDArray[np.int64], high: int, low: int, rng: CrowdRandomness) -> NDArray[np.int64] | None:
        """Random cells if `every[x]` devices hold bin x. None: so few that each had better draw its own."""

    @abstractmethod
    def means(self, chance: float) -> NDArray[np.float64]:
        """E[counts | bin], one column for each bin, given the chance of a near report."""

    @abstractmethod
    def second_moments(self, shares: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        """E[counts counts'] when `shares[x]` of the devices hold x."""

    @abstractmethod
    def mean_squares(self, weights: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
        """E[(weights . counts)^2 | bin]: one row for each row of weights, one column for each bin."""

    @abstractmethod
    def extremes(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest weights . counts of any report, for each row of weights."""
