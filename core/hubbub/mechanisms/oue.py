r"""Optimized unary encoding: one bit for each value. A one reveals little; a zero uses all of epsilon.

The bit of the value held is 1 with probability p = 1/2, every other bit with probability q. With all of epsilon used,

    q = 1 / (e^eps + 1)        n Var = 4 e^eps / (e^eps - 1)^2 + f

(Wang, Blocki, Li and Jha, USENIX Security 2017, section 4.3.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hubbub.mechanisms._registry import register
from hubbub.mechanisms._unary import UnaryEncoding
from hubbub.randomness import WORD


@register("oue")
@dataclass(frozen=True, slots=True)
class OptimizedUnaryEncoding(UnaryEncoding):
    """`size` bits: that of the value is 1 with probability 1/2, each other one with probability `flip` / 2**64."""

    regime: ClassVar[str] = "long lists where a report may hold a bit for each value"
    zeros_have: ClassVar[Fraction] = Fraction(1)

    @property
    def keep(self) -> int:
        return WORD // 2
