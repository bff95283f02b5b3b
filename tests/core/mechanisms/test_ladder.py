"""Ladder and tree: their figures beside reference numbers, and amplification that never falls below enumeration.

The reference numbers were computed with another program. Its sets of weights differ a little, so a variance may be
below the reference by a few per cent, and above it by at most one.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest

from hubbub.accounting import guarantee
from hubbub.accounting.guarantee import profile
from hubbub.mechanisms import Bins, Ladder, Mechanism, SubsetSelection, Tree, select
from hubbub.mechanisms._least_variance import firsts
from hubbub.simulation import InsecureBulkRandomness

REFERENCE = {
    # bins, epsilon: n times the variance of the share below an edge, averaged, of ladder, a tree with four children and
    # equal levels, and sets of single bins; then the epsilon of a release at delta 1e-6 for 10^4, 10^5 and 10^6 devices
    (64, 1): (10.95, 14.45, 39.11, (0.03159, 0.00905, 0.00254)),
    (64, 2): (2.007, 2.813, 7.558, (0.08667, 0.02511, 0.00718)),
    (64, 4): (0.2339, 0.3236, 0.6456, (0.3515, 0.10191, 0.02955)),
}
BOUNDS = {1: 9.3463, 2: 1.84, 4: 0.194}
"""The generalised bound of Ye and Barg for 64 bins, with the sampling of devices."""
EQUAL = {1: (17, 4, 1), 2: (8, 2, 1), 4: (1, 1, 1)}


def equal_levels(epsilon: int) -> Tree:
    rows = [[4**level, count, 21_845 + (level == 0)] for level, count in enumerate(EQUAL[epsilon])]
    return Tree.calibrate(epsilon, Bins(64), sets=rows)


@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_variances_are_those_of_the_reference_and_below_those_of_trees(epsilon: int) -> None:
    ladder, tree, plain, _ = REFERENCE[64, epsilon]
    found = Ladder.calibrate(epsilon, Bins(64))
    assert 0.95 * ladder <= found.typical_variance() <= 1.01 * ladder
    assert equal_levels(epsilon).typical_variance() == pytest.approx(tree, rel=0.01)
    assert SubsetSelection.calibrate(epsilon, Bins(64)).typical_variance() == pytest.approx(plain, rel=0.01)
    assert found.typical_variance() <= 0.90 * tree
    assert found.typical_variance() <= 0.90 * Tree.calibrate(epsilon, Bins(64)).typical_variance()
    sampling = float(np.mean([k / 64 * (1 - k / 64) for k in range(1, 64)]))
    bound = firsts(64, epsilon)
    assert bound is not None
    assert bound + sampling == pytest.approx(BOUNDS[epsilon], rel=0.01)
    assert found.typical_variance() >= bound


@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_a_release_costs_what_the_reference_says(epsilon: int) -> None:
    """Other weights, other blanket: within three per cent."""
    found = Ladder.calibrate(epsilon, Bins(64))
    for devices, stated in zip((10**4, 10**5, 10**6), REFERENCE[64, epsilon][3], strict=True):
        assert guarantee(found, devices, 1e-6).epsilon == pytest.approx(stated, rel=0.03)


def law(mechanism: Mechanism[bytes], value: int) -> dict[bytes, float]:
    return {report: mechanism.likelihood(report, value) for report in mechanism.outputs()}


def batch(laws: list[dict[bytes, float]]) -> Counter[tuple[bytes, ...]]:
    """The law of the shuffled reports, as sorted tuples."""
    found: Counter[tuple[bytes, ...]] = Counter({(): 1.0})
    for one in laws:
        more: Counter[tuple[bytes, ...]] = Counter()
        for reports, chance in found.items():
            for report, own in one.items():
                more[tuple(sorted((*reports, report)))] += chance * own  # type: ignore[assignment]  # as above
        found = more
    return found


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
@pytest.mark.parametrize("cls", [Ladder, Tree])
def test_amplification_is_never_below_enumeration(cls: type[Mechanism[bytes]], epsilon: float) -> None:
    """Every pair of inputs of the victim, all data sets of up to two other devices: each delta by summing the law."""
    mechanism = cls.examples(epsilon)[0]
    laws = [law(mechanism, value) for value in mechanism.inputs()]
    for others in (1, 2) if mechanism._outputs() < 8 else (1,):  # type: ignore[attr-defined]  # small enough to list
        certified = profile(mechanism)
        for target in (0.05, 0.3, 0.8 * epsilon):
            bound = certified.delta(others + 1, target)
            for rest in combinations_with_replacement(laws, others):
                batches = [batch([one, *rest]) for one in laws]
                for first in batches:
                    for second in batches:
                        real = sum(max(0.0, p - math.exp(target) * second[y]) for y, p in first.items())
                        assert real <= bound * (1 + 1e-9), (target, others)


def test_the_first_and_the_last_bin_are_the_worst_pair() -> None:
    """The accountant compares all kinds of pairs. The one without overlap gives the bound by itself."""
    mechanism = Ladder.calibrate(1, Bins(16))
    pairs = mechanism.amplification().pairs
    single = [float(sum(atom.mass for atom in pair.atoms if atom.first > atom.second)) for pair in pairs]
    ends = mechanism._pair(tuple(one.overlap(0, 15) for one in mechanism.components))
    assert float(sum(atom.mass for atom in ends.atoms if atom.first > atom.second)) == max(single)


@pytest.mark.parametrize("cls", [Ladder, Tree])
def test_estimates_of_ranges_are_unbiased_with_their_exact_variance(cls: type[Mechanism[bytes]]) -> None:
    """From drawn reports: 400 crowds; seven standard errors of a mean and of a variance (2.6e-12) on 15 edges."""
    mechanism, repeats = cls.calibrate(2, Bins(16)), 400
    held = np.repeat(np.arange(16), [40, 0, 0, 10, 200, 100, 50, 0, 0, 0, 0, 30, 0, 0, 0, 70])
    sums = mechanism.weighted_sums(np.tri(15, 16))
    truth = np.cumsum(np.bincount(held, minlength=16))[:-1] / len(held)
    exact = sums.contributions @ (np.bincount(held, minlength=16) / len(held)) / len(held)
    reports = mechanism.randomize_many(np.tile(held, repeats), InsecureBulkRandomness(4))
    found = np.array([sums.estimate(mechanism.tally(some)).values for some in np.split(reports, repeats)])
    assert (np.abs(found.mean(axis=0) - truth) <= 7 * np.sqrt(exact / repeats)).all()
    assert (np.abs(found.var(axis=0) / exact - 1) <= 7 * math.sqrt(2 / repeats)).all()


def test_the_choice_is_ladder_unless_a_shorter_report_is_as_good() -> None:
    assert select(Bins(64), 1).mechanism.name == "ladder"
    assert {one.name for one in select(Bins(64), 1).candidates} == {"ladder", "tree", "subset"}
    assert select(Bins(2), 1).mechanism.report_bytes == 1
