r"""Exact confidence bounds: what `hits` of `trials` prove, with a stated chance of being wrong.

Every bound here is exact for any number of trials. None rests on a normal approximation, so a false-alarm rate of
1e-9 is really 1e-9. (Clopper and Pearson, Biometrika 26, 1934, for shares; Bernstein's inequality for means, with an
estimated variance in the form of Maurer and Pontil, COLT 2009, arXiv 0907.3740, Theorem 4; McDiarmid, Surveys in
Combinatorics, 1989, for what one trial can move by a bounded amount.)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "bernstein",
    "binomial_tail",
    "empirical_bernstein",
    "epsilon_below",
    "mcdiarmid",
    "share_above",
    "share_below",
]


def share_below(hits: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    """A lower limit of the share that gave these hits; above the truth with a chance of at most alpha."""
    k = np.asarray(hits, np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, alpha), 0.0)


def share_above(hits: ArrayLike, trials: int, alpha: float) -> NDArray[np.float64]:
    """An upper limit of the share; below the truth with a chance of at most alpha."""
    k = np.asarray(hits, np.float64)
    return np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alpha), 1.0)


def epsilon_below(
    hits: ArrayLike, trials: int, misses: ArrayLike, others: int, alpha: float, delta: float = 0.0
) -> NDArray[np.float64]:
    r"""An epsilon that is certainly lost, from an event that happens in `hits` of `trials` with one input and in
    `misses` of `others` with another. (eps, delta)-privacy says P <= e^eps P' + delta, so eps >= ln((P - delta) / P').

    Both shares are bounded at alpha/2, so the result is above the true epsilon with a chance of at most alpha. It is
    never negative: the least that an event can prove is nothing.
    """
    low = share_below(hits, trials, alpha / 2) - delta
    high = share_above(misses, others, alpha / 2)
    return np.log(np.maximum(low, 1e-300) / high).clip(min=0.0)


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """P[at least `hits` | chance] or P[at most `hits` | chance]: the smaller one doubled, a two-sided exact test."""
    above = 1.0 if hits == 0 else float(bdtrc(hits - 1, trials, chance))
    below = float(bdtr(hits, trials, chance))
    return min(1.0, 2 * min(above, below))


def bernstein(variance: float, span: float, trials: int, alpha: float) -> float:
    """How far the mean of `trials` numbers of this variance, within `span` of each other, may be from its expectation.

    It is farther away with a chance of at most alpha, both sides together.
    """
    log = math.log(2 / alpha)
    return math.sqrt(2 * variance * log / trials) + span * log / (3 * trials)


def empirical_bernstein(values: NDArray[np.float64], span: float, alpha: float) -> float:
    """The same if the variance is only known from the numbers themselves."""
    trials, log = len(values), math.log(4 / alpha)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / trials) + 7 * span * log / (3 * (trials - 1))


def mcdiarmid(influence: float, trials: int, alpha: float) -> float:
    """How far a number may be from its expectation if each of `trials` moves it by at most `influence / trials`.

    It is farther away with a chance of at most alpha, both sides together.
    """
    return influence * math.sqrt(math.log(2 / alpha) / (2 * trials))
