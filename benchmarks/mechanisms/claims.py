"""Claims about the default choices compared with other libraries, each with the figure that decides it."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.mechanisms.least import least_mean_variance
from benchmarks.mechanisms.plots import biased_noises
from benchmarks.mechanisms.run import OURS, Found


class Claim(NamedTuple):
    what: str
    found: str
    holds: bool


def claims(found: Found) -> list[Claim]:
    return [_accurate(found), _quick_at_the_largest(found), _quicker_than_hashing(found), *_means(found)]


def _accurate(found: Found) -> Claim:
    """A ratio is too large if it is above 1.10 by more than six standard errors of its measurement."""
    own = [one for one in found.shares if one.who.startswith(OURS)]
    worst = max(own, key=lambda one: one.ratio)
    where = f"largest: {worst.ratio:.3f} ± {worst.doubt:.3f}, {worst.size:,} values, epsilon {worst.epsilon:g}"
    holds = all(one.ratio < 1.1 + 6 * one.doubt for one in own)
    return Claim("error at most 1.10 of the least possible, within six standard errors", where, holds)


def _quick_at_the_largest(found: Found) -> Claim:
    slowest = max(seconds for size, _, _, seconds in found.server if size == 65_536)
    return Claim("100,000 reports over 65,536 values in 0.3 s of CPU", f"at most {slowest:.2f} s", slowest <= 0.3)


def _quicker_than_hashing(found: Found) -> Claim:
    """At the same number of reports, 1024 values."""
    least = min(
        theirs.server / own.server
        for theirs in found.crowd
        for own in found.crowd
        if theirs.epsilon == own.epsilon and own.who.startswith(OURS) and theirs.who.split()[1] == "OLH"
    )
    return Claim("a server 100 times faster than either OLH, 1024 values", f"at least {least:.0f} times", least >= 100)


def _means(found: Found) -> list[Claim]:
    own = {one.epsilon: one.variance for one in found.numbers if one.who.startswith(OURS)}
    biased = biased_noises(found)
    best: dict[float, float] = {}
    for one in found.numbers:
        if not one.who.startswith(OURS) and one.who not in biased:
            best[one.epsilon] = min(best.get(one.epsilon, one.variance), one.variance)
    optimal = max(own[epsilon] / least_mean_variance(epsilon) for epsilon in own)
    ahead = min(best[epsilon] / own[epsilon] for epsilon in own)
    return [
        Claim("a mean within 1.15 of the least worst-case variance", f"at most {optimal:.2f}", optimal <= 1.15),
        Claim("1.8 times less variance than the best unbiased noise", f"at least {ahead:.2f} times", ahead >= 1.8),
    ]
