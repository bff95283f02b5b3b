"""The split of a device's budget over metrics: equal relative errors, weighted by importance.

Each metric is first given all that its own target, crowd and cap allow. If that is more than the budget, all errors are
raised by one factor, until the epsilons fit: a metric that is twice as important keeps half the relative error. The
relative error is that of a share, or of a mean over the width of its bounds.

The search follows an approximate curve of error over epsilon. What is returned was certified at the epsilon it got.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.accounting.largest_epsilon import rounded_down
from hubbub.accounting.release_choice import ReleaseChoice, choose_for_release, likely_error
from hubbub.accounting.release_target import Target, standard_error
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import choose, mechanism
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON, SMALLEST_EPSILON, decimal_text

if TYPE_CHECKING:
    from hubbub.mechanisms import Domain, Mechanism

    AnyMechanism = Mechanism[Any]

__all__ = ["Asked", "least_useful_budget", "split"]

_POINTS = 14
_STEPS = 40


@dataclass(frozen=True, slots=True)
class Asked:
    """One metric that wants a part of the budget."""

    domain: Domain
    target: Target
    cap: Fraction = LARGEST_EPSILON
    report_bytes: int | None = None
    only: str | None = None
    """The one mechanism to use."""
    importance: Fraction = Fraction(1)

    def choose(self, cap: Fraction) -> ReleaseChoice:
        """The certified choice with at most this local epsilon."""
        return choose_for_release(self.domain, self.target, cap, self.report_bytes, self.only)

    def likely_error(self, cap: Fraction) -> float:
        """Roughly the error of that choice. Where the crowd meets the target in any case, the least variance wins."""
        local = self.locally_best(cap)
        if self.target.approximate_delta(local) <= self.target.delta:
            return standard_error(local, self.target.reports)
        return likely_error(self.domain, self.target, cap, self.report_bytes, self.only)

    def locally_best(self, epsilon: Fraction) -> AnyMechanism:
        """The mechanism with the least variance at this local epsilon, whatever a release then reveals."""
        if self.only is not None:
            return mechanism(self.only, self.domain).calibrate(epsilon, self.domain)
        return choose(self.domain, epsilon, self.report_bytes)


def split(asked: Mapping[str, Asked], budget: Fraction) -> dict[str, ReleaseChoice]:
    """The certified choice for each, with epsilons that sum to at most `budget`."""
    if budget <= 0:
        raise InvalidParameter(f"a budget must be above 0 to be split, got {decimal_text(budget)}")
    best = {name: one.choose(min(one.cap, budget)) for name, one in asked.items()}
    if sum((made.mechanism.epsilon for made in best.values()), Fraction(0)) <= budget:
        return best
    if (least := least_useful_budget(len(asked))) > budget:
        said = f"{decimal_text(budget)} is not enough for {len(asked)} metrics"
        raise InvalidParameter(said, f"raise it to {decimal_text(least)} at least")
    curves = {name: _Curve(asked[name], best[name]) for name in asked}
    low, high = 0.0, 1.0
    while _spent(curves, high) > budget:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _spent(curves, middle) > budget else (low, middle)
    caps = {name: curve.epsilon_for(high) for name, curve in curves.items()}
    return {name: asked[name].choose(cap) for name, cap in caps.items()}


def least_useful_budget(metrics: int) -> Fraction:
    """What so many metrics need at least."""
    return metrics * SMALLEST_EPSILON


class _Curve:
    """Roughly the weighted relative error of one metric over its epsilon, which falls up to the best choice."""

    def __init__(self, asked: Asked, best: ReleaseChoice) -> None:
        top = best.mechanism.epsilon
        ratio = float(top / SMALLEST_EPSILON)
        caps = [rounded_down(Fraction(float(SMALLEST_EPSILON) * ratio ** (k / _POINTS))) for k in range(_POINTS)]
        self.caps = [max(SMALLEST_EPSILON, cap) for cap in caps] + [top]
        weight = float(asked.importance)
        errors = [asked.likely_error(cap) * weight for cap in self.caps[:-1]] + [best.error * weight]
        # an approximation that is not monotone must not mislead the search
        self.errors = [max(errors[k:]) for k in range(len(errors))]

    def epsilon_for(self, level: float) -> Fraction:
        """The smallest epsilon with at most this error; all there is, if none has."""
        falling = [-error for error in self.errors]
        place = bisect_left(falling, -level)
        if place == 0:
            return self.caps[0]
        if place == len(self.caps):
            return self.caps[-1]
        left, right = self.caps[place - 1], self.caps[place]
        high, low = self.errors[place - 1], self.errors[place]
        part = 1.0 if high <= low else math.log(high / level) / math.log(high / low)
        between = rounded_down(Fraction(float(left) * (float(right) / float(left)) ** part))
        return min(max(between, left), right)


def _spent(curves: Mapping[str, _Curve], level: float) -> Fraction:
    return sum((curve.epsilon_for(level) for curve in curves.values()), Fraction(0))
