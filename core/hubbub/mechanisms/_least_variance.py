r"""The least variance that any local randomizer can have, to show how far a choice is from it.

Frequencies: for many reports and a uniform population, no randomizer has a smaller total squared error times n than

    min over k of  (d - 1)^2 (k z + d - k)^2 / (d (z - 1)^2 k (d - k)),        z = e^eps

which subset selection attains (Ye and Barg, IEEE Trans. Inf. Theory 64, 2018, arXiv 1702.00610, and for the constant
arXiv 1708.00059). That includes the sampling of n devices from a population, 1 - 1/d in total. Without the sampling,
and per item, it is the exact variance of subset selection at the best k. This stricter figure is given here.

Shares in the first k bins: with J the Fisher information at equal shares and W_c the centred weights of all k, the sum
of variances is at least tr(W_c J^-1 W_c') >= (tr sqrt(W_c' W_c))^2 / tr J_c (Cauchy and Schwarz), with the sampling of
devices. The best columns of a channel have two levels, 1 + (z-1) 1_S, since a -> aa'/(a.f) is convex; such one adds
at most (z-1)^2 s (d-s) / (d + (z-1) s)^2 to tr J_c per unit of mass, so that tr J_c is at most d times the largest of
these. The singular values of W_c are 1 / (2 sin(pi k / 2d)), those of a path's differences inverted. From this the
sampling is taken away, since errors are of the devices that reported. Where nothing is left, as with many bins and a
large epsilon, the bound says nothing, and no figure is given: every variance is above it.

Means: the least known variance, that of the designs behind `table`, which docs/design/mean-tables.md bounds. Between
their epsilons it is interpolated linearly in the logarithms, from which it differs by less than one per cent.
"""

from __future__ import annotations

import math
from itertools import pairwise

from hubbub.mechanisms.domains import Bins, Categories, Domain

_ROUND_OFF = 2.0**-50
"""More than the relative error of a sum of floats here, so that a small difference remains a lower bound."""


def optimum(domain: Domain, epsilon: float) -> float | None:
    """The least `typical_variance` over the domain, or for a mean the least known. None if no figure is known."""
    if isinstance(domain, Bins):
        return firsts(domain.size, epsilon)
    return frequencies(domain.size, epsilon) if isinstance(domain, Categories) else mean(epsilon)


def frequencies(size: int, epsilon: float) -> float:
    """The number of reports times the variance, averaged over the items of a uniform population that reported."""
    odds = math.exp(epsilon)
    best = size / (odds + 1)
    # with u = k z / (d - k) the bound is (1 + u)^2 / u up to constants, which rises on both sides of u = 1
    return min(_subset(size, k, odds) for k in {max(1, math.floor(best)), math.ceil(best)})


def firsts(size: int, epsilon: float) -> float | None:
    """A bound on the mean variance of the shares in the first k bins, at equal shares of all. None if it is vacuous."""
    odds = math.exp(epsilon)
    best = size / (odds + 1)
    whole = [max(1, math.floor(best)), math.ceil(best)]
    information = max(size * (odds - 1) ** 2 * s * (size - s) / (size + (odds - 1) * s) ** 2 for s in whole)
    trace = math.fsum(1 / (2 * math.sin(math.pi * k / (2 * size))) for k in range(1, size))
    sampling = math.fsum(k / size * (1 - k / size) for k in range(1, size)) / (size - 1)
    left = trace**2 / information / (size - 1) * (1 - _ROUND_OFF) - sampling
    return left if left > 0 else None


def _subset(size: int, k: int, odds: float) -> float:
    """n Var = q (1 - q) / (p - q)^2 + (1 - p - q) / (p - q) / d, without differences of nearly equal numbers."""
    whole = k * odds + size - k
    q = k * ((k - 1) * odds + size - k) / ((size - 1) * whole)
    gain = k * (size - k) * (odds - 1) / ((size - 1) * whole)
    return q * (1 - q) / gain**2 + ((size - k) / whole - q) / gain / size


def mean(epsilon: float) -> float | None:
    """The least known worst-case variance on [-1, 1] of an unbiased mean. None outside the range of solved epsilons."""
    from hubbub.mechanisms.table import designs  # imported late: a mechanism registers itself in its own turn

    solved = [(math.log(design.epsilon), math.log(design.variance)) for design in designs()]
    at = math.log(epsilon)
    for (left, low), (right, high) in pairwise(solved):
        if left <= at <= right:
            return math.exp(low + (high - low) * (at - left) / (right - left))
    return None
