r"""Composition of many batches: the privacy loss of a device that took part in all of them.

For one batch let H(E) be the largest δ at ε = ln E over pairs of inputs, directions and data sets, for every E > 0.
H is convex, H(0) = 1, H(E) = 1 - E + E H(1/E), and H vanishes from e^ε0 on. Every convex curve like this is
the hockey-stick curve of two laws, a dominating pair; such pairs compose by products, also adaptively
(Zhu, Dong, Wang, AISTATS 2022, arXiv 2106.08567). So:

1. certified values of H at some E, mirrored to 1/E;
2. their lower convex hull, which is not below H because H is convex and not above any value;
3. its kinks: H(E) = Σ p_i (1 - E/E_i)_+ with p_i = E_i times the change of slope at E_i ("connect the dots",
   Doroshenko et al., PoPETs 2022, arXiv 2207.04380), all in rational arithmetic;
4. δ(ε) = E[(1 - e^(ε - L))_+] for L the sum of independent losses ln E_i with the p_i as masses, by
   `laplace_inversion`.

Pairs of (ε, δ) are never composed if the curve can be composed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from hubbub.accounting.any_randomizer import log_below
from hubbub.accounting.epsilon_search import TOLERANCE, smallest_epsilon
from hubbub.accounting.guarantee import (
    ASSUMPTIONS,
    Randomizer,
    check_delta,
    check_epsilon,
    check_reports,
    guarantee,
    profile,
)
from hubbub.accounting.laplace_inversion import LOSS, UNIT, Law, upper_expectation
from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import float_above

Route: TypeAlias = Literal["loss-distribution", "basic", "local"]

_DOTS_PER_SPREAD = 16
_REACH = 9.0
_SMALLEST = 1e-30
_MANY = 30
_FINE, _COARSE = 300.0, 75.0
"""`fineness` for few and for many releases. The sum of many is wide and nearly Gaussian, and the Gaussian that is added
to it costs 0.01 % of ε. If a few releases depend on rare large losses, it costs up to 2 %."""
_BLOCKS = 1000
"""Data sets of one-bit reports are taken in this many blocks, because a curve needs many values of H."""


@dataclass(frozen=True, slots=True)
class Composition:
    """(ε, δ)-differential privacy of several batches together, under replacement of one device's values.

    `local_epsilon` is the plain sum of the local epsilons. It holds whatever the shuffler does.
    """

    epsilon: float
    delta: float
    releases: int
    method: Route
    local_epsilon: float
    adjacency: str = "replacement"
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def amplified(self) -> bool:
        return self.epsilon < self.local_epsilon


def compose(batches: Iterable[tuple[Randomizer, int, int]], delta: float | Fraction) -> Composition:
    """The smallest ε certified at `delta` for (mechanism, reports, times) batches together.

    It is the best of the composed curve, the sum of the local ε and, if that may be smaller, the sum of each
    batch's ε at an equal share of δ. Every report must be randomized afresh.
    """
    counted = _counted(batches)
    lowered, asked = check_delta(delta), float(delta)
    releases = sum(counted.values())
    local = _sum_above([(mechanism.realised_epsilon, times) for (mechanism, _), times in counted.items()])
    if lowered == 0 or not counted:
        return Composition(local, asked, releases, "local", local, assumptions=())
    if lowered == 1:
        return Composition(0.0, asked, releases, "local", local, assumptions=())
    best = local
    method: Route = "local"
    spread = math.sqrt(math.fsum(times * profile(m).spread(n) ** 2 for (m, n), times in counted.items()))
    guess = min(spread * (math.sqrt(2 * math.log(1 / lowered)) + spread / 2), 0.9 * best)
    if releases > 1:
        laws = [_with_times(losses(m, n), times) for (m, n), times in counted.items()]
        together = smallest_epsilon(lambda e: _delta_above(laws, e, releases), lowered, local, guess)
        if together < best:
            best, method = together, "loss-distribution"
    # a plain sum of many can only win if the curves lost their tail, in a huge crowd or at a tiny δ
    if releases <= _MANY or best > 2 * guess:
        share = lowered / releases * (1 - 4 * UNIT)
        basic = _sum_above([(guarantee(m, n, share).epsilon, times) for (m, n), times in counted.items()])
        if basic < best * (1 - 3 * TOLERANCE):
            best, method = basic, "basic"
    if method == "local":
        return Composition(local, asked, releases, "local", local, assumptions=())
    return Composition(best, asked, releases, method, local)


def composed_delta(batches: Iterable[tuple[Randomizer, int, int]], epsilon: float | Fraction) -> float:
    """A δ at which `epsilon` is certified for the batches together."""
    epsilon, counted = check_epsilon(epsilon), _counted(batches)
    if epsilon >= _sum_above([(mechanism.realised_epsilon, times) for (mechanism, _), times in counted.items()]):
        return 0.0
    laws = [_with_times(losses(m, n), times) for (m, n), times in counted.items()]
    return min(1.0, _delta_above(laws, epsilon, sum(counted.values())))


def _delta_above(laws: Sequence[Law], epsilon: float, releases: int) -> float:
    return upper_expectation(laws, LOSS, epsilon, _COARSE if releases > _MANY else _FINE)


@lru_cache(maxsize=4096)
def losses(mechanism: Randomizer, reports: int) -> Law:
    """The privacy loss of one batch's dominating pair: values ln E_i with masses p_i."""
    known = profile(mechanism)
    top = math.exp(known.local) * (1 + 8 * UNIT * (1 + known.local))
    dots = [(Fraction(top), Fraction(0))]
    values: list[tuple[Fraction, Fraction]] = []
    for power in _where(known.spread(reports), known.local):
        value = known.delta(reports, max(0.0, log_below(power)), blocks=_BLOCKS)
        values.append((Fraction(power), Fraction(value)))
        if value < _SMALLEST:
            break
    dots += values
    mirrored = [(1 / at, 1 - 1 / at + height / at) for at, height in dots if at > 1]
    return _connected([*dots, *mirrored, (Fraction(0), Fraction(1))])


def _where(spread: float, local: float) -> Iterable[float]:
    """Values of E from 1 up: dense where the loss usually lies, sparser out to the local bound."""
    step = spread / _DOTS_PER_SPREAD
    epsilon, count = 0.0, 0
    while epsilon < local and count < 40 * _DOTS_PER_SPREAD:
        yield math.exp(epsilon)
        if epsilon > _REACH * spread:
            step *= 1.2
        epsilon, count = epsilon + step, count + 1


def _connected(dots: list[tuple[Fraction, Fraction]]) -> Law:
    """The pair of laws whose curve is the lower convex hull of the dots."""
    hull: list[tuple[Fraction, Fraction]] = []
    for dot in sorted(dots):
        if hull and dot[0] == hull[-1][0]:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], dot):
            hull.pop()
        hull.append(dot)
    slopes = [_slope(left, right) for left, right in pairwise(hull)] + [Fraction(0)]
    masses, values = [], []
    for (power, _), before, after in zip(hull[1:], slopes, slopes[1:], strict=False):
        mass = power * (after - before)
        if mass > 0:
            masses.append(math.nextafter(float(mass), math.inf))
            values.append(_log_above(power))
    return Law(np.array(masses), np.array(values), 1)


def _slope(left: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]) -> Fraction:
    return (right[1] - left[1]) / (right[0] - left[0])


def _log_above(power: Fraction) -> float:
    """ln from above. `power` is a float or the reciprocal of one."""
    log = math.log(float(power)) if power >= 1 else -math.log(float(1 / power))
    return log + 4 * UNIT * (1 + abs(log))


def _with_times(law: Law, times: int) -> Law:
    return Law(law.masses, law.values, times)


def _sum_above(parts: Sequence[tuple[float, int]]) -> float:
    """The exact sum, rounded up."""
    return float_above(sum((Fraction(epsilon) * times for epsilon, times in parts), Fraction(0)))


def _counted(batches: Iterable[tuple[Randomizer, int, int]]) -> dict[tuple[Randomizer, int], int]:
    counted: dict[tuple[Randomizer, int], int] = {}
    for mechanism, reports, times in batches:
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise InvalidParameter(f"times must be a whole number of at least 1, got {times!r}")
        key = (mechanism, check_reports(reports))
        counted[key] = counted.get(key, 0) + times
    return counted
