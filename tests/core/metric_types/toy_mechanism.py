"""A mechanism that the product does not know: a report is the truth or "no answer"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Amplification, Atom, Categories, Domain, Pair
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, threshold
from hubbub.mechanisms._frequency_oracle import NamesOneItem
from hubbub.mechanisms._parameters import categories_of, integers, refuse_unfit
from hubbub.mechanisms._symbols import SymbolMechanism, index, whole_numbers
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.randomness import BulkRandomness, Randomness


@dataclass(frozen=True, slots=True)
class Shrug(SymbolMechanism, NamesOneItem[int]):
    """The truth with probability `keep` / 2**64, else any value alike, the truth among them."""

    name: ClassVar[str] = "shrug"
    """As `register` sets it: the aggregator's worker processes load this file and register nothing."""
    regime: ClassVar[str] = "a test"
    reserved: ClassVar[str] = "a toy"

    epsilon: Fraction
    size: int
    keep: int

    def __post_init__(self) -> None:
        if not 0 < self.keep < WORD:
            raise InvalidParameter(f"shrug: keep must be between 0 and 2**64, got {self.keep}")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Categories)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        size, asked = categories_of(cls, domain).size, exact_epsilon(epsilon)
        odds = exp_below(asked)
        return cls(asked, size, threshold((odds - 1) / (odds - 1 + size)))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Categories(size)) for size in (2, 4)]

    def parameters(self) -> dict[str, Any]:
        return {"keep": str(self.keep)}

    @property
    def domain(self) -> Categories:
        return Categories(self.size)

    @property
    def symbols(self) -> int:
        return self.size

    @property
    def q(self) -> Fraction:
        return Fraction(WORD - self.keep, WORD * self.size)

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD) + self.q

    def randomize(self, value: object, rng: Randomness) -> int:
        truth, other = index(value, self.size, self.name), rng.below(self.size)
        return truth if rng.coin(self.keep, WORD) else other

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        truth = whole_numbers(values, self.size, "a value of shrug")
        other = rng.below(self.size, len(truth))
        return np.where(rng.coin(self.keep, len(truth)), truth, other)

    def inputs(self) -> range:
        return range(self.size)

    def in_words(self) -> str:
        return f"Each device tells the truth or shrugs, of {self.size} values."

    def face(self, report: int) -> int:
        return report

    def loss(self) -> Fraction:
        return log_above(self.p / self.q)

    def likelihood(self, report: int, value: int) -> float:
        return float(self.p if report == value else self.q)

    def amplification(self) -> Amplification:
        ratio, one = self.p / self.q, Fraction(1)
        atoms = [Atom(self.q, ratio, one), Atom(self.q, one, ratio)]
        if self.size > 2:
            atoms.append(Atom((self.size - 2) * self.q, one, one))
        return Amplification((Pair(tuple(atoms)),))

    def influence(self) -> float:
        return float(1 / (self.p - self.q))
