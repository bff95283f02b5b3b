"""Tallies, which count reports, and the estimates and intervals made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.errors import MalformedTally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Estimate", "Interval", "Tally"]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Unbiased values, each with its variance. They are not post-processed, so a frequency may be negative.

    `variances` is for the devices that reported: noise is the only randomness. Where a variance
    depends on something that the reports cannot show, it is the largest value that fits them.
    """

    reports: int
    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    @property
    def stderr(self) -> NDArray[np.float64]:
        import numpy as np

        return np.sqrt(np.maximum(self.variances, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Confidence limits for each value, raw: they may lie beyond what is possible, as the estimate between them may.

    `kind` says how they were made and for which population.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    kind: str
    together: int = 1
    """How many of the intervals hold at once with this confidence (Bonferroni). 1: each holds by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Mergeable counts of one mechanism's reports. Adding two tallies is like tallying all their reports."""

    fingerprint: bytes
    reports: int
    cells: NDArray[np.int64]

    def __add__(self, other: Tally) -> Tally:
        if self.fingerprint != other.fingerprint:
            raise MalformedTally("these tallies count reports of different mechanisms and cannot be merged")
        largest = sum(max(int(cells.max()), -int(cells.min())) for cells in (self.cells, other.cells))
        if largest >= 2**63:
            raise MalformedTally("the merged counts would exceed 64 bits; merge fewer tallies")
        return Tally(self.fingerprint, self.reports + other.reports, self.cells + other.cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Fingerprint, number of reports and cells, each as eight big-endian bytes."""
        return self.fingerprint + self.reports.to_bytes(8) + self.cells.astype(">i8").tobytes()
