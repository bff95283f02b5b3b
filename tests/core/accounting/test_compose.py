"""Several batches together: above what can be reached, below what cruder accounting gives."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accounting import AnyRandomizer, Ledger, compose, composed_delta, guarantee
from hubbub.accounting.compose import losses
from hubbub.accounting.guarantee import Randomizer, profile
from hubbub.accounting.laplace_inversion import Law
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
    MatrixResponse,
)
from tests.core.accounting.oracles import BlanketOnly, Channel

RR = BinaryRandomizedResponse.calibrate(1, Categories(2))
KRR = KaryRandomizedResponse.calibrate(2, Categories(10))
LAPLACE = DiscreteLaplaceMean.calibrate(1, Bounds(Fraction(0), Fraction(1)))


def _coin_pairs(low: float, high: float, reports: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The two laws of the count, for every data set of the others and both directions."""
    pairs = []
    for ones in range(reports):
        law = np.ones(1)
        for person in range(reports - 1):
            p = high if person < ones else low
            law = np.convolve(law, [1 - p, p])
        zero, one = np.convolve(law, [1 - low, low]), np.convolve(law, [1 - high, high])
        pairs += [(zero, one), (one, zero)]
    return pairs


def _worst_sequence(low: float, high: float, reports: int, times: int, epsilon: float) -> float:
    """max over all sequences of data sets and directions of δ(ε) of the product, by enumeration."""
    worst = 0.0
    for sequence in product(_coin_pairs(low, high, reports), repeat=times):
        first = second = np.ones(1)
        for p, q in sequence:
            first, second = np.multiply.outer(first, p).ravel(), np.multiply.outer(second, q).ravel()
        worst = max(worst, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return worst


@pytest.mark.everyday
@pytest.mark.parametrize(("reports", "times"), [(2, 2), (4, 2), (3, 3)])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0])
def test_no_sequence_of_data_sets_of_binary_rr_beats_the_composition(epsilon0: float, reports: int, times: int) -> None:
    mechanism = BinaryRandomizedResponse.calibrate(epsilon0, Categories(2))
    for share in (0.05, 0.3, 0.7):
        epsilon = share * epsilon0 * times
        exact = _worst_sequence(float(mechanism.q), float(mechanism.p), reports, times, epsilon)
        certified = composed_delta([(mechanism, reports, times)], epsilon)
        assert exact * (1 - 1e-9) <= certified <= 2 * exact + 1e-6


def test_values_that_move_in_opposite_directions_are_covered() -> None:
    """All periods forward give .0104 and all reversed 0; one of each gives .0144."""
    low, high = Fraction(336, 10_000), Fraction(1, 10)
    coin = Channel([[1 - low, low], [1 - high, high]])
    forward = _worst_sequence(0.0336, 0.1, 1, 2, 1.0)
    assert forward > 0.0143
    assert composed_delta([(coin, 1, 2)], 1.0) >= forward * (1 - 1e-9)


def test_different_batches_compose_to_no_less_than_their_product() -> None:
    other = BinaryRandomizedResponse.calibrate(2, Categories(2))
    worst = 0.0
    for (p, q), (r, s) in product(
        _coin_pairs(float(RR.q), float(RR.p), 5), _coin_pairs(float(other.q), float(other.p), 3)
    ):
        first, second = np.multiply.outer(p, r), np.multiply.outer(q, s)
        worst = max(worst, float(np.maximum(first - math.exp(0.8) * second, 0).sum()))
    assert worst * (1 - 1e-9) <= composed_delta([(RR, 5, 1), (other, 3, 1)], 0.8) <= 1.5 * worst


def _renyi_epsilon(law: Law, times: int, delta: float) -> float:
    """The Rényi bound of the same pair over many orders, by the better of the usual conversions
    (Balle, Barthe, Gaboardi, Hsu, Sato 2020; Canonne, Kamath, Steinke 2020)."""
    best = math.inf
    for order in np.concatenate([1 + np.geomspace(1e-3, 1, 60), np.geomspace(2.05, 1e6, 500)]):
        exponents = (order - 1) * law.values
        top = exponents.max()
        divergence = (top + math.log(float(law.masses @ np.exp(exponents - top)))) / (order - 1)
        conversion = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        best = min(best, times * divergence + conversion)
    return best


@pytest.mark.everyday("mechanism[01]-*")
@pytest.mark.parametrize("times", [16, 256])
@pytest.mark.parametrize(("mechanism", "reports"), [(BlanketOnly(4), 10**4), (KRR, 10**5), (RR, 2000)])
def test_composition_is_a_twentieth_below_the_renyi_bound(mechanism: Randomizer, reports: int, times: int) -> None:
    together = compose([(mechanism, reports, times)], 1e-6)
    assert together.method == "loss-distribution"
    assert together.epsilon <= 0.95 * _renyi_epsilon(losses(mechanism, reports), times, 1e-6)


@pytest.mark.everyday("16-*")
@pytest.mark.parametrize(("times", "reference"), [(4, 0.85407), (16, 1.80315), (64, 3.87836), (256, 8.61547)])
def test_composition_agrees_with_an_accountant_on_a_fine_grid(times: int, reference: float) -> None:
    """The reference: the clone pair of binary RR at ε0 = 4 and n = 10^4, losses rounded up to multiples of 1e-4."""
    epsilon = compose([(BlanketOnly(4), 10**4, times)], 1e-6).epsilon
    assert 0.995 * reference <= epsilon <= 1.0005 * reference


@pytest.mark.full
@pytest.mark.parametrize("times", [2, 16, 128])
def test_dp_accounting_gives_the_same_from_the_same_pair(times: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution

    law = losses(RR, 500)
    lower = {index: math.log(mass) for index, mass in enumerate(law.masses)}
    upper = {
        index: math.log(mass) - value for index, (mass, value) in enumerate(zip(law.masses, law.values, strict=True))
    }
    pld = privacy_loss_distribution.from_two_probability_mass_functions(
        upper, lower, pessimistic_estimate=True, value_discretization_interval=1e-4
    ).self_compose(times)
    epsilon = compose([(RR, 500, times)], 1e-5).epsilon
    assert math.isclose(epsilon, pld.get_epsilon_for_delta(1e-5), rel_tol=0.01)


@pytest.mark.everyday("1e-06")
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_composition_is_never_worse_than_adding_up(delta: float) -> None:
    batches: list[tuple[Randomizer, int, int]] = [(KRR, 20_000, 3), (RR, 3000, 2), (LAPLACE, 3000, 4)]
    together = compose(batches, delta)
    assert together.releases == 9
    assert together.local_epsilon >= 3 * 2 + 2 + 4 - 1e-9
    assert together.epsilon <= together.local_epsilon
    added = sum(guarantee(m, n, delta / 9).epsilon * times for m, n, times in batches)
    assert together.epsilon <= added * (1 + 1e-9)


@pytest.mark.everyday("5000-*")
@pytest.mark.parametrize(("reports", "delta"), [(5_000, 1e-6), (10**9, 1e-6), (10**6, 1e-60)])
def test_many_batches_are_never_worse_than_adding_up(reports: int, delta: float) -> None:
    """Also where the crowd is so large, or δ so small, that the curves' tails are too coarse to compose."""
    added = 40 * guarantee(KRR, reports, delta / 40).epsilon
    assert compose([(KRR, reports, 40)], delta).epsilon <= added * (1 + 1e-9)


def test_one_batch_alone_composes_to_itself() -> None:
    for mechanism in (RR, KRR, AnyRandomizer(1)):
        assert compose([(mechanism, 4000, 1)], 1e-6).epsilon == pytest.approx(
            guarantee(mechanism, 4000, 1e-6).epsilon, rel=1e-6
        )


@pytest.mark.everyday("mechanism[13]")
@pytest.mark.parametrize("mechanism", [RR, KRR, *MatrixResponse.examples(1.0)])
def test_the_dominating_pair_covers_the_curve_it_was_made_from(mechanism: Randomizer) -> None:
    law = losses(mechanism, 700)
    for epsilon in np.linspace(0.001, 0.6, 23):
        pair = float(law.masses @ np.maximum(1 - np.exp(epsilon - law.values), 0))
        mirrored = float(law.masses @ np.maximum(1 - np.exp(-epsilon - law.values), 0))
        certified = profile(mechanism).delta(700, float(epsilon), blocks=1000)
        assert pair >= certified * (1 - 1e-9)
        assert mirrored >= 1 - math.exp(-epsilon) + math.exp(-epsilon) * certified * (1 - 1e-9) - 1e-12
    assert float(law.masses.sum()) == pytest.approx(1, abs=1e-12)


def test_extremes_of_composition_are_answered_and_nonsense_is_refused() -> None:
    assert compose([], 1e-6).epsilon == 0
    assert compose([(RR, 1000, 5)], 0).epsilon == pytest.approx(5)
    assert compose([(RR, 1000, 5)], 1).epsilon == 0
    nothing_gained = compose([(BinaryRandomizedResponse.calibrate(8, Categories(2)), 10, 3)], 1e-9)
    assert (nothing_gained.method, nothing_gained.amplified) == ("local", False)
    for times in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="times"):
            compose([(RR, 1000, times)], 1e-6)  # type: ignore[list-item]


def _ledger() -> Ledger:
    ledger = Ledger()
    for day in ("mon", "tue", "wed"):
        ledger.add("theme", day, KRR, 30_000)
        ledger.add("dark", day, RR, 9000)
    return ledger


def test_a_ledger_answers_per_metric_per_period_over_time_and_in_total() -> None:
    ledger = _ledger()
    assert len(ledger) == 6
    assert ledger.total(1e-6) == compose([(KRR, 30_000, 3), (RR, 9000, 3)], 1e-6)
    assert ledger.per_metric(1e-6)["dark"] == compose([(RR, 9000, 3)], 1e-6)
    assert ledger.per_period(1e-6)["tue"] == compose([(KRR, 30_000, 1), (RR, 9000, 1)], 1e-6)
    over_time = [point.epsilon for point in ledger.over_time(1e-6).values()]
    assert over_time == sorted(over_time)
    assert over_time[-1] == ledger.total(1e-6).epsilon
    assert ledger.total(1e-6).local_epsilon == pytest.approx(9)


def test_a_ledger_counts_a_device_in_the_smallest_of_its_batches() -> None:
    ledger = Ledger()
    for reports in (50_000, 20_000, 40_000):
        ledger.add("theme", "mon", KRR, reports)
    assert len(ledger) == 1
    assert ledger.total(1e-6).epsilon == pytest.approx(guarantee(KRR, 20_000, 1e-6).epsilon, rel=1e-6)
    with pytest.raises(InvalidParameter, match="another mechanism"):
        ledger.add("theme", "mon", RR, 20_000)
    with pytest.raises(InvalidParameter, match="reports"):
        ledger.add("theme", "tue", KRR, 0)


def test_a_ledger_of_many_batch_sizes_stays_close_and_on_the_safe_side() -> None:
    ledger, rng = Ledger(), np.random.default_rng(5)
    sizes = [int(n) for n in rng.integers(50_000, 52_000, 80)]
    for day, reports in enumerate(sizes):
        ledger.add("theme", day, KRR, reports)
    total = ledger.total(1e-6).epsilon
    assert compose([(KRR, 52_000, 80)], 1e-6).epsilon <= total <= compose([(KRR, 49_000, 80)], 1e-6).epsilon


def test_a_ledger_of_fewer_sizes_is_looser_and_never_below() -> None:
    fine, coarse = Ledger(), Ledger(most_sizes=3)
    for day, reports in enumerate(range(20_000, 60_000, 5_000)):
        fine.add("theme", day, KRR, reports)
        coarse.add("theme", day, KRR, reports)
    assert fine.total(1e-6).epsilon <= coarse.total(1e-6).epsilon <= 1.5 * fine.total(1e-6).epsilon
