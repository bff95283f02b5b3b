r"""Unary encodings: one bit for each value, each randomized on its own (sue, oue).

The bit of the value held is 1 with probability p, every other bit with probability q, all independently. So

    P[y | x] = base(y) * (p/q if y_x else (1-p)/(1-q))        base(y) = prod over v of q^y_v (1-q)^(1-y_v)

and a report favours one value over another by at most p (1-q) / (q (1-p)).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, MalformedTally
from hubbub.mechanisms._bit_reports import PackedMechanism, joined
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, short_threshold_above
from hubbub.mechanisms._frequency_oracle import UncorrelatedItems
from hubbub.mechanisms._parameters import categories_of, integers, is_list, refuse_unfit
from hubbub.mechanisms._symbols import index, whole_numbers
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.mechanisms.tallies_and_estimates import Tally
from hubbub.number_format import count, probability
from hubbub.randomness import WORD, ones

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

_AT_ONCE = 2**25
"""Bits unpacked in one step."""
_FEW = 8
"""Up to this many values the report of all ones is a separate atom."""
_TINY = Fraction(1, 2**128)


@dataclass(frozen=True, slots=True)
class UnaryEncoding(PackedMechanism, UncorrelatedItems[bytes]):
    """Bit v of a report is 1 with probability `keep` / 2**64 if value v is held, otherwise with `flip` / 2**64."""

    zeros_have: ClassVar[Fraction]
    """The share of epsilon that a zero gets: q = 1 / (e^(share eps) + 1)."""

    epsilon: Fraction
    size: int
    flip: int

    def __post_init__(self) -> None:
        Categories(self.size)
        if not 0 < 2 * self.flip < WORD:
            raise InvalidParameter(f"{self.name}: flip must be above 0 and below 2**63, got {self.flip}")
        self._refuse_if_not_private()

    @property
    @abstractmethod
    def keep(self) -> int:
        """The probability, times 2**64, that the bit of the value held is 1."""

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return is_list(domain)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        flip = short_threshold_above(1 / (exp_below(exact * cls.zeros_have) + 1))
        return cls(exact, categories_of(cls, domain).size, flip)

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["flip"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Categories(3))]

    def parameters(self) -> dict[str, Json]:
        return {"flip": str(self.flip)}

    @property
    def domain(self) -> Categories:
        return Categories(self.size)

    @property
    def report_bits(self) -> int:
        return self.size

    @property
    def cells(self) -> int:
        return self.size

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        return Fraction(self.flip, WORD)

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, self.name)
        # always draw every bit, also that of the value: a device must not take longer for one value than for another
        noise = rng.coins(self.size, self.flip, 64)
        one = int(rng.coin(self.keep, WORD))
        return self.packed(noise & ~(1 << held) | one << held)

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[Any]:
        import numpy as np

        held = whole_numbers(values, self.size, f"a value of {self.name}")
        rows = rng.coins(len(held), self.report_bytes, self.flip).copy()
        if self.size % 8:
            rows[:, -1] &= np.uint8((1 << self.size % 8) - 1)
        place = (np.arange(len(held)), held >> 3)
        mask = (1 << (held & 7)).astype(np.uint8)
        rows[place] = rows[place] & ~mask | mask * rng.coin(self.keep, len(held))
        return joined(rows)

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Draw each bit's count directly, since bits are independent: ones that stay plus zeros that are flipped."""
        from hubbub.mechanisms._crowd_simulation import per_item

        held = per_item(values, counts, self.size, self.name)
        reports = int(held.sum())
        ones = rng.binomial(held, float(self.p)) + rng.binomial(reports - held, float(self.q))
        return Tally(self.fingerprint, reports, ones)

    def in_words(self) -> str:
        return (
            f"Each device writes one bit for each of the {count(self.size)} values and flips every bit at random: "
            f"the bit of its own value is 1 with probability {probability(float(self.p))}, every other bit with "
            f"probability {probability(float(self.q))}."
        )

    def face(self, report: bytes) -> tuple[int, ...]:
        return tuple(ones(self.number(report)))

    def inputs(self) -> range:
        return range(self.size)

    def loss(self) -> Fraction:
        return log_above(self.p * (1 - self.q) / (self.q * (1 - self.p)))

    def likelihood(self, report: bytes, value: int) -> float:
        number, p, q = self.number(report), float(self.p), float(self.q)
        one = number >> value & 1
        others = number.bit_count() - one
        chance = p if one else 1 - p
        return float(chance * q**others * (1 - q) ** (self.size - 1 - others))

    def amplification(self) -> Amplification:
        r"""By symmetry there is one pair, in four classes: the two bits of its values.

        With r1 = p/q and r0 = (1-p)/(1-q) < r1 the blanket is base(y) r0, because some value has a 0, unless y is all
        ones, where it is base(y) r1. That report has mass q^d. Where it is rare, the smaller base(y) r0 is used for it,
        too, since lowering a blanket only raises the bound.
        """
        p, q, one = self.p, self.q, Fraction(1)
        high, low = p / q, (1 - p) / (1 - q)
        ratio = high / low
        both, all_ones = q * q * low, Fraction(0)
        if self.size <= _FEW and q**self.size * high > _TINY:
            both, all_ones = q * q * (1 - q ** (self.size - 2)) * low, q**self.size * high
        atoms = [
            Atom(q * (1 - q) * low, ratio, one),
            Atom(q * (1 - q) * low, one, ratio),
            Atom((1 - q) ** 2 * low + all_ones, one, one),
        ]
        if both:
            atoms.append(Atom(both, ratio, ratio))
        return Amplification((Pair(tuple(atoms)),))

    def influence(self) -> float:
        """A report of all ones adds (1 - q)/(p - q) to every value; one of all zeros takes away q/(p - q)."""
        return float(1 / (self.p - self.q))

    def _counts(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        counts = np.zeros(self.size, np.int64)
        step = max(1, _AT_ONCE // (8 * self.report_bytes))
        for start in range(0, len(rows), step):
            bits = np.unpackbits(rows[start : start + step], axis=1, count=self.size, bitorder="little")
            counts += bits.sum(axis=0, dtype=np.int64)
        return counts

    def _refuse_impossible(self, tally: Tally) -> None:
        if tally.cells.min() < 0 or tally.cells.max() > tally.reports:
            raise MalformedTally(f"each count of a {self.name} tally must be from 0 to its reports")
