"""Mechanisms whose report is a row of bits, too many for one symbol: encoding and counting of such reports.

A report is its own encoding: `report_bits` bits as a little-endian integer. The bits that fill the last byte are zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, InvalidValue, MalformedReport
from hubbub.mechanisms.base import Mechanism
from hubbub.mechanisms.tallies_and_estimates import Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

MOST_OUTPUTS = 2**20
"""`outputs` lists at most this many reports."""


class PackedMechanism(Mechanism[bytes]):
    """A mechanism whose report is bytes. In an array of reports each element is one report (dtype V)."""

    __slots__ = ()

    @property
    @abstractmethod
    def report_bits(self) -> int:
        """How many bits of a report are used."""

    @property
    def report_bytes(self) -> int:
        return (self.report_bits + 7) // 8

    def packed(self, number: int) -> bytes:
        """The report with the bits of this number."""
        return number.to_bytes(self.report_bytes, "little")

    def number(self, report: bytes) -> int:
        """The bits of a report as a number, the first bit lowest."""
        return int.from_bytes(report, "little")

    def encode(self, report: bytes) -> bytes:
        if not isinstance(report, bytes):
            raise InvalidValue(f"a {self.name} report is {self.report_bytes} bytes, got {report!r}")
        if (fault := self._fault(report)) is not None:
            raise InvalidValue(fault)
        return report

    def decode(self, payload: bytes) -> bytes:
        if (fault := self._fault(payload)) is not None:
            raise MalformedReport(fault)
        return payload

    def _fault(self, report: bytes) -> str | None:
        if len(report) != self.report_bytes:
            return f"a {self.name} report has {self.report_bytes} bytes, got {len(report)}"
        number = self.number(report)
        return (
            f"a {self.name} report cannot be {report.hex()}" if number >> self.report_bits or self._no(number) else None
        )

    def _no(self, number: int) -> bool:  # noqa: ARG002  overridden by mechanisms that refuse some numbers
        """Whether these bits, all within `report_bits`, cannot be a report."""
        return False

    def outputs(self) -> Sequence[bytes]:
        if self._outputs() > MOST_OUTPUTS:
            raise InvalidParameter(f"{self.name} has too many different reports to list them")
        return [self.packed(number) for number in self._numbers()]

    def _outputs(self) -> int:
        return 1 << min(self.report_bits, 64)

    def _numbers(self) -> Iterable[int]:
        return range(1 << self.report_bits)

    # -- at the aggregator ----------------------------------------------------------------------

    def decode_many(self, payloads: NDArray[np.uint8]) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        import numpy as np

        if payloads.shape[1] != self.report_bytes:
            return _joined(np.zeros((0, self.report_bytes), np.uint8)), np.zeros(len(payloads), np.bool_)
        possible = self._possible(payloads)
        return _joined(payloads[possible]), possible

    def _possible(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows of bytes are reports."""
        import numpy as np

        filled = self.report_bits % 8
        return np.equal(rows[:, -1] >> filled, 0) if filled else np.ones(len(rows), np.bool_)

    def tally(self, reports: ArrayLike) -> Tally:
        rows = self._rows(reports)
        return Tally(self.fingerprint, len(rows), self._counts(rows))

    @abstractmethod
    def _counts(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The cells of a tally of these reports, one per row."""

    def _rows(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """One row of bytes for each report, or InvalidValue."""
        import numpy as np

        size = self.report_bytes
        if isinstance(reports, np.ndarray) and reports.dtype == np.dtype(f"V{size}") and reports.ndim == 1:
            rows = np.ascontiguousarray(reports).view(np.uint8).reshape(-1, size)
        else:
            listed = list(reports) if isinstance(reports, Iterable) else [reports]
            whole = [bytes(report) for report in listed if isinstance(report, bytes) and len(report) == size]
            if len(whole) < len(listed):
                raise InvalidValue(f"a {self.name} report is {size} bytes, as returned by `randomize`")
            rows = np.frombuffer(b"".join(whole), np.uint8).reshape(-1, size)
        if not self._possible(rows).all():
            wrong = rows[np.flatnonzero(~self._possible(rows))[0]]
            raise InvalidValue(f"a {self.name} report cannot be {wrong.tobytes().hex()}")
        return rows

    def _joined_bits(self, bits: NDArray[np.uint8]) -> NDArray[np.void]:
        """Reports from a table of single bits, one report per row."""
        import numpy as np

        return _joined(np.packbits(bits, axis=1, bitorder="little"))


def _joined(rows: NDArray[np.uint8]) -> NDArray[np.void]:
    import numpy as np

    return np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel()


def field(rows: NDArray[np.uint8], start: int, width: int) -> NDArray[np.int64]:
    """`width` (at most 24) bits of each row from bit `start` on, as a number. Rows need three spare bytes."""
    import numpy as np

    words = np.ascontiguousarray(rows[:, start // 8 : start // 8 + 4]).view("<u4").ravel()
    return (words >> np.uint32(start % 8) & np.uint32((1 << width) - 1)).astype(np.int64)


def with_spare_bytes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The rows with spare bytes, so that `field` can read them to their end."""
    import numpy as np

    return np.pad(rows, ((0, 0), (0, 3)))


def bits_of(values: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """A table with `width` bits for each value, the lowest bit first."""
    import numpy as np

    return (values[:, None] >> np.arange(width) & 1).astype(np.uint8)


def joined(rows: NDArray[np.uint8]) -> NDArray[np.void]:
    """Rows of bytes as an array of reports."""
    return _joined(rows)
