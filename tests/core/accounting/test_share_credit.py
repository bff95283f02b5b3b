"""What the coin of `share` hides: never less than promised, for every number of devices and every data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from hubbub.accounting import delta_at, guarantee
from hubbub.accounting.codebook_plan import plan
from hubbub.accounting.share_credit import SampledRandomizer, devices_behind, share_credit
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import BinaryRandomizedResponse, Bounds, Categories, DiscreteLaplaceMean, mechanism
from tests.core.accounting.oracles import Channel, krr, with_one_more

ROUND_OFF = 1 - 1e-8
RR = BinaryRandomizedResponse.calibrate(1, Categories(2))
COINS = [Channel([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 10), Fraction(9, 10)]]), krr(2, 2.0), krr(3, 1.5)]


def _tail(devices: int, share: Fraction, least: int) -> Fraction:
    """Pr[Bin(devices, share) >= least], exactly: one minus the terms below, over a common denominator."""
    yes, all_ = share.numerator, share.denominator
    below = sum(comb(devices, k) * yes**k * (all_ - yes) ** (devices - k) for k in range(min(least, devices + 1)))
    return 1 - Fraction(below, all_**devices)


def _worst(channel: Channel, share: Fraction, least: int, devices: int, epsilons: Sequence[float]) -> list[float]:
    """max over all data sets of `devices` and all pairs of δ(ε), where fewer reports than `least` show nothing.

    The number of reports shows, since a histogram of the reports shows it.
    """
    laws = [np.array([float(share * p) for p in row] + [float(1 - share)]) for row in channel.rows]
    silent = np.indices((devices + 1,) * len(laws[0]))[-1] > devices - least
    worst = [0.0] * len(epsilons)
    for others in combinations_with_replacement(range(len(laws)), devices - 1):
        crowd = np.ones((1,) * len(laws[0]))
        for x in others:
            crowd = with_one_more(crowd, laws[x])
        shown = [np.where(silent, 0.0, with_one_more(crowd, law)) for law in laws]
        for first, second in permutations(shown, 2):
            for place, epsilon in enumerate(epsilons):
                worst[place] = max(worst[place], float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return worst


def _promised(channel: Channel, share: Fraction, least: int, failure: Fraction, epsilon: float) -> float:
    devices = devices_behind(least, share, failure)
    return delta_at(SampledRandomizer(channel, share), max(devices, 1), epsilon) + float(failure)


CASES = [
    (share, least, failure)
    for share, least, failure in [
        (Fraction(1, 2), 2, Fraction(1, 2)),
        (Fraction(1, 4), 2, Fraction(2, 10)),
        (Fraction(1, 8), 1, Fraction(4, 10)),
        (Fraction(3, 4), 3, Fraction(1, 2)),
    ]
]


@pytest.mark.everyday
@pytest.mark.parametrize("channel", range(len(COINS)))
@pytest.mark.parametrize(("share", "least", "failure"), CASES)
def test_no_number_of_devices_and_no_data_set_beats_the_credit(
    channel: int, share: Fraction, least: int, failure: Fraction
) -> None:
    coin = COINS[channel]
    epsilons = [part * coin.realised_epsilon for part in (0.0, 0.1, 0.3, 0.6, 0.9)]
    promised = [_promised(coin, share, least, failure, epsilon) for epsilon in epsilons]
    for devices in range(1, 7 if len(coin.rows) == 2 else 6):
        for exact, bound in zip(_worst(coin, share, least, devices, epsilons), promised, strict=True):
            assert exact * ROUND_OFF <= bound


def test_the_enumeration_catches_planted_errors() -> None:
    coin, share, least, failure, at = krr(2, 3.0), Fraction(1, 8), 1, Fraction(4, 10), 1.5
    behind, sampled = devices_behind(least, share, failure), SampledRandomizer(coin, share)
    truth = {devices: _worst(coin, share, least, devices, [at])[0] for devices in (1, behind)}
    assert behind == 3
    assert max(truth.values()) <= _promised(coin, share, least, failure, at)

    # without the failure: one device that reports all the same has no crowd
    assert delta_at(sampled, behind, at) < truth[1]
    # the devices that are expected behind such a crowd
    assert delta_at(sampled, int(least / share), at) < truth[1]
    # the coin counted twice
    assert delta_at(SampledRandomizer(coin, share * share), behind, at) < truth[behind]
    # "more than n0" for "at least n0"
    assert _tail(devices_behind(least + 1, share, failure), share, least) > failure
    # the credit of a batch of this size, although any size would have been released
    assert delta_at(sampled, 8, at) < _worst(coin, share, 0, 1, [at])[0]


@pytest.mark.parametrize(
    "share", [Fraction(1, 2), Fraction(1, 10), Fraction(9, 10), Fraction(1, 2**20), Fraction(999, 1000)]
)
@pytest.mark.parametrize("failure", [Fraction(1, 3), Fraction(1, 1000), Fraction(1, 10**9), Fraction(1, 10**40)])
@pytest.mark.parametrize("least", [1, 2, 7, 60])
def test_so_few_devices_make_a_crowd_with_no_more_than_the_failure(
    least: int, share: Fraction, failure: Fraction
) -> None:
    devices = devices_behind(least, share, failure)

    assert devices >= least - 1
    assert _tail(min(devices, 600), share, least) <= failure
    if devices <= 600:  # not loose either: a few devices more, and the probability is above
        assert _tail(devices + 2 + devices // 8, share, least) > failure or share < Fraction(1, 1000)


@seed(5)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    share=st.fractions(Fraction(1, 1000), Fraction(999, 1000), max_denominator=1000),
    least=st.integers(1, 400),
    exponent=st.integers(1, 60),
)
def test_the_tail_is_certified_over_a_grid(share: Fraction, least: int, exponent: int) -> None:
    failure = Fraction(1, 2**exponent)
    devices = devices_behind(least, share, failure)
    if devices <= 600:
        assert _tail(devices, share, least) <= failure


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 50)])
def test_the_credit_is_never_worse_than_the_reports_and_grows_with_a_smaller_share(share: Fraction) -> None:
    for built in (
        RR,
        mechanism("krr").calibrate(4, Categories(10)),
        DiscreteLaplaceMean.calibrate(2, Bounds(Fraction(0), Fraction(1))),
    ):
        plain = guarantee(built, 300, 1e-8).epsilon
        found, less = (share_credit(built, s, 300, 1e-8) for s in (share, share / 2))
        assert less.epsilon < found.epsilon < plain
        assert found.failure <= Fraction(1, 10**9) + Fraction(1, 10**20)
        assert found.delta == 1e-8


def test_a_coin_that_always_says_yes_hides_nothing_more() -> None:
    found = share_credit(RR, Fraction(1), 300, 1e-8)
    assert (found.epsilon, found.devices, found.failure) == (guarantee(RR, 300, 1e-8).epsilon, 300, Fraction(0))
    assert SampledRandomizer(RR, Fraction(1)).amplification().pairs == RR.amplification().pairs


@pytest.mark.parametrize("share", [Fraction(0), Fraction(3, 2), 0.5, True])
def test_an_impossible_share_is_refused(share: Any) -> None:
    with pytest.raises(InvalidParameter, match="share must be a fraction"):
        share_credit(RR, share, 300, 1e-8)


def test_a_larger_threshold_is_a_better_promise() -> None:
    found = [share_credit(RR, Fraction(1, 10), reports, 1e-8).epsilon for reports in (50, 100, 200, 1000)]
    assert found == sorted(found, reverse=True)


CODEBOOK = """
[collection]
name = "app"
period = "1d"
device_epsilon = 8
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.hidden]
type = "boolean"
epsilon = 1
share = 0.1
missing = false

[metrics.silent]
type = "boolean"
epsilon = 1
share = 0.1

[metrics.everyone]
type = "boolean"
epsilon = 1
missing = false
"""


def test_only_a_share_with_missing_gets_credit_and_from_the_smallest_batch() -> None:
    made = {one.metric.name: one for one in plan(Codebook.from_toml(CODEBOOK), 100_000).metrics}
    hidden = made["hidden"]
    assert made["silent"].credit is None
    assert made["everyone"].credit is None
    assert hidden.credit is not None
    assert hidden.min_batch is not None
    assert hidden.credit.reports == hidden.min_batch * 9 // 10
    assert hidden.credit.share == Fraction(hidden.metric.share_threshold, 2**64)
    assert hidden.credit.epsilon < 0.07
    assert hidden.guarantee is not None
