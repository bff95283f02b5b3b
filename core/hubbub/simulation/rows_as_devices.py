"""Simulated devices, made from rows of known truth.

A row is a device. The metric itself decides what the device would report, as in the SDK: unknown categories become
`other`, numbers out of bounds are clamped, and a refused value counts as none. With no value a device reports `missing`
or stays silent.
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
    """What each row holds for one metric, as its place among the distinct inputs of the mechanism."""

    metric: Metric
    inputs: NDArray[Any]
    """Item numbers, or numbers within the bounds."""
    places: NDArray[np.int64]
    """The place of each row, -1 if the device has nothing to report."""
    refused: int = 0
    """Rows whose value the SDK refuses, so that nothing is recorded."""
    clamped: int = 0
    """Rows whose number is out of bounds."""

    @classmethod
    def of(cls, metric: Metric, values: Iterable[object]) -> Column:
        """The column of one value per row, as the app would record it. None: nothing was recorded."""
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
        """How many devices have each input to report, if each row stands for `weights` devices."""
        some = self.places != _SILENT
        found = np.bincount(self.places[some], np.asarray(weights)[some], len(self.inputs))
        return np.rint(found).astype(np.int64)

    def truth(self, held: NDArray[np.int64]) -> NDArray[np.float64]:
        """The true values of an estimate for these devices: the share of each value, or the mean."""
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
    """Rows that are devices, with what each holds for several metrics."""

    columns: Sequence[Column]

    def __post_init__(self) -> None:
        if len({len(column.places) for column in self.columns}) != 1 or not self.rows:
            raise InvalidParameter("a crowd needs at least one row, and every metric the same number of rows")

    @property
    def rows(self) -> int:
        return len(self.columns[0].places)

    def draw(
        self, devices: int | None, rng: InsecureBulkRandomness, chances: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """How many devices each row stands for.

        With None, every row stands for one device. With fewer devices than rows, that many different rows are drawn at
        random. With more, each device draws its own row. With `chances`, each device always draws its own row, in
        proportion to them.
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
