"""The allowances for rounding: the same sum in forty digits is never above what doubles return.

Smoothing raises a value by far more than rounding can lower it, so comparing with the truth would not notice an
allowance that is missing. Here the smoothed sum itself is the yardstick.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from hubbub.accounting import laplace_inversion
from hubbub.accounting.guarantee import guarantee, profile
from hubbub.accounting.laplace_inversion import LOSS, RAMP, Kernel, Law, upper_expectation
from hubbub.mechanisms import Categories, KaryRandomizedResponse


def in_forty_digits(law: Law, kernel: Kernel, at: float, fineness: float) -> Any:
    """The trapezoid sum on the contour that the doubles take, without any rounding that matters."""
    where = laplace_inversion._contour([law], kernel, at, fineness)
    with mpmath.workdps(40):
        step = mpmath.mpf(2 * math.pi / where.period)
        tilt, tau, drift = (mpmath.mpf(x) for x in (where.tilt, where.tau, kernel.drift))
        values = [mpmath.mpf(float(value)) for value in law.values]
        weights = [mpmath.mpf(float(m)) * mpmath.exp(tilt * v) for m, v in zip(law.masses, values, strict=True)]
        turns = [mpmath.expj(step * value) for value in values]
        total = mpmath.mpf(0)
        for node in range(where.nodes + 1):
            z = mpmath.mpc(tilt, step * node)
            log = law.times * mpmath.log(mpmath.fsum(weights)) - z * at + tau * tau * (z * z / 2 + drift * z)
            transform = 1 / (z * z) if kernel is RAMP else 1 / (z * (z + 1))
            total += (1 if node == 0 else 2) * (transform * mpmath.exp(log)).real
            weights = [weight * turn for weight, turn in zip(weights, turns, strict=True)]
        return total * step / (2 * mpmath.pi)


@pytest.mark.everyday
@pytest.mark.parametrize("reports", [1_000, 10**6, 10**9])
@pytest.mark.parametrize(("epsilon0", "size"), [(0.5, 3), (4, 10), (15, 3)])
def test_doubles_are_never_below_the_sum_that_they_stand_for(reports: int, epsilon0: float, size: int) -> None:
    krr = KaryRandomizedResponse.calibrate(epsilon0, Categories(size))
    epsilon = guarantee(krr, reports, 1e-6).epsilon * 0.999
    masses, values = profile(krr)._blankets._law(0, epsilon)
    law = Law(masses, values, reports)
    found, exact = upper_expectation([law], RAMP, 0.0, 100.0), in_forty_digits(law, RAMP, 0.0, 100.0)
    assert found >= exact
    assert found <= exact * (1 + 1e-3)


def test_the_allowance_is_needed_and_of_the_right_size() -> None:
    """With values far apart and many terms, bare doubles fall on either side of the sum; with the allowance, above."""
    rng = np.random.default_rng(1)
    below = 0
    for _ in range(12):
        masses = rng.dirichlet(np.ones(4))
        values = rng.normal(0, 10.0 ** rng.integers(-3, 4), 4)
        values -= masses @ values
        law = Law(masses, values, int(10 ** rng.integers(2, 8)))
        found, exact = upper_expectation([law], LOSS, 0.0, 50.0), in_forty_digits(law, LOSS, 0.0, 50.0)
        assert found >= exact
        bare = found * (1 - 1e-9)
        below += bare < exact
    assert below, "an allowance of a billionth is larger than any rounding seen here: tighten it"
