"""The numerics under every bound: never below exact rational arithmetic, and close above it."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from hubbub.accounting.blanket import Blankets
from hubbub.accounting.epsilon_search import TOLERANCE, smallest_epsilon
from hubbub.accounting.laplace_inversion import LOSS, RAMP, Law, upper_expectation
from tests.core.accounting.oracles import Channel
from tests.full import examples


def _outcomes(law: Law) -> list[tuple[Fraction, Fraction]]:
    """(probability, sum) of every multiset of draws, exactly."""
    masses = [Fraction(m) for m in law.masses]
    values = [Fraction(v) for v in law.values]
    found = []
    for draws in combinations_with_replacement(range(len(masses)), law.times):
        counts = [draws.count(index) for index in range(len(masses))]
        ways = math.factorial(law.times)
        probability = Fraction(1)
        for mass, count in zip(masses, counts, strict=True):
            ways //= math.factorial(count)
            probability *= mass**count
        found.append((ways * probability, sum((values[index] for index in draws), Fraction(0))))
    return found


def _laws(largest: float) -> st.SearchStrategy[Law]:
    atoms = st.tuples(st.floats(1e-9, 1), st.floats(-largest, largest, width=32))
    return st.builds(
        lambda atoms, times: Law(np.array([a[0] for a in atoms]), np.array([a[1] for a in atoms]), times),
        st.lists(atoms, min_size=2, max_size=4),
        st.integers(1, 7),
    )


@seed(11)
@settings(max_examples=examples(40, 120), deadline=None, derandomize=True)
@given(law=_laws(1e5))
def test_the_mean_positive_part_is_never_below_exact_arithmetic(law: Law) -> None:
    exact = sum(probability * max(total, Fraction(0)) for probability, total in _outcomes(law))
    found = [Fraction(upper_expectation([law], RAMP, 0.0, fineness)) for fineness in (20, 300, 3000)]
    assert all(value >= exact for value in found)
    # smoothing adds at most 0.4 deviations of a Gaussian with a 3000th of the tilted sum's, which is half the range
    # of one value times the root of their number at most
    half_range = float(law.values.max() - law.values.min()) / 2
    smoothing = Fraction(0.4 * math.sqrt(law.times) * half_range / 3000 * float(law.masses.sum()) ** law.times)
    assert found[2] <= exact * Fraction(1001, 1000) + smoothing or exact == 0


@seed(12)
@settings(max_examples=examples(25, 60), deadline=None, derandomize=True)
@given(law=_laws(3.0), at=st.floats(0, 4))
def test_the_mean_loss_is_never_below_multiple_precision(law: Law, at: float) -> None:
    with mpmath.workdps(40):
        exact = mpmath.mpf(0)
        for probability, total in _outcomes(law):
            rational = mpmath.mpf(probability.numerator) / probability.denominator
            excess = mpmath.mpf(total.numerator) / total.denominator - mpmath.mpf(at)
            exact += rational * max(mpmath.mpf(0), 1 - mpmath.exp(-excess))
        assert mpmath.mpf(upper_expectation([law], LOSS, at)) >= exact


def test_two_laws_are_summed_as_one_sum() -> None:
    first, second = (
        Law(np.array([0.5, 0.5]), np.array([-1.0, 1.0]), 2),
        Law(np.array([0.75, 0.25]), np.array([-2.0, 3.0]), 1),
    )
    exact = sum(p * q * max(a + b, Fraction(0)) for p, a in _outcomes(first) for q, b in _outcomes(second))
    found = upper_expectation([first, second], RAMP, 0.0, 3000)
    assert float(exact) <= found <= float(exact) * 1.001


def test_a_sum_that_cannot_be_positive_is_zero() -> None:
    assert upper_expectation([Law(np.array([0.5, 0.5]), np.array([-1.0, 0.0]), 10**6)], RAMP) == 0


@pytest.mark.everyday(2)
@pytest.mark.parametrize("case", range(10))
def test_leaving_out_dominated_pairs_changes_nothing(case: int) -> None:
    rng = np.random.default_rng(case)
    counts = [[int(c) for c in rng.integers(1, 40, 6)] for _ in range(6)]
    pairs = Channel([[Fraction(c, sum(row)) for c in row] for row in counts]).amplification().pairs
    together = Blankets(pairs)
    for reports, epsilon in ((20, 0.4), (3000, 0.05)):
        alone = max(Blankets([pair]).delta(reports, epsilon) for pair in pairs)
        assert alone <= together.delta(reports, epsilon) <= alone * (1 + 1e-4)


@seed(13)
@settings(max_examples=examples(60, 200), deadline=None, derandomize=True)
@given(root=st.floats(1e-6, 9.9), steepness=st.floats(0.1, 30), guess=st.floats(1e-7, 9))
def test_the_solver_returns_a_checked_point_next_to_the_root(root: float, steepness: float, guess: float) -> None:
    target = 1e-6

    def delta(epsilon: float) -> float:
        return min(1.0, target * math.exp(-steepness * (epsilon / root - 1)))

    found = smallest_epsilon(delta, target, 10.0, guess)
    assert found == 10.0 or delta(found) <= target
    assert found >= root * (1 - 1e-9)
    assert found <= root * (1 + 3 * TOLERANCE)
