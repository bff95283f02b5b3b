"""Ground truth by other means than the package's: enumeration, binomial sums and explicit data sets.

Nothing here is used by hubbub.accounting, and nothing of its numerics is used here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hubbub.mechanisms import Amplification, Atom, BinaryRandomizedResponse, Categories, Pair


class Channel:
    """A finite randomizer: rows[x][y] = P[y | x], exactly."""

    name = "channel"

    def __init__(self, rows: Sequence[Sequence[Fraction]]) -> None:
        self.rows = [list(row) for row in rows]
        assert all(sum(row) == 1 and min(row) > 0 for row in self.rows)

    @property
    def realised_epsilon(self) -> float:
        ratio = max(max(column) / min(column) for column in zip(*self.rows, strict=True))
        return math.nextafter(math.log(ratio) * (1 + 1e-15), math.inf)

    def amplification(self) -> Amplification:
        least = [min(column) for column in zip(*self.rows, strict=True)]
        pairs = []
        for x, other in permutations(range(len(self.rows)), 2):
            atoms = tuple(Atom(w, p / w, q / w) for w, p, q in zip(least, self.rows[x], self.rows[other], strict=True))
            pairs.append(Pair(atoms))
        return Amplification(tuple(pairs))


class BlanketOnly:
    """Binary randomized response, denied its exact analysis."""

    name = "blanket-only"

    def __init__(self, epsilon: float) -> None:
        self._mechanism = BinaryRandomizedResponse.calibrate(epsilon, Categories(2))
        self.realised_epsilon = self._mechanism.realised_epsilon

    def amplification(self) -> Amplification:
        return Amplification(self._mechanism.amplification().pairs)


def krr(size: int, epsilon: float) -> Channel:
    power = Fraction(math.exp(epsilon))
    low = 1 / (power + size - 1)
    return Channel([[power * low if x == y else low for y in range(size)] for x in range(size)])


def worst_of_all_data_sets(rows: Sequence[Sequence[Fraction]], reports: int, epsilons: Sequence[float]) -> list[float]:
    """max over pairs and over every data set of the others of δ(ε), by enumerating all shuffled outputs."""
    laws = [np.array([float(p) for p in row]) for row in rows]
    outputs = len(laws[0])
    worst = [0.0] * len(epsilons)
    for others in combinations_with_replacement(range(len(laws)), reports - 1):
        crowd = np.ones((1,) * outputs)
        for x in others:
            crowd = with_one_more(crowd, laws[x])
        batches = [with_one_more(crowd, law) for law in laws]
        for first, second in permutations(batches, 2):
            for index, epsilon in enumerate(epsilons):
                delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
                worst[index] = max(worst[index], delta)
    return worst


def shuffled(rows: Sequence[Sequence[Fraction]], values: Sequence[int]) -> NDArray[np.float64]:
    """The law of the histogram of reports from devices that have these values."""
    histogram = np.ones((1,) * len(rows[0]))
    for x in values:
        histogram = with_one_more(histogram, np.array([float(p) for p in rows[x]]))
    return histogram


def with_one_more(histogram: NDArray[np.float64], law: NDArray[np.float64]) -> NDArray[np.float64]:
    grown = np.zeros(tuple(length + 1 for length in histogram.shape))
    for y, probability in enumerate(law):
        place = tuple(slice(1, None) if axis == y else slice(0, -1) for axis in range(histogram.ndim))
        grown[place] += probability * histogram
    return grown


def krr_delta(size: int, epsilon0: float, reports: int, epsilon: float) -> float:
    """k-RR, all others on a third value: exact, as a sum over counts with the last one in closed form.

    δ = (1/n) E[(a (e-E) + b (1-eE) + c (1-E) + d (1-E)/e)_+], (a, b, c, d) multinomial with a, b for the two
    values of the pair, c for the k - 3 others and d for the third. Above 3,000 reports c and d are merged,
    which is post-processing and can only lower δ; cutting the sums also only lowers it.
    """
    e, power = math.exp(epsilon0), math.exp(epsilon)
    low = 1 / (e + size - 1)
    if size > 3 and reports <= 3000:
        rest = (size - 3) * low
        centre, spread = reports * rest, math.sqrt(reports * rest)
        counts = np.arange(max(0, int(centre - 8 * spread)), min(reports, int(centre + 8 * spread + 12)) + 1)
        weights = stats.binom.pmf(counts, reports, rest)
    else:
        rest, counts, weights = 0.0, np.array([0]), np.array([1.0])
    third = 1 - rest - 2 * low
    third_value = ((1 - e * low - low) - rest) / third * (1 - power)
    total = 0.0
    for count, weight in zip(counts, weights, strict=True):
        left = reports - int(count)
        pair = 2 * low / (1 - rest)
        spread = math.sqrt(left * pair * (1 - pair)) + 3
        c = np.arange(max(0, int(left * pair - 14 * spread)), min(left, int(left * pair + 14 * spread)) + 1)
        # given c draws in the pair: S = a (e-E) + (c-a)(1-eE) + constant = slope a + start
        slope = (e - power) - (1 - e * power)
        start = c * (1 - e * power) + (left - c) * third_value + count * (1 - power)
        least = np.maximum(np.ceil(-start / slope), 0)
        mean = slope * c / 2 * stats.binom.sf(least - 2, c - 1, 0.5) + start * stats.binom.sf(least - 1, c, 0.5)
        mean = np.where(c == 0, np.maximum(start, 0), mean)
        total += weight * float(np.sum(stats.binom.pmf(c, left, pair) * np.maximum(np.nan_to_num(mean), 0)))
    return total / reports


def coin_delta(low: float, high: float, reports: int, epsilon: float, ones: int = 0) -> float:
    """One-bit reports, `ones` of the others hold 1: exact for that data set, both directions."""
    first, second = stats.binom(ones, high), stats.binom(reports - 1 - ones, low)
    f = np.convolve(first.pmf(np.arange(ones + 1)), second.pmf(np.arange(reports - ones)))
    zero = np.convolve(f, [1 - low, low])
    one = np.convolve(f, [1 - high, high])
    power = math.exp(epsilon)
    return max(float(np.maximum(zero - power * one, 0).sum()), float(np.maximum(one - power * zero, 0).sum()))


def lonely_coin_delta(epsilon0: float, reports: int, epsilon: float) -> float:
    """Binary RR with all others at 0, for any number of reports; cutting the sum only lowers it."""
    low = 1 / (math.exp(epsilon0) + 1)
    high, power, others = 1 - low, math.exp(epsilon), reports - 1
    spread = math.sqrt(others * low * high) + 2
    t = np.arange(max(0, int(others * low - 12 * spread)), int(others * low + 12 * spread) + 1)
    law = stats.binom(others, low)
    here, before = law.pmf(t), law.pmf(t - 1)
    zero, one = high * here + low * before, low * here + high * before
    return max(float(np.maximum(zero - power * one, 0).sum()), float(np.maximum(one - power * zero, 0).sum()))


def laplace_delta(steps: int, epsilon0: float, reports: int, epsilon: float) -> float:
    r"""Discrete Laplace on a grid, all others at 0, the victim at 0 rather than 1: from below.

    Under 0 for everyone the likelihood ratio of a batch is (1/n) sum l(y_i) with l = R_1/R_0, so
    delta = E[(1 - (E/n) sum l(y_i))_+]. Rounding l up to a lattice only lowers it, and the law of the sum
    is convolved directly (by squaring), cut where the bracket is 0 anyway.
    """
    from scipy import signal  # takes a second to load, in every process that collects tests

    alpha = math.exp(-epsilon0 / steps)
    y = np.arange(steps + 1)
    law = np.where((y == 0) | (y == steps), 1.0, 1 - alpha) / (1 + alpha) * alpha**y
    ratio = alpha ** (steps - 2.0 * y)
    top = reports / math.exp(epsilon)
    unit = top / 20_000
    cells = np.ceil(ratio / unit).astype(int)
    one = np.zeros(20_001)
    np.add.at(one, cells[cells <= 20_000], law[cells <= 20_000])
    crowd, power, left = np.eye(1, 20_001)[0], one, reports
    while left:
        if left & 1:
            crowd = signal.fftconvolve(crowd, power)[:20_001]
        power, left = signal.fftconvolve(power, power)[:20_001], left >> 1
    return float(crowd @ np.maximum(1 - np.arange(20_001) / 20_000, 0))


def variation_ratio_delta(size: int, epsilon0: float, reports: int, epsilon: float) -> float:
    """The variation-ratio formula for k-RR, known to be too small for k >= 4. A negative control."""
    e, power = math.exp(epsilon0), math.exp(epsilon)
    r = 1 / (e + size - 1)
    atoms = [(r, e - power), (r, 1 - e * power), (1 - 2 * r, (1 - (e + 1) * r) / (1 - 2 * r) * (1 - power))]
    return mean_positive_part(atoms, reports) / reports


def mixed_up_clone_delta(epsilon0: float, reports: int, epsilon: float) -> float:
    """Stronger-clone values with standard-clone masses, as published code has it. A negative control."""
    e, power = math.exp(epsilon0), math.exp(epsilon)
    atoms = [(1 / (2 * e), e - power), (1 / (2 * e), 1 - e * power), (1 - 1 / e, 0.0)]
    return mean_positive_part(atoms, reports) / reports


def mean_positive_part(atoms: Sequence[tuple[float, float]], reports: int) -> float:
    """E[(sum of `reports` draws)_+] for up to four atoms, by summing over all counts."""
    masses, values = [a[0] for a in atoms], [a[1] for a in atoms]
    counts = _compositions(reports, len(atoms))
    logs = math.lgamma(reports + 1) - np.array([[math.lgamma(i + 1) for i in row] for row in counts]).sum(axis=1)
    logs += counts @ np.log(masses)
    return float(np.exp(logs) @ np.maximum(counts @ np.array(values), 0))


def _compositions(total: int, parts: int) -> NDArray[np.int64]:
    if parts == 1:
        return np.array([[total]])
    blocks = []
    for first in range(total + 1):
        rest = _compositions(total - first, parts - 1)
        blocks.append(np.column_stack([np.full(len(rest), first), rest]))
    return np.concatenate(blocks)
