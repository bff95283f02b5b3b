"""Bounds proved by a count: true as often as claimed, shown by summing exact laws and not by sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.simulation import InsecureBulkRandomness
from hubbub_audit.confidence_bounds import (
    bernstein,
    binomial_tail,
    empirical_bernstein,
    epsilon_below,
    share_above,
    share_below,
)


@pytest.mark.parametrize("alpha", [1e-3, 1e-9])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("trials", [10, 300, 3_000])
def test_limits_of_a_share_miss_no_more_often_than_alpha(trials: int, share: float, alpha: float) -> None:
    counts = np.arange(trials + 1)
    law = binom.pmf(counts, trials, share)
    assert law[share_below(counts, trials, alpha) > share].sum() <= alpha * (1 + 1e-6)
    assert law[share_above(counts, trials, alpha) < share].sum() <= alpha * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_a_proven_epsilon_is_above_the_true_one_no_more_often_than_alpha(epsilon: float, delta: float) -> None:
    trials, rare, alpha = 200, 0.08, 1e-3
    counts = np.arange(trials + 1)
    first = binom.pmf(counts, trials, math.exp(epsilon) * rare + delta)
    second = binom.pmf(counts, trials, rare)
    proven = epsilon_below(counts[:, None], trials, counts[None, :], trials, alpha, delta)
    wrong = (first[:, None] * second[None, :])[proven > epsilon + 1e-12].sum()
    assert wrong <= alpha


def test_nothing_is_proven_by_nothing() -> None:
    assert epsilon_below(0, 100, 0, 100, 1e-3) == 0
    assert epsilon_below(3, 100, 90, 100, 1e-3) == 0


def test_a_two_sided_tail_is_reached_no_more_often_than_it_says() -> None:
    law = binom.pmf(np.arange(101), 100, 0.3)
    for alpha in (0.05, 1e-4):
        assert sum(chance for hits, chance in enumerate(law) if binomial_tail(hits, 100, 0.3) <= alpha) <= alpha


def test_means_stay_within_their_bernstein_limits() -> None:
    """20,000 means of 400 skewed coins, at 1 %: 400 misses would be as many as allowed; the bounds are not tight."""
    coins = InsecureBulkRandomness(4).coin(int(0.03 * 2**64), 20_000 * 400).reshape(20_000, 400).astype(float)
    off = np.abs(coins.mean(axis=1) - 0.03)
    assert (off > bernstein(0.03 * 0.97, 1.0, 400, 0.01)).mean() <= 0.01
    sample = coins[:2_000]
    assert sum(off[i] > empirical_bernstein(sample[i], 1.0, 0.01) for i in range(2_000)) <= 20
