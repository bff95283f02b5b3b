r"""Approximate δ(ε), to rank mechanisms in a millisecond. It is no bound, and nothing that is shown comes from it.

The blanket's mean (1/n) E[(G_1 + ... + G_n)_+] is approximated at its saddle point. With K(θ) = n ln E e^{θG},
K'(θ) = 0 and σ² = K''(θ), the tilted sum is taken for a Gaussian:

    E[S_+] ≈ e^K(θ) (σ / sqrt(2π) - θ σ² e^{θ²σ²/2} Φ(-θσ))

(Daniels, Ann. Math. Statist. 25, 1954, for the method). One-bit reports get the data set in which all others hold one
value, in place of the blanket, since their certified δ is exact and much smaller.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hubbub.mechanisms import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.accounting.guarantee import Randomizer

_Atoms: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]"
_FEWEST = 1e-300


def approximate_delta(mechanism: Randomizer, reports: int, epsilon: float) -> float:
    """Roughly the δ that would be certified for a batch of `reports` at `epsilon`."""
    if epsilon >= mechanism.realised_epsilon:
        return 0.0
    return max(_at_saddle(atoms, reports, epsilon) for atoms in _both_ways(_worst_atoms(mechanism)))


def _worst_atoms(mechanism: Randomizer) -> _Atoms:
    """Masses and ratios of the pair with the largest spread."""
    amplification = mechanism.amplification()
    if amplification.binary is not None:
        low, high = map(float, amplification.binary)
        ratios = ((1 - low) / (1 - high), low / high)
        return np.array([1 - high, high]), np.ones(2), np.array(ratios)
    if isinstance(amplification.pairs, Table):
        masses = np.array([float(mass) for mass in amplification.pairs.masses])
        distinct = {id(ratio): ratio for row in amplification.pairs.ratios for ratio in row}
        floats = {place: float(ratio) for place, ratio in distinct.items()}
        laws = np.array([[floats[id(ratio)] for ratio in row] for row in amplification.pairs.ratios])
        one, other = np.array(amplification.pairs.pairs).T
        worst = int(((laws[one] - laws[other]) ** 2 @ masses).argmax())
        return masses, laws[one[worst]], laws[other[worst]]
    found = [
        tuple(np.array([float(getattr(atom, name)) for atom in pair.atoms]) for name in ("mass", "first", "second"))
        for pair in amplification.pairs
    ]
    masses, first, second = max(found, key=lambda atoms: float(atoms[0] @ (atoms[1] - atoms[2]) ** 2))
    return masses, first, second


def _both_ways(atoms: _Atoms) -> list[_Atoms]:
    masses, first, second = atoms
    return [(masses, first, second), (masses, second, first)]


def _at_saddle(atoms: _Atoms, reports: int, epsilon: float) -> float:
    masses, first, second = atoms
    values = np.append(first - math.exp(epsilon) * second, 0.0)
    masses = np.append(masses, max(0.0, 1.0 - float(masses.sum())))
    top = float(values.max())
    if top <= 0:
        return 0.0

    def tilted(tilt: float) -> tuple[float, float, float]:
        weights = masses * np.exp(tilt * (values - top))
        total = float(weights.sum())
        mean = float(weights @ values) / total
        return math.log(total) + tilt * top, mean, float(weights @ (values - mean) ** 2) / total

    low, high = 0.0, 1.0 / top
    while tilted(high)[1] < 0 and high < 1e9 / top:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tilted(middle)[1] < 0 else (low, middle)
    tilt = (low + high) / 2
    exponent, _, variance = tilted(tilt)
    spread = math.sqrt(reports * variance)
    scaled = tilt * spread
    # scaled e^{scaled²/2} Φ(-scaled) tends to 1/sqrt(2π); its difference to that is 1/(sqrt(2π) scaled²)
    if scaled > 20:
        rest = 1 / (math.sqrt(2 * math.pi) * scaled * scaled)
    else:
        rest = 1 / math.sqrt(2 * math.pi) - scaled * math.exp(scaled**2 / 2) * math.erfc(scaled / math.sqrt(2)) / 2
    return max(math.exp(max(reports * exponent, -600.0)) * spread * rest / reports, _FEWEST)
