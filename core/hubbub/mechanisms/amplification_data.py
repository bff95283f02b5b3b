"""Amplification data: what the shuffle accountant needs to know about a mechanism, as classes of its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Amplification", "Atom", "Pair", "Table"]


@dataclass(frozen=True, slots=True)
class Atom:
    """One class of outputs y, whose likelihoods under a pair of inputs have the same ratios to the blanket.

    `mass` is the blanket's, min over inputs x of R_x(y), summed over the class. `first` and `second` are R_x0(y) and
    R_x1(y) divided by the blanket. One minus the sum of the masses is the blanket's gap.
    (Balle, Bell, Gascón, Nissim, CRYPTO 2019, arXiv 1903.02837, section 5: G = first - e^eps second.)
    """

    mass: Fraction
    first: Fraction
    second: Fraction


@dataclass(frozen=True, slots=True)
class Pair:
    """The atoms of one pair of inputs, in both directions."""

    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Many pairs of inputs over the same classes of outputs.

    `masses[y]` is the blanket's mass, `ratios[x][y]` is R_x(y) divided by it, and `pairs` are rows x0, x1 of `ratios`.
    """

    masses: tuple[Fraction, ...]
    ratios: tuple[tuple[Fraction, ...], ...]
    pairs: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        """Each pair written out."""
        for a, b in self.pairs:
            yield Pair(tuple(map(Atom, self.masses, self.ratios[a], self.ratios[b])))


@dataclass(frozen=True, slots=True)
class Amplification:
    """What the shuffle accountant needs to know about a mechanism.

    `pairs` holds every pair of inputs that may be the worst one, up to symmetry. `binary` is
    (P[1 | 0], P[1 | 1]) if a report is one bit and every input acts as a mixture of the inputs 0 and 1.
    """

    pairs: tuple[Pair, ...] | Table
    binary: tuple[Fraction, Fraction] | None = None
