r"""Symmetric unary encoding (basic RAPPOR): one bit for each value, each told as in randomized response.

Every bit is kept with probability p and turned with q = 1 - p; at full use of epsilon, with s = e^(eps/2),

    p = s / (s + 1)        n Var = s / (s - 1)^2, whatever the truth is

(Erlingsson, Pihur and Korolova, CCS 2014, arXiv 1407.6981, without memoization and hashing; "SUE" in Wang,
Blocki, Li and Jha, USENIX Security 2017.) Two bits differ between two values, so each has half of epsilon.
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
    """`size` bits, each turned with probability `flip` / 2**64."""

    regime: ClassVar[str] = "basic RAPPOR, for comparison: oue is better on long lists"
    zeros_have: ClassVar[Fraction] = Fraction(1, 2)

    @property
    def keep(self) -> int:
        return WORD - self.flip
