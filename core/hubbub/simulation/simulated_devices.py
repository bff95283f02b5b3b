"""Simulated devices, made from rows of known truth: who holds what.

A row is a device. What it would report is decided by the metric itself, as in the SDK: unknown categories become
`other`, numbers out of bounds are clamped, a value that is refused counts as none, and none is `missing` or silence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hubbub.codebook import Metric
    from hubbub.simulation.randomness import InsecureBulkRandomness

__all__ = ["Column", "Crowd"]

_SILENT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What each row holds of one metric: its place among the distinct inputs of the mechanism."""

    metric: Metric
    inputs: NDArray[Any]
    """Item numbers, or numbers within the bounds."""
    places: NDArray[np.int64]
    """Of each row; -1 where the device has nothing to report."""
    refused: int = 0
    """Rows whose value the SDK does not take: nothing is recorded there."""
    clamped: int = 0
    """Rows whose number is out of bounds."""

    @classmethod
    def of(cls, metric: Metric, values: Iterable[object]) -> Column:
        """From one value a row, in the app's own terms; None where nothing was recorded."""
        inputs: dict[Any, int] = {}
        known: dict[tuple[type, object], tuple[int, bool, bool]] = {}  # True and 1 are not the same value
        found = []
        for value in values:
            key = (type(value), value if isinstance(value, Hashable) else repr(value))
            if (told := known.get(key)) is None:
                told = known[key] = _told(metric, value, inputs)
            found.append(told)
        places, refused, clamped = np.array(found, np.int64).reshape(-1, 3).T
        return cls(metric, metric.mechanism.domain.inputs(list(inputs)), places, int(refused.sum()), int(clamped.sum()))

    def held(self, weights: ArrayLike) -> NDArray[np.int64]:
        """How many devices have each input to report, where each row stands for `weights` devices."""
        some = self.places != _SILENT
        found = np.bincount(self.places[some], np.asarray(weights)[some], len(self.inputs))
        return np.rint(found).astype(np.int64)

    def truth(self, held: NDArray[np.int64]) -> NDArray[np.float64]:
        """What an estimate is to come out as: the share of each value, or the mean, of those devices."""
        return self.metric.values.truth(self.inputs, held)


def _told(metric: Metric, value: object, inputs: dict[Any, int]) -> tuple[int, bool, bool]:
    """The place of a value's input, whether the SDK refuses the value, and whether it clamps it."""
    refused = value is not None and not metric.values.takes(value)
    recorded = metric.missing if value is None or refused else metric.recorded(value)
    if recorded is None:
        return _SILENT, refused, False
    told = metric.input_of(recorded)
    clamped = value is not None and not refused and metric.values.clamps(value)
    return inputs.setdefault(told, len(inputs)), refused, clamped


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Rows that are devices, and what each holds of several metrics."""

    columns: Sequence[Column]

    def __post_init__(self) -> None:
        if len({len(column.places) for column in self.columns}) != 1 or not self.rows:
            raise InvalidParameter("a crowd has at least one row, and every metric as many")

    @property
    def rows(self) -> int:
        return len(self.columns[0].places)

    def draw(
        self, devices: int | None, rng: InsecureBulkRandomness, chances: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """For how many devices each row stands.

        None: every row for one. Fewer devices than rows: that many different rows, drawn at random. More: each device
        draws its own row. `chances`: each device draws its own row in proportion to these, for any number of devices.
        """
        if devices is None:
            devices = self.rows
        if devices < 1:
            raise InvalidParameter(f"devices must be at least 1, got {devices}")
        if chances is not None:
            return rng.multinomial(devices, chances)
        if devices > self.rows:
            return rng.multinomial(devices, np.ones(self.rows))
        weights = np.zeros(self.rows, np.int64)
        weights[rng.without_replacement(self.rows, devices) if devices < self.rows else slice(None)] = 1
        return weights
