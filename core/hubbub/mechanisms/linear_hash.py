r"""Linear hashing, the default for long lists: local hashing to 2^t buckets by t parities that the device draws.

    n Var = (z+g-1)^2 / ((z-1)^2 (g-1)) + f ((g-1)^2 - z) / ((g-1) (z-1)),   z = e^eps, g = 2^t

exactly, within 7 % of the best possible (g near z + 1 loses least; Wang, Blocki, Li and Jha, USENIX Security 2017). All
d counts cost O(n 2^t + d log d). `_parity_hash` derives the hash and the decoder. docs/design/linear-hash.md explains
the choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below
from hubbub.mechanisms._local_hashing import error_with, keep_for
from hubbub.mechanisms._parameters import categories_of, chosen, integers, refuse_unfit
from hubbub.mechanisms._parity_hash import ParityHash
from hubbub.mechanisms._registry import register
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Domain

MOST_BITS = 10
"""The server adds 2^t signs for each report, so at most 1,024."""


@register("linear-hash")
@dataclass(frozen=True, slots=True)
class LinearHash(ParityHash):
    """Of 2^`bits` buckets, the right one is sent with probability `keep` / 2**64, otherwise a uniform other one."""

    regime: ClassVar[str] = "long lists: near the least error in a few bytes, fast to count"

    epsilon: Fraction
    size: int
    bits: int
    keep: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS:
            raise InvalidParameter(f"linear-hash: bits must be from 1 to {MOST_BITS}, got {self.bits}")
        self._check()

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, *, bits: int | None = None, **options: Any) -> Self:
        """`bits` defaults to the number that has the least error at this epsilon."""
        refuse_unfit(cls, domain, options)
        size = categories_of(cls, domain).size
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        most = min(MOST_BITS, (size - 1).bit_length())
        if bits is None:
            bits = min(range(1, most + 1), key=lambda t: error_with(odds, 1 << t, size))
        return cls(exact, size, bits := chosen(cls, "bits", bits, 1, most), keep_for(odds, 1 << bits))

    @classmethod
    def variants(cls, domain: Domain) -> list[Mapping[str, Any]]:
        """Every number of buckets."""
        most = min(MOST_BITS, (categories_of(cls, domain).size - 1).bit_length())
        return [{"bits": bits} for bits in range(1, most + 1)]

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        return cls(exact_epsilon(epsilon), size, *integers(cls.name, parameters, ["bits", "keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        return [cls(exact, size, 2, keep_for(odds, 4)) for size in (3, 5)]

    def parameters(self) -> dict[str, Json]:
        return {"bits": self.bits, "keep": str(self.keep)}
