r"""Confidence intervals: for the devices that reported, and for a larger population they came from.

The estimand is by default the truth of the devices that reported: of n, m hold the item, and the number
of reports that support it is C = Bin(m, p) + Bin(n - m, q). Few reports: that law is inverted exactly.
Many: the score interval with the exact variance n Var = a + b f + c f^2 at the tested f, so interval and
variance agree (Wilson, JASA 22, 1927, for the idea of testing with the variance at the hypothesis).

Superpopulation: C is Bin(n, q + f (p - q)); Clopper and Pearson (Biometrika 26, 1934) maps linearly to f.
Used for a sum of independent coins with unequal probabilities it is conservative (Hoeffding, Ann. Math.
Statist. 27, 1956).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

from hubbub.mechanisms._frame import Interval
from hubbub.problems import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Limits = tuple[NDArray[np.float64], NDArray[np.float64]]

FEW_REPORTS = 400
"""Up to here the exact law is inverted; beyond, the score interval is as good and far cheaper."""


def miss(confidence: float, together: int = 1) -> float:
    """The chance that one interval may miss so that all `together` hold (Bonferroni)."""
    if not 0 < confidence < 1:
        raise InvalidParameter(f"confidence must be between 0 and 1, for example 0.95; got {confidence}")
    return (1 - confidence) / together


def comparisons(items: int, simultaneous: bool) -> int:
    """How many intervals must hold together. Two items are complements: one interval is both."""
    return items if simultaneous and items > 2 else 1


def labelled(
    low: NDArray[np.float64], high: NDArray[np.float64], confidence: float, kind: str, simultaneous: bool
) -> Interval:
    """The limits with how they were made."""
    return Interval(low, high, confidence, kind + (", simultaneous (Bonferroni)" if simultaneous else ""))


def score(values: ArrayLike, reports: int, alpha: float, a: ArrayLike, b: ArrayLike, c: ArrayLike = 0.0) -> Limits:
    """All f with (value - f)^2 <= z^2 (a + b f + c f^2) / reports: the roots of a quadratic."""
    import numpy as np

    v = np.asarray(values, np.float64)
    k = NormalDist().inv_cdf(1 - alpha / 2) ** 2 / reports
    lead = 1 - k * np.asarray(c, np.float64)
    middle = v + k * np.asarray(b, np.float64) / 2
    spread = np.sqrt(np.maximum(middle**2 - lead * (v**2 - k * np.asarray(a, np.float64)), 0))
    return (middle - spread) / lead, (middle + spread) / lead


def two_binomials(counts: NDArray[np.int64], reports: int, alpha: float, p: float, q: float) -> Limits:
    """Frequencies m / reports not rejected by C = Bin(m, p) + Bin(reports - m, q), p > q, at alpha / 2 a side."""
    import numpy as np

    low = np.empty(len(counts))
    high = np.empty(len(counts))
    for count in np.unique(counts).tolist():
        # C grows with m, so each tail is monotone in m and its boundary can be bisected.
        enough = partial(_tail_exceeds, reports, p, q, count, alpha / 2)
        too_many = partial(_tail_exceeds, reports, p, q, count + 1, 1 - alpha / 2)
        low[counts == count] = min(bisect_left(range(reports + 1), True, key=enough), reports) / reports
        high[counts == count] = max(bisect_left(range(reports + 1), True, key=too_many) - 1, 0) / reports
    return low, high


def _tail_exceeds(reports: int, p: float, q: float, count: int, level: float, holders: int) -> bool:
    """Whether P[Bin(holders, p) + Bin(reports - holders, q) >= count] > level."""
    import numpy as np

    law = np.convolve(_binomial(holders, p), _binomial(reports - holders, q))
    return bool(law[count:].sum() > level)


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    import numpy as np

    k = np.arange(n + 1)
    log_factorial = np.array([math.lgamma(i + 1) for i in range(n + 1)])
    law = np.exp(log_factorial[n] - log_factorial - log_factorial[::-1] + k * math.log(p) + (n - k) * math.log1p(-p))
    return np.asarray(law)


def clopper_pearson(counts: NDArray[np.int64], reports: int, alpha: float) -> Limits:
    """Exact limits for the rate of a binomial count."""
    import numpy as np
    from scipy.special import betaincinv

    c = np.asarray(counts, np.float64)
    low = np.where(c > 0, betaincinv(np.maximum(c, 1), reports - c + 1, alpha / 2), 0.0)
    high = np.where(c < reports, betaincinv(c + 1, np.maximum(reports - c, 1), 1 - alpha / 2), 1.0)
    return low, high
