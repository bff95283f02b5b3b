r"""Confidence intervals for the devices that reported, and for a larger population that they came from.

By default the estimand is the truth of the devices that reported: of n devices, m hold the item, and the number
of reports that support it is C = Bin(m, p) + Bin(n - m, q). If that count has little spread, its law is inverted
exactly. Otherwise the score interval is used, with the exact variance n Var = a + b f + c f^2 at the tested f,
so that interval and variance agree (Wilson, JASA 22, 1927, for the idea of testing with the variance at the
hypothesis). It is moved by the first Cornish-Fisher term and half a count, because the skewness of a count matters
far out in the tails, where joint intervals over long lists end.

Superpopulation: C is Bin(n, q + f (p - q)); the limits of Clopper and Pearson (Biometrika 26, 1934) map linearly to f.
Used for a sum of independent coins with unequal probabilities they are conservative (Hoeffding, Ann. Math.
Statist. 27, 1956).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache, partial
from statistics import NormalDist
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.mechanisms.tallies_and_estimates import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Limits = tuple[NDArray[np.float64], NDArray[np.float64]]
    Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

LITTLE_SPREAD = 300.0
"""If the least variance of a count is at most this, its law is inverted. Beyond it the corrected score interval is as
good and cheaper: it missed at most 1.02 times as often as it may at 95 % and 99.999 %, and 1.08 times jointly over
65,536 values."""


def miss(confidence: float, together: int = 1) -> float:
    """The chance that one interval may miss so that all `together` hold (Bonferroni)."""
    if not 0 < confidence < 1:
        raise InvalidParameter(f"confidence must be between 0 and 1, for example 0.95; got {confidence}")
    return (1 - confidence) / together


def comparisons(items: int, simultaneous: bool, complementary: bool = True) -> int:
    """How many intervals must hold together. For two complementary items one interval serves both."""
    return items if simultaneous and (items > 2 or not complementary) else 1


def labelled(
    low: NDArray[np.float64], high: NDArray[np.float64], confidence: float, kind: str, together: int = 1
) -> Interval:
    """The limits as an interval whose `kind` says how they were made, and that `together` of them hold at once."""
    joint = ", simultaneous (Bonferroni)" if together > 1 else ""
    return Interval(low, high, confidence, kind + joint, together)


def around(estimates: NDArray[np.float64], limits: Limits) -> Limits:
    """The limits, with the estimate between them.

    Exact limits at a low confidence may be one number of devices, beside the estimate; and far outside of what is
    possible, a variance at the tested share means nothing. Widening keeps the coverage.
    """
    import numpy as np

    return np.minimum(limits[0], estimates), np.maximum(limits[1], estimates)


def continued(inside: Limits, beyond: Limits) -> Limits:
    """Limits of shares that go on below 0 and above 1.

    A law is inverted for 0 to all devices. Where it reaches an end, or rejects even the end, the limits go on `beyond`:
    otherwise an estimate far below 0 would have the limits [0, 0].
    """
    import numpy as np

    (low, high), (under, over) = inside, beyond
    low = np.where(low <= 0, np.minimum(under, 0), np.where(low > 1, np.maximum(under, 1), low))
    high = np.where(high < 0, np.minimum(over, 0), np.where(high >= 1, np.maximum(over, 1), high))
    return low, high


def score(values: Pair, reports: int, alpha: float, a: ArrayLike, b: ArrayLike, c: float = 0.0) -> Limits:
    """All f with (value - f)^2 <= z^2 (a + b f + c f^2) / reports: the roots of a quadratic.

    The lower limit is taken from `values[0]`, the upper one from `values[1]`. Both are the estimate, possibly moved.
    """
    low, _ = _roots(values[0], reports, alpha, a, b, c)
    _, high = _roots(values[1], reports, alpha, a, b, c)
    return low, high


def _roots(values: ArrayLike, reports: int, alpha: float, a: ArrayLike, b: ArrayLike, c: float) -> Limits:
    import numpy as np

    v = np.asarray(values, np.float64)
    k = normal_quantile(alpha) ** 2 / reports
    lead = 1 - k * c
    middle = v + k * np.asarray(b, np.float64) / 2
    spread = np.sqrt(np.maximum(middle**2 - lead * (v**2 - k * np.asarray(a, np.float64)), 0))
    return (middle - spread) / lead, (middle + spread) / lead


def normal_quantile(alpha: float) -> float:
    """z with P[|Z| > z] = alpha."""
    return NormalDist().inv_cdf(1 - alpha / 2)


def corrected_counts(counts: NDArray[np.int64], reports: int, alpha: float, p: float, q: float) -> Pair:
    r"""Counts moved by half a count, and by the skewness of Bin(m, p) + Bin(n - m, q) at the estimated m.

    The alpha-quantile of C is mean + z sd + (z^2 - 1) k3 / (6 sd^2) + ..., k3 its third cumulant
    (Cornish and Fisher, Revue de l'Institut International de Statistique 5, 1938).
    """
    import numpy as np

    share = np.clip((counts / reports - q) / (p - q), 0, 1)
    held, other = share * p * (1 - p), (1 - share) * q * (1 - q)
    skew = (held * (1 - 2 * p) + other * (1 - 2 * q)) / (held + other)
    moved = (normal_quantile(alpha) ** 2 - 1) / 6 * skew
    return counts - 0.5 - moved, counts + 0.5 - moved


def two_binomials(counts: NDArray[np.int64], reports: int, alpha: float, p: float, q: float) -> Limits:
    """Limits of the frequencies m / reports that C = Bin(m, p) + Bin(reports - m, q), p > q, does not reject.

    Each side is tested at alpha / 2. A lower limit above 1 or an upper one below 0 means that no m is accepted.
    """
    import numpy as np

    distinct, where = np.unique(counts, return_inverse=True)
    found = np.array([_not_rejected(count, reports, alpha, p, q) for count in distinct.tolist()]) / reports
    return found[where, 0], found[where, 1]


@lru_cache(maxsize=65_536)
def _not_rejected(count: int, reports: int, alpha: float, p: float, q: float) -> tuple[int, int]:
    """The smallest and the largest m that is not rejected: reports + 1 or -1 if that side rejects all of them.

    C grows with m, so each tail is monotone in m and the search can start from a guess.
    """
    enough = partial(_above_is_likely, reports, p, q, count, alpha / 2)
    too_many = partial(_below_is_unlikely, reports, p, q, count, alpha / 2)
    share = min(max((count / reports - q) / (p - q), 0.0), 1.0)
    spread = math.sqrt(reports * (share * p * (1 - p) + (1 - share) * q * (1 - q))) / (p - q)
    middle, wide = (count - reports * q) / (p - q), normal_quantile(alpha) * spread
    step = int(spread / 16)
    low = _first(reports, enough, middle - wide, step)
    high = _first(reports, too_many, middle + wide, step) - 1
    return low, high


def _first(last: int, holds: Callable[[int], bool], guess: float, step: int) -> int:
    """The first number of 0..last for which `holds` is true, or last + 1 if there is none.

    `holds` must be true for all later numbers, too.
    """
    low, step = min(max(int(guess), 0), last), max(step, 1)
    if holds(low):
        while low > 0 and holds(max(low - step, 0)):
            low, step = max(low - step, 0), 2 * step
        low, high = max(low - step, 0), low
    else:
        high = min(low + step, last)
        while high < last and not holds(high):
            low, step = high, 2 * step
            high = min(high + step, last)
        high += 1
    return bisect_left(range(last + 1), True, low, high, key=holds)


def _above_is_likely(reports: int, p: float, q: float, count: int, level: float, holders: int) -> bool:
    """Whether P[Bin(holders, p) + Bin(reports - holders, q) >= count] > level."""
    start, law = _two_binomials(reports, p, q, holders)
    return bool(law[max(count - start, 0) :].sum() > level)


def _below_is_unlikely(reports: int, p: float, q: float, count: int, level: float, holders: int) -> bool:
    """Whether P[Bin(holders, p) + Bin(reports - holders, q) <= count] < level.

    The tail itself is summed. One minus the other tail would drown a small level in round-off.
    """
    start, law = _two_binomials(reports, p, q, holders)
    return bool(law[: max(count - start + 1, 0)].sum() < level)


def _two_binomials(reports: int, p: float, q: float, holders: int) -> tuple[int, NDArray[np.float64]]:
    import numpy as np

    first, held = _binomial(holders, p)
    second, other = _binomial(reports - holders, q)
    return first + second, np.convolve(held, other)


def _binomial(n: int, p: float) -> tuple[int, NDArray[np.float64]]:
    """The start and the probabilities of the law of Bin(n, p), cut at a little over twelve standard deviations."""
    import numpy as np
    from scipy.special import gammaln

    reach = 12 * math.sqrt(n * p * (1 - p)) + 60
    k = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)
    log = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
    return int(k[0]), np.exp(log)


def clopper_pearson(counts: NDArray[np.int64], reports: int, alpha: float) -> Limits:
    """Exact limits for the rate of a binomial count."""
    import numpy as np
    from scipy.special import betaincinv

    c = np.asarray(counts, np.float64)
    low = np.where(c > 0, betaincinv(np.maximum(c, 1), reports - c + 1, alpha / 2), 0.0)
    high = np.where(c < reports, betaincinv(c + 1, np.maximum(reports - c, 1), 1 - alpha / 2), 1.0)
    return low, high
