r"""k-ary randomized response: often the truth, otherwise a uniform lie.

Of k values the device sends the true one with probability p and each other one with probability q. With all of epsilon
used,

    p = e^eps / (e^eps + k - 1)        q = 1 / (e^eps + k - 1)
    n Var = (e^eps + k - 2) / (e^eps - 1)^2 + f (k - 2) / (e^eps - 1)

(Kairouz, Bonawitz and Ramage, ICML 2016, arXiv 1602.07387, who call it k-RR; "direct encoding" in Wang,
Blocki, Li and Jha, USENIX Security 2017.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, threshold
from hubbub.mechanisms._frequency_oracle import NamesOneItem, one_of_many
from hubbub.mechanisms._parameters import categories_of, integers, is_list, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._symbols import SymbolMechanism, index, whole_numbers
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.randomness import BulkRandomness, Randomness


@register("krr")
@dataclass(frozen=True, slots=True)
class KaryRandomizedResponse(SymbolMechanism, NamesOneItem[int]):
    """One of `size` values, kept with probability `keep` / 2**64, otherwise any other one, all equally likely."""

    regime: ClassVar[str] = "a short list: best up to about 1.4 (e^eps + 1) values"

    epsilon: Fraction
    size: int
    keep: int

    def __post_init__(self) -> None:
        Categories(self.size)
        if not WORD < self.size * self.keep < self.size * WORD:
            raise InvalidParameter(f"krr: keep must be above 2**64 / {self.size} and below 2**64, got {self.keep}")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return is_list(domain)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        size = categories_of(cls, domain).size
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        return cls(exact, size, threshold(odds / (odds + size - 1)))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Categories(size)) for size in (2, 3, 5)]

    def parameters(self) -> dict[str, Json]:
        return {"keep": str(self.keep)}

    @property
    def domain(self) -> Categories:
        return Categories(self.size)

    @property
    def symbols(self) -> int:
        return self.size

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        return Fraction(WORD - self.keep, WORD * (self.size - 1))

    def randomize(self, value: object, rng: Randomness) -> int:
        truth = index(value, self.size, "krr")
        # always draw the lie: a device must not take longer when it lies
        lie = (truth + 1 + rng.below(self.size - 1)) % self.size
        return truth if rng.coin(self.keep, WORD) else lie

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        truth = whole_numbers(values, self.size, "a value of krr")
        lie = (truth + 1 + rng.below(self.size - 1, len(truth))) % self.size
        return np.where(rng.coin(self.keep, len(truth)), truth, lie)

    def in_words(self) -> str:
        return one_of_many(self.p, self.q, self.size)

    def face(self, report: int) -> int:
        return report

    def inputs(self) -> range:
        return range(self.size)

    def loss(self) -> Fraction:
        return log_above(self.p / self.q)

    def likelihood(self, report: int, value: int) -> float:
        return float(self.p if report == value else self.q)

    def amplification(self) -> Amplification:
        """By symmetry there is one pair: a class for each of its values, and one for all others, equally likely."""
        ratio, one = self.p / self.q, Fraction(1)
        atoms = [Atom(self.q, ratio, one), Atom(self.q, one, ratio)]
        if self.size > 2:
            atoms.append(Atom((self.size - 2) * self.q, one, one))
        binary = (self.q, self.p) if self.size == 2 else None
        return Amplification((Pair(tuple(atoms)),), binary)

    def influence(self) -> float:
        """A report adds (1 - q)/(p - q) to the value it names and takes q/(p - q) from every other value."""
        return float(1 / (self.p - self.q))
