"""The largest local epsilon with which a crowd meets a release target: rough for many variants, certified for a few."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.accounting.release_target import Contender, Target, standard_error
from hubbub.mechanisms import Mechanism
from hubbub.mechanisms._exact_arithmetic import SMALLEST_EPSILON

if TYPE_CHECKING:
    from hubbub.mechanisms import Domain

    AnyMechanism = Mechanism[Any]

__all__ = ["at_largest_epsilon", "certified", "rounded_down", "without_useless_epsilon"]

_USELESS = 1.005
"""An epsilon that is a tenth smaller at this cost in error is taken instead: the rest of it would buy nothing."""
_CLOSE = 0.002
"""An approximate epsilon is found to within this."""


def at_largest_epsilon(
    cls: type[AnyMechanism], domain: Domain, options: Mapping[str, Any], target: Target, cap: Fraction
) -> Contender:
    """The variant at the largest epsilon that seems to meet the target."""
    aim, low, high = math.log(-math.log(target.delta)), min(cap, max(target.epsilon, SMALLEST_EPSILON)), cap
    best, tried_cap = cls.calibrate(low, domain, **options), low == cap
    trial = rounded_down(Fraction(math.log1p(target.honest / 60)))  # near the answer for most mechanisms
    while high - low > _quantum(low):
        if not low < trial < high:
            trial = rounded_down((low + high) / 2) if tried_cap else cap
        if not low < trial or (trial == high and tried_cap):
            break
        tried_cap = tried_cap or trial == cap
        made = cls.calibrate(trial, domain, **options)
        delta = target.approximate_delta(made)
        if delta <= target.delta:
            low, best = trial, made
        else:
            high = trial
        # -ln δ is roughly proportional to e^-epsilon
        step = math.log(-math.log(delta)) - aim if 0 < delta < 1 else 1.0
        if best is made and step < _CLOSE:
            break
        trial = rounded_down(trial + Fraction(step - _CLOSE / 2))
    return Contender(best, options, standard_error(best, target.reports), is_certified=False)


def certified(one: Contender, target: Target, cap: Fraction) -> Contender:
    """The same variant at the largest epsilon for which the target is certified, to a thousandth."""
    mechanism = one.mechanism
    make: Callable[[Fraction], AnyMechanism] = lambda epsilon: type(mechanism).calibrate(  # noqa: E731
        epsilon, mechanism.domain, **one.options
    )
    least = min(cap, target.epsilon)
    step = _quantum(mechanism.epsilon)
    if target.meets(mechanism):
        met, failed = mechanism.epsilon, None
        while failed is None and met < cap:
            trial = min(cap, met + step)
            if target.meets(make(trial)):
                met, step = trial, 4 * step
            else:
                failed = trial
    else:
        failed, met = mechanism.epsilon, least
        while failed - step > least:
            if target.meets(make(failed - step)):
                met = failed - step
                break
            failed, step = failed - step, 4 * step
    while failed is not None and failed - met > _quantum(met):
        middle = rounded_down((met + failed) / 2)
        if not met < middle < failed:
            break
        met, failed = (middle, failed) if target.meets(make(middle)) else (met, middle)
    while target.guarantee(make(met)).epsilon > target.epsilon and met - _quantum(met) > least:
        met -= _quantum(met)
    if target.guarantee(make(met)).epsilon > target.epsilon:
        met = least
    best = make(met)
    return Contender(best, one.options, standard_error(best, target.reports), is_certified=True)


def without_useless_epsilon(one: Contender, target: Target) -> Contender:
    """The smallest epsilon with practically the same error, if that spares at least a tenth."""
    mechanism, worth = one.mechanism, _USELESS * one.error

    def at(epsilon: Fraction) -> Contender:
        made = type(mechanism).calibrate(epsilon, mechanism.domain, **one.options)
        return Contender(made, one.options, standard_error(made, target.reports), is_certified=True)

    high = mechanism.epsilon
    low = rounded_down(high * Fraction(9, 10))
    if low < SMALLEST_EPSILON or at(low).error > worth:
        return one
    low, high = SMALLEST_EPSILON, low
    while high - low > max(_quantum(high), high / 100):
        middle = rounded_down((low + high) / 2)
        if not low < middle < high:
            break
        low, high = (low, middle) if at(middle).error <= worth else (middle, high)
    smaller = at(high)
    return smaller if target.guarantee(smaller.mechanism).epsilon <= target.epsilon else one


def _quantum(epsilon: Fraction) -> Fraction:
    """Epsilons are chosen to three digits after the point, small ones to four."""
    return Fraction(1, 1000) if epsilon >= 1 else Fraction(1, 10_000)


def rounded_down(epsilon: Fraction) -> Fraction:
    quantum = _quantum(epsilon)
    return epsilon // quantum * quantum
