"""Validity: no certified value is below any value that can be reached. Known wrong formulas are, and are caught."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from hubbub.accounting import AnyRandomizer, CloneRandomizer, delta_at, guarantee
from hubbub.accounting.guarantee import profile
from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    HadamardResponse,
    KaryRandomizedResponse,
    LinearHash,
    OptimizedLocalHashing,
    OptimizedUnaryEncoding,
    SubsetSelection,
    SymmetricUnaryEncoding,
    registered,
)
from tests.core.accounting.oracles import (
    Channel,
    coin_delta,
    krr,
    krr_delta,
    lonely_coin_delta,
    mixed_up_clone_delta,
    variation_ratio_delta,
    worst_of_all_data_sets,
)

ROUND_OFF = 1 - 1e-8  # the oracles are sums of doubles
EPSILONS = st.floats(0.05, 10)
REPORTS = st.floats(math.log(2), math.log(1e7)).map(lambda x: round(math.exp(x)))
DELTAS = st.floats(math.log(1e-12), math.log(1e-2)).map(math.exp)


@seed(1)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(epsilon=EPSILONS, reports=REPORTS, delta=DELTAS, size=st.sampled_from([3, 4, 10, 100]))
def test_krr_is_never_promised_more_than_an_explicit_data_set_shows(
    epsilon: float, reports: int, delta: float, size: int
) -> None:
    mechanism = KaryRandomizedResponse.calibrate(round(epsilon, 3), Categories(size))
    promised = guarantee(mechanism, reports, delta)

    shown = krr_delta(size, mechanism.realised_epsilon, reports, promised.epsilon)

    assert shown * ROUND_OFF <= delta


@seed(2)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(epsilon=EPSILONS, reports=REPORTS, delta=DELTAS)
def test_binary_rr_is_never_promised_more_than_a_lonely_device_gets(epsilon: float, reports: int, delta: float) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(round(epsilon, 3), Categories(2))
    promised = guarantee(mechanism, reports, delta)

    shown = lonely_coin_delta(mechanism.realised_epsilon, reports, promised.epsilon)

    assert shown * ROUND_OFF <= delta


@seed(3)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(epsilon=EPSILONS, reports=REPORTS, delta=DELTAS)
def test_any_randomizer_is_never_promised_more_than_two_of_them_show(
    epsilon: float, reports: int, delta: float
) -> None:
    promised = guarantee(AnyRandomizer(epsilon), reports, delta)

    assert promised.epsilon <= guarantee(CloneRandomizer(epsilon), reports, delta).epsilon * (1 + 1e-5)
    assert krr_delta(3, epsilon, reports, promised.epsilon) * ROUND_OFF <= delta
    assert lonely_coin_delta(epsilon, reports, promised.epsilon) * ROUND_OFF <= delta


def _check_all_data_sets(channel: Channel, reports: int, slack: float) -> None:
    local = channel.realised_epsilon
    epsilons = [share * local for share in (0.0, 0.1, 0.3, 0.6, 0.9, 0.99)]
    truth = worst_of_all_data_sets(channel.rows, reports, epsilons)
    for epsilon, exact in zip(epsilons, truth, strict=True):
        certified = delta_at(channel, reports, epsilon)
        assert certified >= exact * ROUND_OFF
        assert certified <= exact * slack + 1e-9


@pytest.mark.parametrize("reports", [1, 2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_data_set_of_three_valued_rr_beats_the_blanket(epsilon: float, reports: int) -> None:
    _check_all_data_sets(krr(3, epsilon), reports, slack=1.5)


@pytest.mark.full
@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0, 8.0])
def test_no_data_set_of_krr_beats_the_blanket(epsilon: float, size: int) -> None:
    _check_all_data_sets(krr(size, epsilon), 6, slack=2.0)


@pytest.mark.everyday(2)
@pytest.mark.parametrize("case", range(6))
def test_no_data_set_of_a_random_channel_beats_the_blanket(case: int) -> None:
    _check_all_data_sets(_random_channel(case), 4, slack=math.inf)


@pytest.mark.full
@pytest.mark.parametrize("case", range(40))
def test_no_data_set_of_more_random_channels_beats_the_blanket(case: int) -> None:
    _check_all_data_sets(_random_channel(100 + case), 3 + case % 4, slack=math.inf)


def _random_channel(case: int) -> Channel:
    rng = np.random.default_rng(case)
    inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    weights = np.exp(rng.uniform(0, rng.uniform(0.2, 4), (inputs, outputs)))
    counts = [[max(1, round(w * 1000)) for w in row] for row in weights]
    return Channel([[Fraction(c, sum(row)) for c in row] for row in counts])


def _assert_covered(channel: Channel, reports: int) -> None:
    """Neither the channel's data sets nor its blanket rise above what is said of any randomizer of its ε."""
    generic = AnyRandomizer.at_most(channel.realised_epsilon)
    epsilons = [share * channel.realised_epsilon for share in (0.02, 0.2, 0.5, 0.9)]
    truth = worst_of_all_data_sets(channel.rows, reports, epsilons)
    for epsilon, exact in zip(epsilons, truth, strict=True):
        assert exact * ROUND_OFF <= delta_at(generic, reports, epsilon)
    for batch in (10, 1000, 10**6):
        spread = profile(channel).spread(batch)
        for epsilon in (0.5 * spread, 3 * spread, 6 * spread):
            if epsilon < channel.realised_epsilon:
                assert delta_at(channel, batch, epsilon) <= delta_at(generic, batch, epsilon) * (1 + 1e-4)


GRID = [(n, e, d) for n in (2, 100, 10**4, 10**6, 10**9) for e in (0.1, 0.5, 1, 2, 4, 6, 8) for d in (1e-4, 1e-10)]


@pytest.mark.everyday
@pytest.mark.parametrize(
    ("reports", "epsilon", "delta"),
    [pytest.param(*row, marks=[] if row[0] == 10**4 else pytest.mark.full) for row in GRID],
)
def test_the_extremal_pair_never_promises_less_than_the_published_clones(
    reports: int, epsilon: float, delta: float
) -> None:
    extremal, clones = (guarantee(of(epsilon), reports, delta).epsilon for of in (AnyRandomizer, CloneRandomizer))
    assert extremal <= clones * (1 + 2e-6)


@pytest.mark.everyday
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_both_bounds_on_any_randomizer_cover_every_data_set_of_krr(epsilon: float, size: int) -> None:
    at = [share * epsilon for share in (0.0, 0.1, 0.4, 0.8, 0.99)]
    channel = krr(size, epsilon)
    for reports in (2, 4):
        truth = worst_of_all_data_sets(channel.rows, reports, at)
        for where, exact in zip(at, truth, strict=True):
            local = channel.realised_epsilon
            extremal, clones = (delta_at(of.at_most(local), reports, where) for of in (AnyRandomizer, CloneRandomizer))
            assert exact * ROUND_OFF <= extremal <= clones * (1 + 1e-3)


def test_the_exact_value_of_binary_rr_would_not_cover_any_randomizer() -> None:
    """Others on a third value hide less than others on one of the two: only the blanket covers both."""
    binary = guarantee(BinaryRandomizedResponse.calibrate(1, Categories(2)), 1000, 1e-6)
    assert binary.method == "exact-binary"
    assert krr_delta(3, 1.0, 1000, binary.epsilon) > 1.5e-6
    assert krr_delta(3, 1.0, 1000, guarantee(AnyRandomizer(1), 1000, 1e-6).epsilon) <= 1e-6


@pytest.mark.everyday(2)
@pytest.mark.parametrize("case", range(8))
def test_no_channel_beats_the_extremal_pair_of_its_epsilon(case: int) -> None:
    _assert_covered(_random_channel(200 + case), 3)


@pytest.mark.full
@pytest.mark.parametrize("case", range(150))
def test_no_channel_of_many_beats_the_extremal_pair_of_its_epsilon(case: int) -> None:
    _assert_covered(_random_channel(300 + case) if case % 3 else _extreme_channel(case), 3 + case % 3)


def _extreme_channel(case: int) -> Channel:
    """Every likelihood is one of two levels: the vertices among all channels of an ε."""
    rng = np.random.default_rng(case)
    inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    high = int(rng.integers(2, 60))
    levels = np.where(rng.random((inputs, outputs)) < 0.5, high, 1)
    return Channel([[Fraction(int(c), int(row.sum())) for c in row] for row in levels])


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_data_set_of_discrete_laplace_beats_its_pairs(epsilon: float, steps: int) -> None:
    """Beyond the grid all likelihood ratios are constant, so a report is one of steps + 1 classes."""
    mechanism = DiscreteLaplaceMean.calibrate(epsilon, Bounds(Fraction(0), Fraction(1)), steps=steps)
    alpha = Fraction(mechanism.alpha)
    inside, beyond = (1 - alpha) / (1 + alpha), 1 / (1 + alpha)
    rows = [
        [(beyond if y in (0, steps) else inside) * alpha ** abs(y - x) for y in range(steps + 1)]
        for x in range(steps + 1)
    ]
    epsilons = [share * epsilon for share in (0.05, 0.3, 0.8)]
    for reports in (2, 4):
        truth = worst_of_all_data_sets(rows, reports, epsilons)
        for at, exact in zip(epsilons, truth, strict=True):
            assert delta_at(mechanism, reports, at) >= exact * ROUND_OFF


@pytest.mark.everyday("3.0")
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_every_registered_mechanism_covers_its_own_enumeration(epsilon: float) -> None:
    checked = 0
    for cls in registered().values():
        for mechanism in cls.examples(epsilon):
            outputs, inputs = list(mechanism.outputs()), list(mechanism.inputs())
            if len(outputs) > 5 or len(inputs) > 5:
                continue
            checked += 1
            rows = [[Fraction(float(mechanism.likelihood(y, x))) for y in outputs] for x in inputs]
            for reports in (2, 4):
                at = [share * epsilon for share in (0.05, 0.4, 0.8)]
                for where, exact in zip(at, worst_of_all_data_sets(rows, reports, at), strict=True):
                    assert delta_at(mechanism, reports, where) >= exact * ROUND_OFF, mechanism
    assert checked >= 2


def _merged(mechanism: Any) -> list[list[Fraction]]:
    """The law with reports joined whose likelihoods are proportional: they say the same, so nothing is lost."""
    columns: dict[tuple[float, ...], list[Fraction]] = {}
    for report in mechanism.outputs():
        column = [Fraction(mechanism.likelihood(report, value)) for value in mechanism.inputs()]
        kind = tuple(round(float(entry / max(column)), 9) for entry in column)
        known = columns.setdefault(kind, [Fraction(0)] * len(column))
        columns[kind] = [a + b for a, b in zip(known, column, strict=True)]
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return [[entry / sum(row) for entry in row] for row in rows]


SMALL: list[tuple[Any, int]] = [
    (HadamardResponse, 2),
    (HadamardResponse, 3),
    (LinearHash, 2),
    (LinearHash, 3),
    (OptimizedLocalHashing, 2),
    (OptimizedLocalHashing, 3),
    (OptimizedUnaryEncoding, 2),
    (OptimizedUnaryEncoding, 3),
    (SubsetSelection, 3),
    (SubsetSelection, 4),
    (SymmetricUnaryEncoding, 2),
    (SymmetricUnaryEncoding, 3),
]


def _check_enumeration_of(cls: Any, size: int, epsilon: float, reports: int) -> None:
    mechanism = cls.calibrate(epsilon, Categories(size))
    rows = _merged(mechanism)
    at = [share * epsilon for share in (0.0, 0.05, 0.4, 0.8, 0.97)]
    for where, exact in zip(at, worst_of_all_data_sets(rows, reports, at), strict=True):
        assert delta_at(mechanism, reports, where) >= exact * ROUND_OFF, where


@pytest.mark.everyday
@pytest.mark.parametrize(("cls", "size"), SMALL)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_no_data_set_of_a_frequency_oracle_beats_its_atoms(cls: Any, size: int, epsilon: float) -> None:
    _check_enumeration_of(cls, size, epsilon, 3)


@pytest.mark.full
@pytest.mark.parametrize(("cls", "size"), SMALL)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("reports", [2, 4, 6])
def test_no_larger_data_set_of_a_frequency_oracle_beats_its_atoms(
    cls: Any, size: int, epsilon: float, reports: int
) -> None:
    _check_enumeration_of(cls, size, epsilon, reports)


@pytest.mark.parametrize("cls", [OptimizedUnaryEncoding, SymmetricUnaryEncoding])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_rare_reports_left_out_of_the_blanket_never_lower_the_bound(cls: Any, epsilon: float) -> None:
    """From nine values on the report of all ones has no atom of its own: at eight that must be the worse bound."""
    few, more = cls.calibrate(epsilon, Categories(8)), cls.calibrate(epsilon, Categories(9))
    for reports in (10, 1000):
        for share in (0.1, 0.5):
            at = share * epsilon
            assert delta_at(more, reports, at) >= delta_at(few, reports, at) * (1 - 1e-6)


@pytest.mark.parametrize("row", [(1000, 1.0, 0.10108), (1000, 4.0, 0.93643), (10**5, 4.0, 0.08125)])
def test_hashing_is_at_the_reference_blanket(row: tuple[int, float, float]) -> None:
    """Reference: an ideal hash to round(e^eps) + 1 buckets, from an implementation of its own; g differs a little."""
    reports, epsilon, reference = row
    for cls in (LinearHash, OptimizedLocalHashing):
        found = guarantee(cls.calibrate(epsilon, Categories(65_536)), reports, 1e-6).epsilon
        assert found == pytest.approx(reference, rel=0.06)


def test_the_variation_ratio_formula_would_be_caught_by_enumeration() -> None:
    exact = worst_of_all_data_sets(krr(4, 1.0).rows, 6, [0.45])[0]

    assert variation_ratio_delta(4, 1.0, 6, 0.45) < 0.99 * exact
    assert delta_at(krr(4, 1.0), 6, 0.45) > exact


def test_the_variation_ratio_formula_would_be_caught_by_an_explicit_data_set() -> None:
    shown = krr_delta(100, 4.0, 20, 1.6)

    assert variation_ratio_delta(100, 4.0, 20, 1.6) < 0.7 * shown
    assert delta_at(KaryRandomizedResponse.calibrate(4, Categories(100)), 20, 1.6) > shown


@pytest.mark.parametrize("reports", [1, 2, 4])
def test_clone_values_with_the_wrong_masses_would_be_caught(reports: int) -> None:
    e = math.e
    shown = max(coin_delta(1 / (e + 1), e / (e + 1), reports, 0.95, ones) for ones in range(reports))

    assert mixed_up_clone_delta(1.0, reports, 0.95) < 0.96 * shown
    assert delta_at(AnyRandomizer(1), reports, 0.95) >= shown * ROUND_OFF
    assert delta_at(BinaryRandomizedResponse.calibrate(1, Categories(2)), reports, 0.95) >= shown * ROUND_OFF


@pytest.mark.full
@seed(4)
@settings(max_examples=1500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(epsilon=EPSILONS, reports=REPORTS, delta=DELTAS, size=st.sampled_from([2, 3, 4, 7, 10, 100, 1000]))
def test_krr_validity_over_a_large_grid(epsilon: float, reports: int, delta: float, size: int) -> None:
    mechanism = KaryRandomizedResponse.calibrate(round(epsilon, 3), Categories(size))
    exact = mechanism.realised_epsilon
    promised = guarantee(mechanism, reports, delta).epsilon
    shown = lonely_coin_delta(exact, reports, promised) if size == 2 else krr_delta(size, exact, reports, promised)
    assert shown * ROUND_OFF <= delta
