"""What a release must meet at one crowd, and a mechanism that contends for it with its error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.accounting.approximate_delta import approximate_delta
from hubbub.accounting.blanket import FINE
from hubbub.accounting.guarantee import Guarantee, check_delta, check_epsilon, check_reports, guarantee, profile
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Mechanism
from hubbub.mechanisms._exact_arithmetic import SMALLEST_EPSILON
from hubbub.mechanisms._least_variance import optimum

if TYPE_CHECKING:
    from hubbub.mechanisms import Domain

    AnyMechanism = Mechanism[Any]

__all__ = ["Contender", "Target", "local_bound", "standard_error"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a release must meet, and the crowd that it has."""

    epsilon: Fraction
    delta: Fraction
    honest: int
    """Honest reports, for which the target is certified."""
    reports: int
    """All reports, which set the error."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_reports(self.honest)
        if not 0 < check_delta(self.delta) < 1:
            raise InvalidParameter(f"delta must be a number above 0 and below 1, got {float(self.delta):g}")
        if self.epsilon < SMALLEST_EPSILON:
            raise InvalidParameter(f"a release epsilon must be at least {float(SMALLEST_EPSILON)}")

    def meets(self, mechanism: AnyMechanism) -> bool:
        """Whether the target is certified for this mechanism."""
        if mechanism.loss() <= self.epsilon:
            return True
        delta = check_delta(self.delta)
        found = profile(mechanism).delta(self.honest, check_epsilon(self.epsilon), fineness=FINE, enough=delta)
        return found <= delta

    def guarantee(self, mechanism: AnyMechanism) -> Guarantee:
        """What is certified for the crowd at the target's δ."""
        return guarantee(mechanism, self.honest, self.delta)

    def approximate_delta(self, mechanism: AnyMechanism) -> float:
        """Roughly the δ of a release. No bound: for ranking only."""
        return approximate_delta(mechanism, self.honest, float(self.epsilon))


@dataclass(frozen=True, slots=True)
class Contender:
    """A mechanism at the largest local epsilon that the target allows it, with its error."""

    mechanism: AnyMechanism
    options: Mapping[str, Any]
    """The variant, as options of `calibrate`."""
    error: float
    """Standard error of one share, or of a mean over the width of its bounds."""
    is_certified: bool
    against: str = ""

    @property
    def title(self) -> str:
        """The mechanism and its variant in a few words."""
        said = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.mechanism.name} ({said})" if said else self.mechanism.name


def standard_error(mechanism: AnyMechanism, reports: int) -> float:
    """Standard error of one share at a uniform population, or of the mean over the width of its bounds."""
    domain = mechanism.domain
    return math.sqrt(mechanism.typical_variance() / reports) * domain.unit_of_variance / domain.span


def local_bound(domain: Domain, epsilon: float, reports: int) -> float | None:
    """The same for the best randomizer of this local epsilon. None where no figure is known."""
    least = optimum(domain, epsilon)
    return None if least is None else math.sqrt(least / reports) * domain.unit_of_variance / domain.span
