r"""Symmetric unary encoding (basic RAPPOR): one bit for each value, each sent by randomized response.

Every bit is kept with probability p and flipped with q = 1 - p. With all of epsilon used, and s = e^(eps/2),

    p = s / (s + 1)        n Var = s / (s - 1)^2, whatever the truth is

(Erlingsson, Pihur and Korolova, CCS 2014, arXiv 1407.6981, without memoization and hashing; "SUE" in Wang,
Blocki, Li and Jha, USENIX Security 2017.) Two values differ in two bits, so each bit gets half of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hubbub.mechanisms._registry import register
from hubbub.mechanisms._unary import UnaryEncoding
from hubbub.randomness import WORD


@register("sue")
@dataclass(frozen=True, slots=True)
class SymmetricUnaryEncoding(UnaryEncoding):
    """`size` bits, each flipped with probability `flip` / 2**64."""

    regime: ClassVar[str] = "basic RAPPOR, for comparison: oue is better on long lists"
    zeros_have: ClassVar[Fraction] = Fraction(1, 2)

    @property
    def keep(self) -> int:
        return WORD - self.flip
