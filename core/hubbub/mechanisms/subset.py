r"""Subset selection: a set of k values that contains the true one more often than by chance.

The set contains the true value with probability p. Its other values are uniform. With all of epsilon used, z = e^eps,

    p = k z / (k z + d - k)        q = (k - p) / (d - 1)        k about d / (z + 1)

(Ye and Barg, IEEE Trans. Inf. Theory 64, 2018, arXiv 1702.00610; Wang, Huang, Wang, Nie, Yang, Luo and Xu, 2016, arXiv
1607.08025.) Of all mechanisms it has the least error if no value is more frequent than others. k = 1 is `krr`.

A report is a bit for each value, or a sorted list of the k chosen ones, whichever is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub import number_format
from hubbub.errors import InvalidParameter, MalformedTally
from hubbub.mechanisms import _random_sets
from hubbub.mechanisms._bit_reports import PackedMechanism, bits_of, field, with_spare_bytes
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, threshold
from hubbub.mechanisms._frequency_oracle import PureOracle, at, one_of_many, variance
from hubbub.mechanisms._parameters import categories_of, chosen, integers, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._set_component import Sets
from hubbub.mechanisms._symbols import index, whole_numbers
from hubbub.mechanisms._weighted_sums import Channel, Part, WeightedSums
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Bins, Categories, Domain
from hubbub.mechanisms.tallies_and_estimates import Tally
from hubbub.randomness import WORD, ones

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness


@register("subset")
@dataclass(frozen=True, slots=True)
class SubsetSelection(PackedMechanism, PureOracle[bytes]):
    """`count` of `size` values, the true one among them with probability `keep` / 2**64."""

    regime: ClassVar[str] = "lists of a few hundred values: the least possible error"

    epsilon: Fraction
    size: int
    count: int
    keep: int
    ordered: bool = False
    """Whether the values are bins in order, so that ranges of them are asked for, too."""

    def __post_init__(self) -> None:
        _ = self.domain
        if not 0 < self.count < self.size:
            raise InvalidParameter(f"subset: count must be from 1 to {self.size - 1}, got {self.count}")
        if not self.count * WORD < self.size * self.keep < self.size * WORD:
            raise InvalidParameter(
                f"subset: keep must be above {self.count}/{self.size} * 2**64 and below 2**64, got {self.keep}"
            )
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Categories)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, count: int | None = None, **options: Any) -> Self:
        """`count` defaults to the size of set that has the least error at this epsilon."""
        refuse_unfit(cls, domain, options)
        size, ordered = categories_of(cls, domain).size, isinstance(domain, Bins)
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        if count is not None:
            return cls._made(exact, size, chosen(cls, "count", count, 1, size - 1), odds, ordered)

        def error(count: int) -> float:
            p = count * float(odds) / (count * float(odds) + size - count)
            return at(1 / size, p, (count - p) / (size - 1))

        # the error has one minimum, near d / (z + 1)
        middle = int(size / (odds + 1))
        count = min((k for k in range(middle - 1, middle + 3) if 0 < k < size), key=error, default=1)
        return cls._made(exact, size, count, odds, ordered)

    @classmethod
    def _made(cls, epsilon: Fraction, size: int, count: int, odds: Fraction, ordered: bool = False) -> Self:
        return cls(epsilon, size, count, threshold(count * odds / (count * odds + size - count)), ordered)

    @classmethod
    def variants(cls, domain: Domain) -> list[Mapping[str, Any]]:
        """Sets from one value, which is `krr`, up to half of all, in steps of about a quarter."""
        half = categories_of(cls, domain).size // 2
        counts, count = [1], 1
        while (count := max(count + 1, count * 5 // 4)) < half:
            counts.append(count)
        return [{"count": count} for count in sorted({*counts, max(half, 1)})]

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        count, keep = integers(cls.name, parameters, ["count", "keep"])
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, count, keep, isinstance(domain, Bins))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        exact, pairs = exact_epsilon(epsilon), []
        odds = exp_below(exact)
        for size, count in ((4, 2), (5, 1)):  # a bit for each value, and a list
            pairs.append(cls._made(exact, size, count, odds))
        return pairs

    def parameters(self) -> dict[str, Json]:
        return {"count": self.count, "keep": str(self.keep)}

    @property
    def domain(self) -> Categories:
        return Bins(self.size) if self.ordered else Categories(self.size)

    @property
    def width(self) -> int:
        """Bits of one value in a list, or 0 if a report has a bit for each value instead."""
        width = (self.size - 1).bit_length()
        return width if self.count * width < self.size else 0

    @property
    def report_bits(self) -> int:
        return self.count * self.width or self.size

    @property
    def cells(self) -> int:
        return self.size

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        return (self.count - self.p) / (self.size - 1)

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, "subset")
        rng = rng.buffered(min(self.size, 16 * self.count) + 128)
        return self._report(_random_sets.draw(rng, held, self.size, self.count, (self.keep, WORD)))

    def _turned(self, chosen: int, by: int) -> int:
        return _random_sets.turned(chosen, self.size, by)

    def _report(self, chosen: int) -> bytes:
        if not self.width:
            return self.packed(chosen)
        return self.packed(_random_sets.as_list(chosen, self.width))

    def _listed(self, number: int) -> list[int]:
        if not self.width:
            return ones(number)
        return _random_sets.from_list(number, self.width, self.count)

    def _no(self, number: int) -> bool:
        listed = self._listed(number)
        return len(listed) != self.count or listed[-1] >= self.size or sorted(set(listed)) != listed

    def _outputs(self) -> int:
        return comb(self.size, self.count)

    def _numbers(self) -> Iterable[int]:
        for places in combinations(range(self.size), self.count):
            yield self.number(self._report(sum(1 << place for place in places)))

    def in_words(self) -> str:
        if self.count == 1:
            return one_of_many(self.p, self.q, self.size)
        own, other = (number_format.probability(float(chance)) for chance in (self.p, self.q))
        return (
            f"Each device sends a random set of {number_format.count(self.count)} of the "
            f"{number_format.count(self.size)} values, which contains its own value with probability {own} and any "
            f"given other value with probability {other}."
        )

    def inputs(self) -> range:
        return range(self.size)

    def loss(self) -> Fraction:
        """P[y | x] is p / C(d-1, k-1) for x in y, otherwise (1-p) / C(d-1, k). Their ratio is p (d-k) / ((1-p) k)."""
        return log_above(self.p * (self.size - self.count) / ((1 - self.p) * self.count))

    def likelihood(self, report: bytes, value: int) -> float:
        if value in self._listed(self.number(report)):
            return float(self.p / comb(self.size - 1, self.count - 1))
        return float((1 - self.p) / comb(self.size - 1, self.count))

    def amplification(self) -> Amplification:
        """By symmetry there is one pair, with both, one or none of its values in the set.

        Some value is outside every set, so the blanket is low. The masses come from the numbers C(d-2, k-1), C(d-2, k)
        and C(d-2, k-2) of such sets, over C(d-1, k).
        """
        d, k, low, one = self.size, self.count, 1 - self.p, Fraction(1)
        ratio = self.p * (d - k) / (low * k)
        single, none = low * Fraction(k, d - 1), low * Fraction(d - 1 - k, d - 1)
        both = low * Fraction(k * (k - 1), (d - 1) * (d - k))
        atoms = [
            Atom(single, ratio, one),
            Atom(single, one, ratio),
            Atom(none, one, one),
            Atom(both, ratio, ratio),
        ]
        return Amplification((Pair(tuple(atom for atom in atoms if atom.mass)),))

    def influence(self) -> float:
        """A report adds (1 - q)/(p - q) to each of the k values in it and takes q/(p - q) from every other value."""
        return float(1 / (self.p - self.q))

    # -- at the aggregator ----------------------------------------------------------------------

    def _channel(self) -> Channel:
        """This mechanism as a mixture of one component."""
        return Channel(self.size, (Part(Sets(self.size, 1, self.count), 1.0, float(self.p)),))

    def precision(self) -> NDArray[np.float64] | None:
        return self._channel().precision() if self.ordered else None

    def weighted_sums(self, weights: ArrayLike) -> WeightedSums:
        return self._channel().sums(weights)

    def typical_variance(self) -> float:
        """Of one share; or for bins in order of the share in the first k bins, averaged over k."""
        if self.ordered:
            return self._channel().typical_variance()
        return PureOracle.typical_variance(self)

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.void]:
        import numpy as np

        held = whole_numbers(values, self.size, "a value of subset")
        step = max(1, _random_sets.AT_ONCE // self.size)
        parts = [self._some(held[start : start + step], rng) for start in range(0, len(held), step)]
        return np.concatenate([*parts, np.zeros(0, f"V{self.report_bytes}")])

    def _some(self, held: NDArray[np.int64], rng: BulkRandomness) -> NDArray[np.void]:
        """Reports for some values."""
        import numpy as np

        n, d = len(held), self.size
        places = _random_sets.draw_many(rng, held, d, self.count, lambda many: rng.coin(self.keep, many))
        if self.width:
            return self._joined_bits(bits_of(places.ravel(), self.width).reshape(n, -1))
        bits = np.zeros((n, d), np.uint8)
        np.put_along_axis(bits, places, 1, axis=1)
        return self._joined_bits(bits)

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """All sets at once; of few devices, each draws its own report."""
        from hubbub.mechanisms._crowd_simulation import per_item

        every = per_item(values, counts, self.size, self.name)
        if _random_sets.is_few(every, self.size):
            return super(SubsetSelection, self).simulate(values, counts, rng)
        cells = _random_sets.simulate(rng, every, self.size, self.count, float(self.p))
        return Tally(self.fingerprint, int(every.sum()), cells)

    def _places(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The listed values, one report per row."""
        import numpy as np

        spare = with_spare_bytes(rows)
        return np.stack([field(spare, i * self.width, self.width) for i in range(self.count)], axis=1)

    def _possible(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        import numpy as np

        # not super(), because a dataclass with slots is a new class, not the one that was written here
        within = PackedMechanism._possible(self, rows)
        if self.width:
            places = self._places(rows)
            return np.asarray(within & (places[:, -1] < self.size) & (np.diff(places, axis=1) > 0).all(axis=1))
        return np.asarray(within & np.equal(np.bitwise_count(rows).sum(axis=1, dtype=np.int64), self.count))

    def _counts(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        counts = np.zeros(self.size, np.int64)
        step = max(1, _random_sets.AT_ONCE // self.size)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            if self.width:
                counts += np.bincount(self._places(some).ravel(), minlength=self.size)
            else:
                counts += np.unpackbits(some, axis=1, count=self.size, bitorder="little").sum(axis=0, dtype=np.int64)
        return counts

    def _refuse_impossible(self, tally: Tally) -> None:
        low, high, total = int(tally.cells.min()), int(tally.cells.max()), int(tally.cells.sum())
        if low < 0 or high > tally.reports or total != self.count * tally.reports:
            raise MalformedTally(
                f"the counts of a subset tally must be from 0 to its reports, and sum to {self.count} per report"
            )

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        r"""Covariance of all estimates, for differences and sums of values.

        A report of x supports both v and w with probability c1 = p (k-1)/(d-1) if x is one of them, otherwise
        c2 = (k-1) (k - 2p) / ((d-1) (d-2)); n Cov = ((f_v + f_w) (c1 - p q) + (1 - f_v - f_w) (c2 - q^2)) / (p - q)^2.
        """
        import numpy as np

        d, k, p, q = self.size, self.count, float(self.p), float(self.q)
        found = self.estimate(tally).values
        sums = found[:, None] + found[None, :]
        one = p * (k - 1) / (d - 1)
        none = (k - 1) * (k - 2 * p) / ((d - 1) * (d - 2)) if d > 2 else q * q
        matrix = (sums * (one - p * q) + (1 - sums) * (none - q * q)) / (p - q) ** 2 / tally.reports
        np.fill_diagonal(matrix, variance(found, p, q) / tally.reports)
        return np.asarray(matrix)
