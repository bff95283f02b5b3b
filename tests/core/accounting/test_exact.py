"""Exact accounting of one-bit reports: against every data set, and at every size."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from hubbub.accounting import delta_at, guarantee
from hubbub.accounting.one_bit_delta import Coin, deltas
from hubbub.accounting.one_bit_worst_case import Census
from hubbub.mechanisms import BinaryRandomizedResponse, Bounds, Categories, DuchiMean, MatrixResponse
from tests.core.accounting.oracles import BlanketOnly, coin_delta, lonely_coin_delta

COINS = [
    (Fraction(1, 4), Fraction(3, 4)),
    (Fraction(1, 100), Fraction(99, 100)),
    (Fraction(336, 10_000), Fraction(1, 10)),
    (Fraction(1, 20_000), Fraction(19_999, 20_000)),
    (Fraction(9, 10), Fraction(999, 1000)),
    (Fraction(49, 100), Fraction(51, 100)),
]


def _by_multiple_precision(coin: Coin, reports: int, ones: int, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        low, high = (mpmath.mpf(p.numerator) / p.denominator for p in (coin.low, coin.high))
        law = [mpmath.mpf(1)]
        for person in range(reports - 1):
            p = high if person < ones else low
            law = [(1 - p) * x + p * y for x, y in zip([*law, 0], [0, *law], strict=True)]
        power = mpmath.exp(mpmath.mpf(epsilon))
        rise, fall = (1 - low) - power * (1 - high), power * high - low
        return sum(
            (max(mpmath.mpf(0), rise * x - fall * y) for x, y in zip([*law, 0], [0, *law], strict=True)), mpmath.mpf(0)
        )


@pytest.mark.everyday("*-1", "*-7")
@pytest.mark.parametrize("reports", [1, 2, 7, 40])
@pytest.mark.parametrize(("low", "high"), COINS)
def test_delta_of_a_data_set_is_exact_from_above(low: Fraction, high: Fraction, reports: int) -> None:
    for coin in Coin(low, high).directions():
        for epsilon in (0.0, 1e-3, 0.3, 1.0, 2.5):
            ones = np.unique([0, min(1, reports - 1), reports // 2 if reports > 1 else 0, reports - 1])
            for m, found in zip(ones, deltas(coin, reports - 1 - ones, ones, epsilon), strict=True):
                exact = _by_multiple_precision(coin, reports, int(m), epsilon)
                assert mpmath.mpf(float(found)) >= exact
                assert mpmath.mpf(float(found)) <= exact * (1 + mpmath.mpf("2e-7"))


@pytest.mark.everyday("*-2", "*-25")
@pytest.mark.parametrize("reports", [2, 25, 200])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0, 6.0])
def test_binary_rr_is_its_worst_data_set(epsilon0: float, reports: int) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    low, high = float(mechanism.q), float(mechanism.p)
    for share in (0.05, 0.3, 0.8):
        epsilon = share * epsilon0
        exact = max(coin_delta(low, high, reports, epsilon, ones) for ones in range(reports))
        assert exact * (1 - 1e-9) <= delta_at(mechanism, reports, epsilon) <= exact * (1 + 1e-6) + 1e-15


@pytest.mark.full
@pytest.mark.parametrize("reports", [1000, 10_000])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0, 4.0])
def test_binary_rr_is_exact_up_to_ten_thousand_reports(epsilon0: float, reports: int) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    low, high = float(mechanism.q), float(mechanism.p)
    epsilon = guarantee(mechanism, reports, 1e-6).epsilon
    step = max(1, reports // 400)
    some = sorted({*range(0, reports, step), *range(min(40, reports)), *range(reports - 40, reports)})
    shown = max(coin_delta(low, high, reports, epsilon * (1 - 2e-6), ones) for ones in some)
    assert shown <= 1e-6 * (1 + 1e-4)  # the promise holds
    census = Census(Coin(mechanism.q, mechanism.p), reports)
    every = census._all(epsilon * (1 - 3e-6))[0]
    worst = int(np.argmax(every))
    assert every[worst] > 1e-6  # and a smaller one does not
    assert coin_delta(low, high, reports, epsilon * (1 - 3e-6), worst) > 1e-6


def test_both_directions_count_when_a_coin_is_lopsided() -> None:
    rows = [[Fraction(9664, 10_000), Fraction(336, 10_000)], [Fraction(9, 10), Fraction(1, 10)]]
    census = Census(Coin(rows[0][1], rows[1][1]), 30)
    for epsilon in (0.02, 0.2, 0.8):
        exact = max(coin_delta(0.0336, 0.1, 30, epsilon, ones) for ones in range(30))
        assert exact * (1 - 1e-9) <= census.delta(epsilon) <= exact * (1 + 1e-6)


def test_a_block_of_data_sets_is_never_below_its_members() -> None:
    coin = Coin(Fraction(1, 4), Fraction(3, 4))
    for epsilon in (0.05, 0.2):
        exact, blocked = Census(coin, 900).delta(epsilon), Census(coin, 900, blocks=100).delta(epsilon)
        assert exact <= blocked <= 1.25 * exact


def test_large_batches_lose_little_to_blocks() -> None:
    mechanism = BinaryRandomizedResponse.calibrate(1, Categories(2))
    coin = Coin(mechanism.q, mechanism.p)
    fine = Census(coin, 10_000).epsilon(1e-6, 1.0, 0.03)
    coarse = Census(coin, 10_000, blocks=5000).epsilon(1e-6, 1.0, 0.03)
    assert fine * (1 - 1e-6) <= coarse <= fine * 1.0002


def test_one_bit_means_and_two_by_two_matrices_are_exact_too() -> None:
    duchi = DuchiMean.calibrate(1, Bounds(Fraction(0), Fraction(1)))
    assert guarantee(duchi, 1000, 1e-6).method == "exact-binary"
    assert math.isclose(
        guarantee(duchi, 1000, 1e-6).epsilon,
        guarantee(BinaryRandomizedResponse.calibrate(1, Categories(2)), 1000, 1e-6).epsilon,
        rel_tol=1e-5,
    )
    lopsided = next(m for m in MatrixResponse.examples(1.0) if m.amplification().binary is not None)
    assert guarantee(lopsided, 1000, 1e-6).method == "exact-binary"


GIVEN_UP = [
    # reports, local epsilon, delta, how far the blanket is above: rows that were once answered by the blanket
    (100, 1.5, 1e-8, 1.025),
    (100, 1.5, 1e-10, 1.0),
    (100, 2, 1e-6, 1.037),
    (100, 2, 1e-8, 1.0),
    (100, 2, 1e-10, 1.0),
    (100, 3, 1e-6, 1.0),
    (1000, 4, 1e-8, 1.088),
    (1000, 4, 1e-10, 1.0),
    (1000, 5, 1e-6, 1.0),
    (10_000, 6, 1e-8, 1.066),
    (10_000, 6, 1e-10, 1.0079),
    (10_000, 8, 1e-6, 1.0),
    (100_000, 8, 1e-10, 1.068),
    (200_000_000, 1, 1e-8, 1.22),
    (200_000_000, 16, 1e-12, 1.0),
    (10**9, 8, 1e-12, 1.42),
]


@pytest.mark.everyday("100-*", "1000000000-*")
@pytest.mark.parametrize(("reports", "epsilon0", "delta", "looser"), GIVEN_UP)
def test_wherever_shuffling_hides_one_bit_the_answer_is_the_exact_one(
    reports: int, epsilon0: float, delta: float, looser: float
) -> None:
    answer = guarantee(BinaryRandomizedResponse.calibrate(epsilon0, Categories(2)), reports, delta)
    blanket = guarantee(BlanketOnly(epsilon0), reports, delta)
    assert (answer.method, blanket.method) == ("exact-binary", "blanket")
    assert answer.epsilon <= blanket.epsilon / looser * (1 + 1e-6)  # each is solved for to a millionth


@pytest.mark.everyday("100-*")
@pytest.mark.parametrize(("reports", "epsilon0", "delta"), [row[:3] for row in GIVEN_UP if row[0] <= 10_000])
def test_a_data_set_shows_more_than_delta_just_below_the_answer(reports: int, epsilon0: float, delta: float) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    epsilon = guarantee(mechanism, reports, delta).epsilon
    low, high = float(mechanism.q), float(mechanism.p)
    shown = [
        max(coin_delta(low, high, reports, at, ones) for ones in (*range(4), *range(5, reports, reports // 7)))
        for at in (epsilon, epsilon * (1 - 2e-6))
    ]
    assert shown[0] <= delta * (1 + 1e-6) < shown[1] * (1 + 2e-6)


@pytest.mark.everyday("14.0-*")
@pytest.mark.parametrize("reports", [pytest.param(10**8, marks=pytest.mark.full), 10**9])
@pytest.mark.parametrize("epsilon0", [0.1, 4.0, 14.0])
def test_the_largest_batches_are_exact_for_a_lonely_device(epsilon0: float, reports: int) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    coin, local = Coin(mechanism.q, mechanism.p), mechanism.realised_epsilon
    for share in (0.8, 1.0, 1.2):
        epsilon = share * guarantee(mechanism, reports, 1e-9).epsilon
        found = float(deltas(coin, np.array([reports - 1]), np.array([0]), epsilon)[0])
        assert found == pytest.approx(lonely_coin_delta(local, reports, epsilon), rel=1e-7)


@pytest.mark.everyday("2.0")
@pytest.mark.parametrize("epsilon0", [0.2, 2.0, 8.0])
def test_next_to_the_local_epsilon_delta_is_still_exact_from_above(epsilon0: float) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    coin, ones = Coin(mechanism.q, mechanism.p), np.array([0, 1, 10])
    for gap in (1e-2, 1e-4, 1e-6):
        found = deltas(coin, 59 - ones, ones, epsilon0 * (1 - gap))
        for m, value in zip(ones, found, strict=True):
            exact = _by_multiple_precision(coin, 60, int(m), epsilon0 * (1 - gap))
            assert 1 <= mpmath.mpf(float(value)) / exact <= 1 + mpmath.mpf("1e-6")


def test_what_is_not_looked_at_closely_is_still_never_below() -> None:
    coin, ones = Coin(Fraction(1, 50), Fraction(49, 50)), np.arange(40)
    for epsilon in (0.5, 2.0, 3.5):
        close, far = deltas(coin, 39 - ones, ones, epsilon), deltas(coin, 39 - ones, ones, epsilon, enough=1.0)
        assert (far >= close).all()
    deep = deltas(coin, np.array([10**6]), np.array([10**6]), 3.0)
    assert 0 < deep[0] < 1e-290


def test_the_last_term_that_counts_is_within_one_of_the_tilted_mean() -> None:
    """Darroch's rule, on which the evaluation rests: the mode of a sum of independent bits is next to its mean."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        low, high = rng.uniform(0, 1, 2) ** rng.choice([1, 4])
        ones, zeros = rng.integers(0, 40, 2)
        law = np.ones(1)
        for p in [high] * ones + [low] * zeros:
            law = np.convolve(law, [1 - p, p])
        mean = ones * high + zeros * low
        assert abs(int(np.argmax(law)) - mean) < 1 + 1e-9
