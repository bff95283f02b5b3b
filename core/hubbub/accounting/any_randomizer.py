r"""Bounds for any ε0-LDP randomizer of which only ε0 is known. With e = e^ε0 and E = e^ε:

**Extremal pair**, used by `AnyRandomizer`. For inputs x0, x1 let M = max(R0, R1). Every input has R_x >= M / e, so
M / e is a blanket, and G = e (R0 - E R1) / M lies between 1 - eE and e - E. Its mass is (1 + TV(R0, R1)) / e <=
2 / (e + 1), the rest sits at 0, and E[G] = 1 - E. Of all such laws the largest in convex order has mass 1/(e+1)
on each end, which is the blanket of binary randomized response. docs/explanation/accounting.md has the proof, which is
the project's own, and related published results. Only the *blanket* of binary randomized response covers every
randomizer; its exact value does not.

**Clones** (Feldman, McMillan, Talwar, FOCS 2021, arXiv 2012.12803), used by `CloneRandomizer` as a cross-check. Every
other report is, with probability e^-ε0, a fair draw from the two laws that the victim's report may have, and those two
are post-processings of randomized response. That is a blanket with two atoms of mass 1/2e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Self

from hubbub.mechanisms import Amplification, Atom, Pair
from hubbub.mechanisms._exact_arithmetic import SMALLEST_EPSILON, exact_epsilon, float_above


@dataclass(frozen=True, slots=True)
class AnyRandomizer:
    """A local randomizer of which only its ε is known, bounded by the extremal pair."""

    epsilon: Fraction

    def __init__(self, epsilon: object) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(epsilon))

    @property
    def name(self) -> str:
        return "any"

    @property
    def realised_epsilon(self) -> float:
        return float_above(self.epsilon)

    def amplification(self) -> Amplification:
        """The blanket of binary randomized response, but no claim that reports are bits."""
        power = exp_above(self.epsilon)
        return _two_atoms(1 / (power + 1), power, Fraction(1))

    @classmethod
    def at_most(cls, epsilon: float) -> Self:
        """A randomizer that is known to realise at most this ε."""
        return cls(max(Fraction(epsilon), SMALLEST_EPSILON))


@dataclass(frozen=True, slots=True, init=False)
class CloneRandomizer(AnyRandomizer):
    """The same, bounded by the published clones. This is above the extremal pair, usually by a tenth to a half."""

    @property
    def name(self) -> str:
        return "any-clones"

    def amplification(self) -> Amplification:
        """Each other report is a clone with probability e^-ε0, of either input with equal chance."""
        power = exp_above(self.epsilon)
        return _two_atoms(1 / (2 * power), 2 * power * power / (power + 1), 2 * power / (power + 1))


def _two_atoms(mass: Fraction, likely: Fraction, unlikely: Fraction) -> Amplification:
    return Amplification((Pair((Atom(mass, likely, unlikely), Atom(mass, unlikely, likely))),))


def exp_above(exponent: Fraction) -> Fraction:
    """A rational just above exp(exponent)."""
    up = Context(prec=60, rounding=ROUND_CEILING)
    power = up.exp(up.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    return Fraction(up.next_plus(power))


def log_below(number: float) -> float:
    """A float at or below ln(number)."""
    return math.nextafter(math.nextafter(math.log(number), -math.inf), -math.inf)
