r"""One-bit Hadamard response: the sign in a random row of a Hadamard matrix, in the value's column.

The device draws the row j and sends it with the sign (-1)^<j, x>, kept with probability z / (z + 1), z = e^eps:

    n Var = ((z + 1) / (z - 1))^2 - f

(Nguyên, Xiao, Yang, Hui, Shin and Shin, 2016, arXiv 1606.05053, and Apple's HCMS use one bit in the same way; Acharya,
Sun and Zhang, AISTATS 2019, arXiv 1802.04705, use more bits.) It is local hashing to two buckets by one parity; see
`_parity_hash`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below
from hubbub.mechanisms._local_hashing import keep_for
from hubbub.mechanisms._parameters import categories_of, integers, refuse_unfit
from hubbub.mechanisms._parity_hash import ParityHash
from hubbub.mechanisms._registry import register
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.number_format import probability


@register("hadamard")
@dataclass(frozen=True, slots=True)
class HadamardResponse(ParityHash):
    """The sign is kept with probability `keep` / 2**64."""

    regime: ClassVar[str] = "long lists in the fewest bytes, at a small epsilon"

    epsilon: Fraction
    size: int
    keep: int

    def __post_init__(self) -> None:
        self._check()

    @property
    def bits(self) -> int:  # type: ignore[override]  # a constant, where linear-hash has a field
        return 1

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        return cls(exact, categories_of(cls, domain).size, keep_for(exp_below(exact), 2))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Categories(size)) for size in (5, 2)]

    def parameters(self) -> dict[str, Json]:
        return {"keep": str(self.keep)}

    def in_words(self) -> str:
        return (
            "Each device draws a row of a Hadamard matrix, which asks one yes-or-no question about its value, and "
            f"sends a single bit: the truth with probability {probability(float(self.p))}, otherwise the opposite."
        )
