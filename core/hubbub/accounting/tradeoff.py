"""The trade-off between error and local epsilon: what each cap buys, between the central and the local model.

Three lines over the local epsilon, all as a standard error of one share, or of a mean over the width of its bounds:

- the certified optimum: the least error of any mechanism with at most this local epsilon that meets the target;
- the central Gaussian mechanism at the same target, which a trusted server could run;
- the local bound: the least error of any randomizer of this local epsilon (for a mean the least known).

The first cannot be below the third. Where the crowd is good for more than the epsilon, they are one. Where a larger
epsilon buys nothing, the first is flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import TYPE_CHECKING

from hubbub.accounting.budget_split import Asked
from hubbub.accounting.largest_epsilon import rounded_down
from hubbub.accounting.release_target import local_bound, standard_error
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON, decimal_text

if TYPE_CHECKING:
    from hubbub.accounting.release_choice import ReleaseChoice

__all__ = ["Tradeoff", "TradeoffPoint", "tradeoff"]

_LEAST = Fraction(1, 4)
_POINTS = 13
_BEYOND = Fraction(5, 4)
"""The picture goes on to the right of the best epsilon by this factor."""


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    """What one cap on the local epsilon buys."""

    epsilon: Fraction
    mechanism: str
    error: float
    """Certified: some mechanism of at most this epsilon meets the target with this error."""
    local_bound: float | None


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The three lines, and what was chosen."""

    asked: Asked
    points: tuple[TradeoffPoint, ...]
    central: float
    best: ReleaseChoice
    """The choice without a cap."""
    epsilon: Fraction
    """The local epsilon in use."""
    error: float
    """The error of the mechanism in use."""
    cap: Fraction | None

    @property
    def more_epsilon(self) -> str:
        """What a larger local epsilon buys, in one sentence."""
        best, ratio = self.best, self.error / self.best.error
        top = f"epsilon {decimal_text(best.mechanism.epsilon)} has {best.error / self.central:.2g} times the error of a"
        top += " trusted server that adds Gaussian noise, and more buys nothing"
        if ratio < 1.05:
            return f"To the right nothing is left: {top}."
        return f"To the right is accuracy: {top}; now it is {ratio:.2g} times that."

    @property
    def less_epsilon(self) -> str:
        """What a smaller local epsilon protects, in one sentence."""
        power = exp(min(float(self.epsilon), 700.0))
        guess = min(power / (1 + power), 1.0)
        sure = "almost a certainty" if guess > 0.995 else f"at most {_percent_above(guess)}"
        said = (
            "To the left is what remains if shuffler and aggregator collude: with epsilon "
            f"{decimal_text(self.epsilon)}, someone's suspicion of one half becomes {sure}"
        )
        half = [point for point in self.points if point.epsilon <= self.epsilon / 2]
        if not half:
            return f"{said}."
        costs = half[-1].error / self.error
        return f"{said}; epsilon {decimal_text(half[-1].epsilon)} costs {costs:.2g} times the error."

    @property
    def sides(self) -> tuple[str, str]:
        """A sentence for each side of the trade."""
        return self.less_epsilon, self.more_epsilon


def tradeoff(asked: Asked, epsilon: Fraction, error: float, cap: Fraction | None = None) -> Tradeoff:
    """The trade-off at one target and crowd, for a metric that has this local epsilon and this error now."""
    best = asked.choose(LARGEST_EPSILON)
    points: list[TradeoffPoint] = []
    for at in _places(best.mechanism.epsilon, epsilon, cap):
        mechanism, found = best.mechanism, best.error
        if at < best.mechanism.epsilon:
            local = asked.locally_best(at)
            if asked.target.meets(local):
                mechanism, found = local, standard_error(local, asked.target.reports)
            else:
                made = asked.choose(at)
                mechanism, found = made.mechanism, made.error
        if points and points[-1].error <= found:  # a mechanism of a smaller epsilon is allowed, too
            name, found = points[-1].mechanism, points[-1].error
        else:
            name = mechanism.name
        points.append(TradeoffPoint(at, name, found, local_bound(asked.domain, float(at), asked.target.reports)))
    return Tradeoff(asked, tuple(points), best.central, best, epsilon, error, cap)


def _places(best: Fraction, epsilon: Fraction, cap: Fraction | None) -> list[Fraction]:
    """Epsilons that are looked at, denser where they are small, and those that are marked."""
    top = _BEYOND * max(best, epsilon, cap or Fraction(0))
    even = [rounded_down(_LEAST + (top - _LEAST) * Fraction(k, _POINTS - 1) ** 2) for k in range(_POINTS)]
    marked = [best, *([epsilon] if epsilon > _LEAST else []), *([cap] if cap is not None and cap > _LEAST else [])]
    return sorted({*even, *marked})


def _percent_above(part: float) -> str:
    return f"{-int(-100 * part // 1)} %"
