r"""Privacy curve: δ at every ε, groups of devices, and the errors of every test, for one batch or many together.

Everything follows from certified values of δ(ε), so each answer is an upper bound on privacy loss:

- **Groups.** If k devices change their values one after the other, each step costs δ(ε'), and the hockey-stick
  divergence at e^{kε'} of k steps is at most (1 + e^{ε'} + ... + e^{(k-1)ε'}) δ(ε').
- **Trade-off.** A test that tells two neighbouring data sets apart with probability α of a false alarm misses with
  probability at least max(0, 1 - δ(ε) - e^ε α, e^{-ε} (1 - δ(ε) - α)), for every ε (Dong, Roth, Su, JRSS-B 2022,
  arXiv 1905.02383; Wasserman and Zhou, JASA 2010). The best of finitely many ε is still a lower bound on its errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from hubbub.accounting.compose import compose, composed_delta
from hubbub.accounting.epsilon_search import smallest_epsilon
from hubbub.accounting.guarantee import Randomizer, check_delta, check_epsilon, delta_at
from hubbub.accounting.laplace_inversion import UNIT
from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import float_above

__all__ = ["MOST_DEVICES", "Batch", "PrivacyCurve"]

Batch: TypeAlias = "tuple[Randomizer, int, int]"
"""Mechanism, honest reports, and how many such batches there are."""

MOST_DEVICES = 1000
"""Largest group that is answered."""
_SMALL = 1e-12
"""The curve is drawn down to this δ."""
_POINTS = 33
_FALSE_ALARMS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class PrivacyCurve:
    """What batches together reveal of a group of `devices` that took part in all of them."""

    batches: tuple[Batch, ...]
    failure: Fraction = Fraction(0)
    """Probability that fewer reports were honest than counted. It is part of every δ."""
    devices: int = 1

    def __post_init__(self) -> None:
        if not self.batches:
            raise InvalidParameter("a privacy curve needs at least one batch")
        if isinstance(self.devices, bool) or not 1 <= self.devices <= MOST_DEVICES:
            raise InvalidParameter(f"a group has from 1 to {MOST_DEVICES:,} devices, got {self.devices!r}")

    @property
    def local_epsilon(self) -> float:
        """What holds whatever the shuffler does, with δ = 0."""
        each = (Fraction(mechanism.realised_epsilon) * times for mechanism, _, times in self.batches)
        return float_above(self.devices * sum(each, Fraction(0)))

    def delta(self, epsilon: float) -> float:
        """A δ at which `epsilon` is certified."""
        epsilon = check_epsilon(epsilon)
        if epsilon >= self.local_epsilon:
            return 0.0
        step = math.nextafter(epsilon / self.devices, 0.0) if self.devices > 1 else epsilon
        one = self._of_one_device(step) + float_above(self.failure)
        if self.devices == 1:
            return min(1.0, one * (1 + 2 * UNIT) if self.failure else one)
        exponents = [step * k for k in range(self.devices)]
        if one >= 1 or exponents[-1] > 700:
            return 1.0
        steps = math.fsum(math.exp(exponent) for exponent in exponents) * (1 + 8 * UNIT * (1 + exponents[-1]))
        return min(1.0, one * steps * (1 + 4 * UNIT))

    def epsilon(self, delta: float | Fraction) -> float:
        """The smallest ε that can be certified at `delta`."""
        left = check_delta(max(Fraction(0), Fraction(delta) - self.failure)) if check_delta(delta) < 1 else 1.0
        if self.devices == 1 or not 0 < left < 1:
            return compose(self.batches, left).epsilon if left else self.local_epsilon
        lowered = check_delta(delta)
        guess = min(0.9 * self.local_epsilon, self.devices * PrivacyCurve(self.batches).epsilon(left))
        return smallest_epsilon(self.delta, lowered, self.local_epsilon, guess)

    def points(self, count: int = _POINTS) -> list[tuple[float, float]]:
        """(ε, δ(ε)) from ε = 0 to where δ is negligible, or to the local ε."""
        top = self.epsilon(max(Fraction(_SMALL), 2 * self.failure))
        return [(epsilon, self.delta(epsilon)) for epsilon in (top * k / (count - 1) for k in range(count))]

    def errors(
        self, points: Sequence[tuple[float, float]] | None = None, false_alarms: Iterable[float] = _FALSE_ALARMS
    ) -> list[tuple[float, float]]:
        """(type I error, least type II error) of any test that tells two values of one device, or of a group, apart."""
        curve = [*(self.points() if points is None else points), (self.local_epsilon, 0.0)]
        return [(alarm, max(_missed(alarm, epsilon, delta) for epsilon, delta in curve)) for alarm in false_alarms]

    def _of_one_device(self, epsilon: float) -> float:
        if len(self.batches) == 1 and self.batches[0][2] == 1:
            mechanism, reports, _ = self.batches[0]
            return delta_at(mechanism, reports, epsilon)
        return composed_delta(self.batches, epsilon)


def _missed(alarm: float, epsilon: float, delta: float) -> float:
    """The least probability of a miss, from below."""
    if epsilon > 700:
        return 0.0
    power, slack = math.exp(epsilon), 16 * UNIT * (1 + epsilon)
    first = 1 - delta - power * alarm - slack * (1 + power * alarm)
    second = (1 - delta - alarm) / power - slack
    return max(0.0, first, second)
