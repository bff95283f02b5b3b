"""Mechanisms whose report is one of a few symbols 0 .. symbols-1: encoding and counting of such reports."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from hubbub.errors import InvalidValue, MalformedReport
from hubbub.mechanisms.base import Mechanism
from hubbub.mechanisms.tallies_and_estimates import Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness


class SymbolMechanism(Mechanism[int]):
    """A mechanism whose report is one symbol, as a big-endian integer in the fewest bytes that hold every symbol."""

    __slots__ = ()

    @property
    @abstractmethod
    def symbols(self) -> int:
        """How many different reports there are."""

    @property
    def report_bytes(self) -> int:
        return ((self.symbols - 1).bit_length() + 7) // 8

    def encode(self, report: int) -> bytes:
        if not 0 <= report < self.symbols:
            raise InvalidValue(f"a {self.name} report is from 0 to {self.symbols - 1}, got {report}")
        return report.to_bytes(self.report_bytes)

    def decode(self, payload: bytes) -> int:
        if len(payload) != self.report_bytes:
            raise MalformedReport(f"a {self.name} report has {self.report_bytes} bytes, got {len(payload)}")
        report = int.from_bytes(payload)
        if report >= self.symbols:
            raise MalformedReport(f"a {self.name} report is from 0 to {self.symbols - 1}, got {report}")
        return report

    def decode_many(self, payloads: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        import numpy as np

        if payloads.shape[1] != self.report_bytes:
            return np.zeros(0, np.int64), np.zeros(len(payloads), np.bool_)
        symbols = np.zeros(len(payloads), np.int64)  # too small for eight bytes, but no report is that long
        for column in payloads.T:
            symbols = symbols << 8 | column
        possible = symbols < self.symbols
        return symbols[possible], possible

    def outputs(self) -> range:
        return range(self.symbols)

    @property
    def cells(self) -> int:
        return self.symbols

    def tally(self, reports: ArrayLike) -> Tally:
        import numpy as np

        symbols = whole_numbers(reports, self.symbols, f"a {self.name} report")
        counts = np.bincount(symbols, minlength=self.symbols)
        return Tally(self.fingerprint, len(symbols), counts.astype(np.int64))

    def _simulate_columns(self, held: NDArray[np.int64], columns: ArrayLike, rng: CrowdRandomness) -> Tally:
        """A random tally of `held[x]` devices for each input x, whose report is y in proportion to `columns[x][y]`."""
        import numpy as np

        weights = np.asarray(columns, np.float64)
        cells = np.zeros(self.symbols, np.int64)
        for x in np.flatnonzero(held):
            cells += rng.multinomial(int(held[x]), weights[x])
        return Tally(self.fingerprint, int(held.sum()), cells)


def whole_numbers(values: ArrayLike, size: int, what: str) -> NDArray[np.int64]:
    """The values as integers from 0 to size-1, or InvalidValue."""
    import numpy as np

    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InvalidValue(f"{what} is a whole number from 0 to {size - 1}; got an array of {array.dtype}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= size:
        raise InvalidValue(f"{what} is a whole number from 0 to {size - 1}; got {low if low < 0 else high}")
    return array.astype(np.int64)


def index(value: object, size: int, name: str) -> int:
    """One category's index, or InvalidValue that says what to pass instead."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(
            f"{name} randomizes a whole number from 0 to {size - 1}, got {value!r}: pass the value's index"
        )
    if not 0 <= value < size:
        raise InvalidValue(f"{name} has {size} values: pass an index from 0 to {size - 1}, got {value}")
    return value
