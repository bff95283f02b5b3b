r"""Binary randomized response: often the truth, otherwise the opposite.

The device sends the truth with probability p and the opposite with q = 1 - p. With all of epsilon used,

    p = e^eps / (e^eps + 1)        n Var = e^eps / (e^eps - 1)^2, whatever the truth is

(Warner, JASA 60, 1965; optimal for one bit: Kairouz, Oh and Viswanath, JMLR 17, 2016, arXiv 1407.1338).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, threshold
from hubbub.mechanisms._frequency_oracle import NamesOneItem, opposite
from hubbub.mechanisms._parameters import integers, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._symbols import SymbolMechanism, whole_numbers
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.randomness import BulkRandomness, Randomness


@register("rr")
@dataclass(frozen=True, slots=True)
class BinaryRandomizedResponse(SymbolMechanism, NamesOneItem[int]):
    """One bit, kept with probability `keep` / 2**64."""

    regime: ClassVar[str] = "yes or no: optimal for two values"

    epsilon: Fraction
    keep: int

    def __post_init__(self) -> None:
        if not WORD // 2 < self.keep < WORD:
            raise InvalidParameter(f"rr: keep must be above 2**63 and below 2**64, got {self.keep}")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return domain == Categories(2)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        return cls(exact, threshold(odds / (odds + 1)))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        refuse_unfit(cls, domain)
        return cls(exact_epsilon(epsilon), *integers(cls.name, parameters, ["keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Categories(2))]

    def parameters(self) -> dict[str, Json]:
        return {"keep": str(self.keep)}

    @property
    def domain(self) -> Categories:
        return Categories(2)

    @property
    def symbols(self) -> int:
        return 2

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        return 1 - self.p

    def randomize(self, value: object, rng: Randomness) -> int:
        if not isinstance(value, int) or value not in (0, 1):
            raise InvalidValue(f"rr randomizes True or False (1 or 0), got {value!r}")
        return int(value) ^ (not rng.coin(self.keep, WORD))

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        truth = whole_numbers(values, 2, "a value of rr")
        return truth ^ ~rng.coin(self.keep, len(truth))

    def in_words(self) -> str:
        return opposite(self.p, self.q)

    def face(self, report: int) -> int:
        return report

    def inputs(self) -> range:
        return range(2)

    def loss(self) -> Fraction:
        return log_above(self.p / self.q)

    def likelihood(self, report: int, value: int) -> float:
        return float(self.p if report == value else self.q)

    def amplification(self) -> Amplification:
        ratio, one = self.p / self.q, Fraction(1)
        atoms = (Atom(self.q, ratio, one), Atom(self.q, one, ratio))
        return Amplification((Pair(atoms),), binary=(self.q, self.p))

    def influence(self) -> float:
        """A report adds (1 - q)/(p - q) to the bit it names and takes q/(p - q) from the other."""
        return float(1 / (self.p - self.q))
