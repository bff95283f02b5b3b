"""δ at every ε, groups of devices and the errors of tests: all on the safe side, and consistent with each other."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from hubbub.accounting import PrivacyCurve, compose, composed_delta, delta_at, guarantee
from hubbub.accounting.compose import losses
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import BinaryRandomizedResponse, Categories, KaryRandomizedResponse
from tests.core.accounting.oracles import Channel, krr, shuffled

RR = BinaryRandomizedResponse.calibrate(1, Categories(2))
KRR = KaryRandomizedResponse.calibrate(2, Categories(10))
MANY = PrivacyCurve(((RR, 1000, 20), (KRR, 5000, 20)))
ONE = PrivacyCurve(((KRR, 5000, 1),))


@pytest.mark.parametrize("curve", [ONE, MANY], ids=["one", "many"])
def test_one_device_gets_what_the_accountant_says(curve: PrivacyCurve) -> None:
    assert curve.epsilon(1e-8) == compose(curve.batches, 1e-8).epsilon
    assert ONE.delta(0.1) == delta_at(KRR, 5000, 0.1)
    assert MANY.delta(0.4) == composed_delta(MANY.batches, 0.4)
    assert curve.delta(curve.epsilon(1e-8)) <= 1e-8 * (1 + 1e-6)


@pytest.mark.parametrize("curve", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("devices", [1, 2, 7])
def test_the_curve_falls_and_a_larger_group_is_hidden_less(curve: PrivacyCurve, devices: int) -> None:
    group, larger = (PrivacyCurve(curve.batches, devices=k) for k in (devices, devices + 1))
    points = group.points(9)
    heights = [delta for _, delta in points]
    assert heights == sorted(heights, reverse=True)
    assert all(larger.delta(epsilon) >= delta for epsilon, delta in points)
    for delta in (1e-3, 1e-9):
        found = group.epsilon(delta)
        assert found <= larger.epsilon(delta)
        assert group.delta(found) <= delta * (1 + 1e-6)
        assert found <= group.local_epsilon
    assert group.local_epsilon == pytest.approx(devices * curve.local_epsilon)


def _worst_group(channel: Channel, reports: int, changed: int, epsilon: float) -> float:
    """max over all values of everyone of δ(ε), if `changed` devices of the batch have one value or the other."""
    worst, values = 0.0, range(len(channel.rows))
    for others in combinations_with_replacement(values, reports - changed):
        for before in combinations_with_replacement(values, changed):
            first = shuffled(channel.rows, (*others, *before))
            for after in combinations_with_replacement(values, changed):
                second = shuffled(channel.rows, (*others, *after))
                worst = max(worst, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return worst


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_no_group_of_a_small_batch_is_hidden_less_than_promised(devices: int, size: int) -> None:
    channel = krr(size, 1.0)
    curve = PrivacyCurve(((channel, 4, 1),), devices=devices)
    for part in (0.0, 0.2, 0.5, 0.9):
        epsilon = part * curve.local_epsilon
        assert curve.delta(epsilon) >= _worst_group(channel, 4, devices, epsilon) * (1 - 1e-8)


def test_a_group_that_only_adds_epsilons_would_be_caught() -> None:
    """Without the factor of δ, and with the k-th part of the steps."""
    channel, devices = krr(2, 1.0), 3
    truth = _worst_group(channel, 4, devices, 0.6)
    assert delta_at(channel, 4, 0.2) < truth
    assert devices * delta_at(channel, 4, 0.6) < truth
    assert PrivacyCurve(((channel, 4, 1),), devices=devices).delta(0.6) >= truth


def _least_miss(first: np.ndarray, second: np.ndarray, alarm: float) -> float:
    """The miss of the best test with this probability of a false alarm (Neyman and Pearson)."""
    order = np.argsort(-(second / first))
    left, missed = alarm, 1.0
    for place in order:
        taken = min(1.0, left / first[place])
        missed -= taken * second[place]
        left -= taken * first[place]
        if left <= 0:
            break
    return missed


@pytest.mark.parametrize("size", [2, 3])
def test_no_test_makes_fewer_errors_than_promised(size: int) -> None:
    channel = krr(size, 2.0)
    promised = PrivacyCurve(((channel, 4, 1),)).errors()
    for others in combinations_with_replacement(range(size), 3):
        batches = [shuffled(channel.rows, (*others, x)).ravel() for x in (0, 1)]
        some = batches[0] > 0
        for alarm, miss in promised:
            assert miss <= _least_miss(batches[0][some], batches[1][some], alarm) + 1e-12
    assert promised[8][1] > 0.2  # not empty words: α = 0.2


def test_errors_are_those_of_the_local_noise_at_least_and_symmetric() -> None:
    for alarm, miss in ONE.errors():
        e = math.exp(2)
        assert miss >= max(0.0, 1 - e * alarm, (1 - alarm) / e) - 1e-9
        assert miss <= 1 - alarm
    back = dict(ONE.errors(false_alarms=[miss for _, miss in ONE.errors()]))
    assert all(again <= alarm + 1e-9 for (alarm, _), again in zip(ONE.errors(), back.values(), strict=True))


def test_dp_accounting_gives_the_same_curve_from_the_same_pair() -> None:
    from dp_accounting.pld import privacy_loss_distribution

    law = losses(RR, 500)
    lower = {index: math.log(mass) for index, mass in enumerate(law.masses)}
    upper = {i: math.log(m) - value for i, (m, value) in enumerate(zip(law.masses, law.values, strict=True))}
    pld = privacy_loss_distribution.from_two_probability_mass_functions(
        upper, lower, pessimistic_estimate=True, value_discretization_interval=1e-4
    ).self_compose(16)
    curve = PrivacyCurve(((RR, 500, 16),))
    for epsilon in (0.1, 0.5, 1.0, 1.5):
        assert curve.delta(epsilon) == pytest.approx(pld.get_delta_for_epsilon(epsilon), rel=0.05)


def test_the_failure_of_a_part_is_in_every_delta() -> None:
    failure = Fraction(1, 10**9)
    curve = PrivacyCurve(ONE.batches, failure)
    assert curve.delta(0.1) >= ONE.delta(0.1) + 1e-9
    assert curve.epsilon(1e-8) == guarantee(KRR, 5000, Fraction(9, 10**9)).epsilon
    assert curve.epsilon(1e-10) == curve.local_epsilon
    assert PrivacyCurve(ONE.batches, failure, 3).epsilon(1e-10) == 3 * curve.local_epsilon


@seed(6)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(epsilon=st.floats(0, 3), devices=st.integers(1, 40))
def test_a_group_of_one_is_the_device_and_every_delta_is_a_probability(epsilon: float, devices: int) -> None:
    assert PrivacyCurve(MANY.batches, devices=1).delta(epsilon) == MANY.delta(epsilon)
    assert MANY.delta(epsilon) <= PrivacyCurve(MANY.batches, devices=devices).delta(epsilon) <= 1


@pytest.mark.parametrize("devices", [0, 1001, True])
def test_an_impossible_group_is_refused(devices: int) -> None:
    with pytest.raises(InvalidParameter, match="a group has from 1 to 1,000 devices"):
        PrivacyCurve(ONE.batches, devices=devices)
