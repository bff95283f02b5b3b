r"""The privacy blanket: an upper bound on what n shuffled reports of one mechanism reveal.

For inputs x0, x1 with output laws R0, R1, and Rmin(y) = min over all inputs x of R_x(y),

    δ(ε) <= (1/n) E[(G_1 + ... + G_n)_+],     G = (R0(y) - e^ε R1(y)) / Rmin(y)  with y ~ Rmin,

and G = 0 on the mass that Rmin lacks to 1 (Balle, Bell, Gascón, Nissim, CRYPTO 2019, arXiv 1903.02837,
section 5; n counts the victim). It holds for every data set of the other n - 1, so only pairs of inputs
remain to be maximised over. The mean is evaluated from above by `laplace_inversion`.

Many pairs need few evaluations. If G of one pair is below G of another in convex order, so are the sums
and their positive parts, and comparing two laws costs far less than summing one n times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hubbub.accounting.epsilon_search import smallest_epsilon
from hubbub.accounting.laplace_inversion import RAMP, UNIT, Law, upper_expectation
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.mechanisms import Pair

MOST_REPORTS = 10**9
"""Larger batches are counted as this many. Fewer reports hide less, so the bound stays valid."""
USUAL, FINE = 300.0, 3000.0
_SPREAD, _SHIFT = 1e-7, 1e-13
"""A leading pair is widened by these, so that comparing other pairs with it needs no exact arithmetic."""


class Blankets:
    """Every ordered pair of inputs that may be the worst, with its atoms rounded to floats on the safe side."""

    def __init__(self, pairs: Iterable[Pair] | Table) -> None:
        rows = _rows_of_table(pairs) if isinstance(pairs, Table) else _rows_of_pairs(pairs)
        self._masses, self._first, self._second = rows
        order = np.argsort(-(self._masses * (self._first - self._second) ** 2).sum(axis=1), kind="stable")
        self._masses, self._first, self._second = self._masses[order], self._first[order], self._second[order]

    def delta(self, reports: int, epsilon: float, fineness: float = USUAL) -> float:
        """A number at or above the blanket's δ(ε)."""
        worst, pending = 0.0, np.arange(len(self._masses))
        while len(pending):
            lead, pending = pending[0], pending[1:]
            worst = max(worst, self._delta(lead, reports, epsilon, fineness))
            pending = pending[~self._dominated(pending, lead, epsilon)]
        return worst

    def epsilon(self, reports: int, delta: float, ceiling: float) -> float:
        """The smallest ε below `ceiling` at which `delta` is certified, or `ceiling`."""
        epsilon, pending = 0.0, np.arange(len(self._masses))
        while len(pending) and epsilon < ceiling:
            lead, pending = pending[0], pending[1:]
            epsilon = self._epsilon(lead, reports, delta, epsilon, ceiling)
            # δ(ε) falls, so what is certified here for `lead` stays certified while ε is raised for other pairs
            pending = pending[~self._dominated(pending, lead, epsilon)]
        return min(epsilon, ceiling)

    def spread(self, reports: int) -> float:
        """Roughly the standard deviation of the privacy loss, for choosing where to look."""
        worst = float((self._masses[0] * (self._first[0] - self._second[0]) ** 2).sum())
        return math.sqrt(worst / reports)

    def _epsilon(self, lead: int, reports: int, delta: float, low: float, ceiling: float) -> float:
        spread = self.spread(reports)
        guess = max(low * (1 + 1e-9), spread * math.sqrt(2 * math.log1p(spread / delta)))
        found = smallest_epsilon(lambda e: self._delta(lead, reports, e, USUAL), delta, ceiling, guess, low)
        if low < found and self._delta(lead, reports, found, FINE) < delta * (1 - 1e-3):
            # few reports or a tilt near the local ε: the sum is coarse compared with the Gaussian added to it
            guess = found - 1e-3 * min(found, ceiling - found)
            found = smallest_epsilon(lambda e: self._delta(lead, reports, e, FINE), delta, found, guess, low)
        return found

    def _values(self, which: int | NDArray[np.intp], epsilon: float) -> NDArray[np.float64]:
        power = math.exp(epsilon) * (1 - 4 * UNIT)
        first, second = self._first[which], self._second[which]
        # rounded up, since E[(ΣG)_+] never falls when a value rises
        return np.asarray(first - power * second + 4 * UNIT * (first + power * second))

    def _law(self, lead: int, epsilon: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values = self._values(lead, epsilon)
        if len(self._masses) > 1:
            power = math.exp(epsilon)
            values = (1 - power) + (1 + _SPREAD) * (values - (1 - power)) + _SHIFT * (1 + power)
        present = self._masses[lead] > 0
        return self._masses[lead][present], values[present]

    def _delta(self, lead: int, reports: int, epsilon: float, fineness: float) -> float:
        masses, values = self._law(lead, epsilon)
        # for one report this is the local divergence itself, and more reports only hide more
        bound = float(masses @ np.maximum(values, 0.0)) * (1 + 4 * len(values) * UNIT)
        if reports > 1:
            bound = min(bound, upper_expectation([Law(masses, values, reports)], RAMP, 0.0, fineness) / reports)
        return min(1.0, bound * (1 + 8 * UNIT))

    def _dominated(self, others: NDArray[np.intp], lead: int, epsilon: float) -> NDArray[np.bool_]:
        """Which of `others` have a G that is below the widened lead's in convex order.

        For laws of equal mean this is E(G - c)_+ <= E(G' - c)_+ at the values c of G', where the right side has its
        kinks. Below the mean it is written with E(c - G)_+, so that neither side is a difference of large numbers.
        """
        if not len(others):
            return np.zeros(0, bool)
        lead_masses, kinks = self._law(lead, epsilon)
        masses, values = self._masses[others], self._values(others, epsilon)
        result = np.ones(len(others), bool)
        middle = 1 - math.exp(epsilon)
        rounding = 16 * UNIT * (16 + len(kinks) + masses.shape[1])
        # both directions are raised by more than the subtraction below can lose
        sides = {sign: sign * values + 8 * UNIT * np.abs(values) for sign in (1.0, -1.0)}
        excess = np.empty_like(values)
        for kink in kinks:
            sign = 1.0 if kink >= middle else -1.0
            allowed = float(lead_masses @ np.maximum(sign * (kinks - kink), 0.0))
            np.subtract(sides[sign], sign * kink - 8 * UNIT * abs(kink), out=excess)
            np.maximum(excess, 0.0, out=excess)
            found = np.einsum("ij,ij->i", masses, excess)
            result &= found * (1 + rounding) <= allowed * (1 - rounding)
        return result


_POINT = 256
"""Binary digits after the point in the fixed-point copies with which sums are checked."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A rational as `fixed` / 2^256, which is at most 2^-256 below it, and the floats around it."""

    fixed: int
    below: float
    above: float


class _Known:
    """Rounds each Fraction object once, because the pairs of a mechanism share most of theirs."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[Fraction, _Number]] = {}

    def __call__(self, number: Fraction) -> _Number:
        found = self._numbers.get(id(number))
        if found is None:
            found = self._numbers[id(number)] = (number, _rounded(number))
        return found[1]


def _rounded(number: Fraction) -> _Number:
    nearest = float(number)
    below = nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)
    above = nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
    return _Number((number.numerator << _POINT) // number.denominator, below, above)


_Row: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]"
"""Masses with the gap last, R0 over the blanket rounded up, and R1 rounded down (0 for the gap): one row per pair."""


def _rows_of_pairs(pairs: Iterable[Pair]) -> _Row:
    known = _Known()
    rows: list[tuple[list[float], list[float], list[float]]] = []
    for pair in pairs:
        atoms = [(known(atom.mass), known(atom.first), known(atom.second)) for atom in pair.atoms]
        masses = [mass for mass, _, _ in atoms]
        above = [mass.above for mass in masses] + [_gap(masses, [[a for _, a, _ in atoms], [b for _, _, b in atoms]])]
        rows.append((above, [first.above for _, first, _ in atoms], [second.below for _, _, second in atoms]))
        # whether the pair is symmetric is checked on the atoms, not trusted
        if Counter(atoms) != Counter((mass, second, first) for mass, first, second in atoms):
            rows.append((above, [second.above for _, _, second in atoms], [first.below for _, first, _ in atoms]))
    width = max(len(masses) for masses, _, _ in rows)
    filled = np.zeros((3, len(rows), width))
    for index, row in enumerate(rows):
        for array, values in zip(filled, row, strict=True):
            array[index, : len(values)] = values
    return filled[0], filled[1], filled[2]


def _rows_of_table(table: Table) -> _Row:
    """Both directions of every pair. A mirror image is as bad as the pair itself and costs only a comparison."""
    known = _Known()
    masses = [known(mass) for mass in table.masses]
    ratios = [[known(ratio) for ratio in row] for row in table.ratios]
    above = np.array([mass.above for mass in masses] + [_gap(masses, ratios)])
    first = np.array([[ratio.above for ratio in row] + [0.0] for row in ratios])
    second = np.array([[ratio.below for ratio in row] + [0.0] for row in ratios])
    pairs = np.array(table.pairs)
    one, other = np.concatenate([pairs, pairs[:, ::-1]]).T
    return np.tile(above, (len(one), 1)), first[one], second[other]


def _gap(masses: Sequence[_Number], laws: Iterable[Sequence[_Number]]) -> float:
    """The mass that the blanket lacks to 1, from above. Refuses masses and ratios that are not a blanket with laws."""
    one = 1 << _POINT
    if not masses or any(mass.fixed <= 0 for mass in masses):
        raise InvalidParameter("the atoms of a pair must have positive masses and no negative ratio")
    for law in laws:
        if any(ratio.fixed < 0 for ratio in law):
            raise InvalidParameter("the atoms of a pair must have positive masses and no negative ratio")
        total = sum(mass.fixed * ratio.fixed for mass, ratio in zip(masses, law, strict=True))
        if abs((total >> _POINT) - one) > one >> 100:
            raise InvalidParameter("the atoms of a pair must describe two probability laws")
    gap = one - sum(mass.fixed for mass in masses)
    if gap < -(one >> 100):
        raise InvalidParameter("the blanket masses of a pair must sum to at most 1")
    return _rounded(Fraction(max(gap, 0), one)).above
