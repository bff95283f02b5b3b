r"""Optimized local hashing, with a hash family for which the claims hold exactly.

A value is written as L digits x_i in base g, a prime. The device draws j_1 .. j_L below g and reports, by g-ary
randomized response, its bucket: the sum of j_i x_i mod g. For x != v the difference of their buckets is uniform, so two
values share a bucket for exactly one g-th of the hashes: q = 1/g is exact (Carter and Wegman, J. Comput. Syst. Sci.
18, 1979).

    n Var = (z+g-1)^2 / ((z-1)^2 (g-1)) + f ((g-1)^2 - z) / ((g-1) (z-1)),   g near z + 1, z = e^eps

(Wang, Blocki, Li and Jha, USENIX Security 2017, section 4.4.) A report is the number with the base-g digits
j_1 .. j_L, bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, MalformedTally
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below
from hubbub.mechanisms._local_hashing import LocalHashing, error_with, keep_for
from hubbub.mechanisms._parameters import categories_of, integers, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._symbols import SymbolMechanism, index, whole_numbers
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Domain
from hubbub.mechanisms.tallies_and_estimates import Tally
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.randomness import BulkRandomness, Randomness

PRIMES = tuple(n for n in range(2, 256) if all(n % k for k in range(2, n)))
_AT_ONCE = 2**22
"""Buckets compared in one step."""
_LARGEST_TABLE = 2**24
"""Most different reports for which a table of counts is made and transformed."""


@register("olh")
@dataclass(frozen=True, slots=True)
class OptimizedLocalHashing(SymbolMechanism, LocalHashing[int]):
    """Of `buckets`, the right one is sent with probability `keep` / 2**64, otherwise a uniform other one."""

    regime: ClassVar[str] = "long lists, as in the literature; linear-hash counts faster"
    reserved: ClassVar[str] = "its server hashes every value for every report; linear-hash counts all values at once"

    epsilon: Fraction
    size: int
    buckets: int
    keep: int

    def __post_init__(self) -> None:
        if self.buckets not in PRIMES:
            raise InvalidParameter(f"olh: buckets must be a prime below 256, got {self.buckets}")
        self._check()

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        size = categories_of(cls, domain).size
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        buckets = min(PRIMES, key=lambda g: error_with(odds, g, size))
        return cls(exact, size, buckets, keep_for(odds, buckets))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["buckets", "keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        exact = exact_epsilon(epsilon)
        return [cls(exact, 5, 3, keep_for(exp_below(exact), 3))]

    def parameters(self) -> dict[str, Json]:
        return {"buckets": self.buckets, "keep": str(self.keep)}

    @property
    def digits(self) -> int:
        """Digits of the largest value in base g."""
        digits, reach = 1, self.buckets
        while reach < self.size:
            digits, reach = digits + 1, reach * self.buckets
        return digits

    @property
    def hashes(self) -> int:
        return int(self.buckets**self.digits)

    @property
    def symbols(self) -> int:
        return self.hashes * self.buckets

    @property
    def cells(self) -> int:
        return self.size

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> int:
        held = index(value, self.size, "olh")
        drawn = rng.below(self.hashes)
        bucket = self._bucket(drawn, held)
        # always draw the lie: a device must not take longer when it lies
        lie = (bucket + 1 + rng.below(self.buckets - 1)) % self.buckets
        return drawn * self.buckets + (bucket if rng.coin(self.keep, WORD) else lie)

    def _bucket(self, drawn: int, value: int) -> int:
        total = 0
        for _ in range(self.digits):  # the same number of steps for every value
            drawn, factor = divmod(drawn, self.buckets)
            value, digit = divmod(value, self.buckets)
            total += factor * digit
        return total % self.buckets

    def likelihood(self, report: int, value: int) -> float:
        drawn, told = divmod(report, self.buckets)
        if self._bucket(drawn, value) == told:
            return self.keep / (WORD * self.hashes)
        return (WORD - self.keep) / (WORD * (self.buckets - 1) * self.hashes)

    # -- at the aggregator ----------------------------------------------------------------------

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        held = whole_numbers(values, self.size, "a value of olh")
        drawn = rng.below(self.hashes, len(held))
        bucket = (self._in_digits(drawn) * self._in_digits(held)).sum(axis=1) % self.buckets
        lie = (bucket + 1 + rng.below(self.buckets - 1, len(held))) % self.buckets
        return np.asarray(drawn * self.buckets + np.where(rng.coin(self.keep, len(held)), bucket, lie))

    def _in_digits(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The digits of each number, the lowest first."""
        import numpy as np

        return np.asarray(numbers[:, None] // self.buckets ** np.arange(self.digits) % self.buckets)

    def tally(self, reports: ArrayLike) -> Tally:
        import numpy as np

        symbols = whole_numbers(reports, self.symbols, "an olh report")
        by_table = self.digits * self.buckets * self.symbols
        if self.symbols <= _LARGEST_TABLE and by_table < len(symbols) * self.size:
            counts = self._transformed(np.bincount(symbols, minlength=self.symbols))
        else:
            counts = self._one_by_one(symbols)
        return Tally(self.fingerprint, len(symbols), counts)

    def _one_by_one(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts from every report with every value: O(n d)."""
        import numpy as np

        # at most 17 digits below 3, or fewer larger ones, so sums of products are exact in single precision
        values = self._in_digits(np.arange(self.size)).T.astype(np.float32)
        counts = np.zeros(self.size, np.int64)
        step = max(1, _AT_ONCE // self.size)
        for start in range(0, len(symbols), step):
            drawn, told = np.divmod(symbols[start : start + step], self.buckets)
            buckets = (self._in_digits(drawn).astype(np.float32) @ values).astype(np.int32) % self.buckets
            counts += (buckets == told[:, None]).sum(axis=0)
        return counts

    def _transformed(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts from the number of each different report, one digit at a time.

        O(L g^(L+2)), however many reports there are. After digit i the table has the
        sum over j_i of table[.., j_i, .., y + j_i v_i]. At the end the entries for y = 0 are taken.
        """
        import numpy as np

        g = self.buckets
        table = table.reshape((g,) * self.digits + (g,))
        for axis in range(self.digits):
            moved = np.moveaxis(table, axis, 0)
            table = np.zeros_like(moved)
            for value in range(g):
                for factor in range(g):
                    table[value] += np.roll(moved[factor], -factor * value, axis=-1)
            table = np.moveaxis(table, 0, axis)
        return np.ascontiguousarray(table[..., 0]).ravel()[: self.size]

    def _refuse_impossible(self, tally: Tally) -> None:
        if tally.cells.min() < 0 or tally.cells.max() > tally.reports:
            raise MalformedTally("each count of an olh tally must be from 0 to its reports")
