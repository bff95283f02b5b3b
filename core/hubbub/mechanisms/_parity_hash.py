r"""Hashes made of parities: bit i of the bucket is the parity <j_i, x> of the binary digits of x under a mask j_i.

The device draws the t masks of L = ceil(log2 d) bits uniformly. For x != v each <j_i, x ^ v> is a fair bit, so two
values share a bucket for exactly 2^-t of the hashes. Also, for v, w, x all different, x ^ v and x ^ w are linearly
independent over GF(2). So the reports of any x support v and w independently, and the errors of different values are
uncorrelated.

The counts of all values come from one Walsh-Hadamard transform. A report (j, y) supports v with

    1{<j_i, v> = y_i for all i} = 2^-t  sum over S of (-1)^(sum of y_i + <j_i, v>, i in S)

so each of its 2^t subsets S adds the sign (-1)^(sum of y_i) to the cell XOR of the j_i, and the transform of the cells
is 2^t times the support of every value. See docs/design/linear-hash.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.errors import MalformedTally
from hubbub.mechanisms._bit_reports import PackedMechanism, bits_of, field, with_spare_bytes
from hubbub.mechanisms._frequency_oracle import UncorrelatedItems
from hubbub.mechanisms._local_hashing import LocalHashing
from hubbub.mechanisms._symbols import index, whole_numbers
from hubbub.mechanisms.tallies_and_estimates import Tally
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.randomness import BulkRandomness, Randomness

_AT_ONCE = 2**21
"""Signs added, or bits packed, in one step."""


class ParityHash(PackedMechanism, LocalHashing[bytes], UncorrelatedItems[bytes]):
    """A report has `bits` bits of the bucket, then `bits` masks of `width` bits each."""

    __slots__ = ()

    size: int
    bits: int
    keep: int

    @property
    def width(self) -> int:
        """Binary digits of a value."""
        return (self.size - 1).bit_length()

    @property
    def buckets(self) -> int:  # type: ignore[override]  # follows from `bits`, where olh has a field
        return 1 << self.bits

    @property
    def hashes(self) -> int:
        return 1 << self.bits * self.width

    @property
    def report_bits(self) -> int:
        return self.bits * (self.width + 1)

    @property
    def cells(self) -> int:
        return 1 << self.width

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, self.name)
        masks = rng.below(self.hashes)
        bucket = self._bucket(masks, held)
        # always draw the lie: a device must not take longer when it lies
        lie = (bucket + 1 + rng.below(self.buckets - 1)) % self.buckets
        told = bucket if rng.coin(self.keep, WORD) else lie
        return self.packed(masks << self.bits | told)

    def _bucket(self, masks: int, value: int) -> int:
        return sum(((masks >> i * self.width & value).bit_count() & 1) << i for i in range(self.bits))

    def likelihood(self, report: bytes, value: int) -> float:
        number = self.number(report)
        if self._bucket(number >> self.bits, value) == number & self.buckets - 1:
            return self.keep / (WORD * self.hashes)
        return (WORD - self.keep) / (WORD * (self.buckets - 1) * self.hashes)

    # -- at the aggregator ----------------------------------------------------------------------

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.void]:
        import numpy as np

        held = whole_numbers(values, self.size, f"a value of {self.name}")
        step = max(1, _AT_ONCE // self.report_bits)
        parts = [self._some(held[start : start + step], rng) for start in range(0, len(held), step)]
        return np.concatenate([*parts, np.zeros(0, f"V{self.report_bytes}")])

    def _some(self, held: NDArray[np.int64], rng: BulkRandomness) -> NDArray[np.void]:
        import numpy as np

        n = len(held)
        masks = [rng.below(1 << self.width, n) for _ in range(self.bits)]
        bucket = np.zeros(n, np.int64)
        for i, mask in enumerate(masks):
            bucket |= (np.bitwise_count(mask & held).astype(np.int64) & 1) << i
        lie = (bucket + 1 + rng.below(self.buckets - 1, n)) % self.buckets
        told = np.where(rng.coin(self.keep, n), bucket, lie)
        parts = [bits_of(told, self.bits), *(bits_of(mask, self.width) for mask in masks)]
        return self._joined_bits(np.concatenate(parts, axis=1))

    def _counts(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        sums = np.zeros(self.cells, np.int64)
        step = max(1, _AT_ONCE >> self.bits)
        for start in range(0, len(rows), step):
            some = with_spare_bytes(rows[start : start + step])
            told = field(some, 0, self.bits)
            # the sign is kept one bit above the mask
            places = np.zeros((1, len(some)), np.int64)
            for i in range(self.bits):
                mask = field(some, self.bits + i * self.width, self.width) | (told >> i & 1) << self.width
                places = np.concatenate([places, places ^ mask])
            found = np.bincount(places.ravel(), minlength=2 * self.cells)
            sums += found[: self.cells] - found[self.cells :]
        return sums

    def supports(self, tally: Tally) -> NDArray[np.int64]:
        return (walsh_hadamard(tally.cells) >> self.bits)[: self.size]

    def _refuse_impossible(self, tally: Tally) -> None:
        if tally.reports << self.bits + self.width >= 2**62:
            raise MalformedTally(f"a {self.name} tally cannot have {tally.reports} reports")
        # without abs: the least 64-bit number has no absolute value, and its transform would wrap around
        if max(int(tally.cells.max()), -int(tally.cells.min())) > tally.reports << self.bits:
            raise MalformedTally(f"the sums of a {self.name} tally exceed what its reports can add to them")
        found = walsh_hadamard(tally.cells)
        if found.min() < 0 or found.max() > tally.reports << self.bits or (found & self.buckets - 1).any():
            raise MalformedTally(f"the counts of a {self.name} tally must be whole and from 0 to its reports")


def walsh_hadamard(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """sum over c of cells[c] (-1)^<c, v>, for every v; the length is a power of two."""
    import numpy as np

    result, half = cells.copy(), 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half)
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return result
