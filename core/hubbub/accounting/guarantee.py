"""The guarantee of one shuffled batch: an upper bound (ε, δ) for one device's report, and the method that gave it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from hubbub.accounting.any_randomizer import AnyRandomizer, CloneRandomizer
from hubbub.accounting.blanket import FINE, MOST_REPORTS, USUAL, Blankets
from hubbub.accounting.epsilon_search import TOLERANCE
from hubbub.accounting.one_bit_delta import Coin
from hubbub.accounting.one_bit_worst_case import MOST_DATA_SETS, Census
from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    from hubbub.mechanisms.amplification_data import Amplification

Method: TypeAlias = Literal["blanket", "exact-binary", "extremal-pair", "clone-fmt21", "local"]

ASSUMPTIONS = (
    "the shuffler hides who sent which report and does not collude with the aggregator",
    "the counted reports come from honest devices, the protected one among them, each with one report in the batch",
    "every report is randomized afresh, and no one knows the coins of an honest device",
    "which devices report, and how many, does not depend on their values",
)


class Randomizer(Protocol):
    """What accounting needs from a mechanism. Every `hubbub.mechanisms.Mechanism` has it, and `AnyRandomizer`, too."""

    @property
    def name(self) -> str: ...
    def __hash__(self) -> int: ...
    @property
    def realised_epsilon(self) -> float: ...
    def amplification(self) -> Amplification: ...


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(ε, δ)-differential privacy of a batch under replacement of one device's value.

    `epsilon` is certified: the true value is not above it. `local_epsilon` holds whatever the shuffler does.
    """

    epsilon: float
    delta: float
    reports: int
    method: Method
    local_epsilon: float
    adjacency: str = "replacement"
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def amplified(self) -> bool:
        """Whether shuffling gives a better guarantee than each device's own noise."""
        return self.epsilon < self.local_epsilon


def guarantee(mechanism: Randomizer, reports: int, delta: float | Fraction) -> Guarantee:
    """The smallest ε that can be certified at `delta` for a batch of `reports` honest reports."""
    reports, lowered = check_reports(reports), check_delta(delta)
    local, asked = mechanism.realised_epsilon, float(delta)
    if lowered == 0:
        return Guarantee(local, asked, reports, "local", local, assumptions=())
    if lowered == 1:
        return Guarantee(0.0, asked, reports, "local", local, assumptions=())
    epsilon, method = profile(mechanism).epsilon(reports, lowered)
    if epsilon >= local * (1 - 3 * TOLERANCE):
        return Guarantee(local, asked, reports, "local", local, assumptions=())
    return Guarantee(epsilon, asked, reports, method, local)


def delta_at(mechanism: Randomizer, reports: int, epsilon: float | Fraction) -> float:
    """A δ at which `epsilon` is certified for a batch of `reports` honest reports."""
    return profile(mechanism).delta(check_reports(reports), check_epsilon(epsilon), fineness=FINE)


def min_reports(mechanism: Randomizer, epsilon: float | Fraction, delta: float | Fraction) -> int:
    """The smallest batch n with guarantee(mechanism, n, delta).epsilon <= epsilon.

    The true δ falls with n. The certified one follows it to about a relative 1e-6, so the answer may be
    above the ideal one by about as much. `guarantee` checks the answer before it is returned.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon >= mechanism.realised_epsilon or delta == 1:
        return 1
    known = profile(mechanism)
    out_of_reach = InvalidParameter(
        f"no batch of up to {MOST_REPORTS} reports can be certified for epsilon {epsilon:g} at delta {delta:g}; "
        "use a larger epsilon or delta, or lower the mechanism's own epsilon"
    )
    if delta == 0 or known.delta(MOST_REPORTS, epsilon) > delta:
        raise out_of_reach
    few, many = 0, MOST_REPORTS
    aim, few_height, many_height = math.sqrt(-math.log(delta)), math.nan, math.nan
    # sqrt(-ln δ) is nearly linear in sqrt(n)
    wanted = aim * known.spread(1) / epsilon if epsilon * math.sqrt(many) > aim * known.spread(1) else math.sqrt(many)
    trial = max(1, min(many - 1, int(wanted**2)))
    for step in range(200):
        value = known.delta(trial, epsilon, enough=delta)
        height = math.sqrt(max(0.0, -math.log(value))) - aim if value > 0 else math.inf
        if value <= delta:
            many, many_height = trial, height
        else:
            few, few_height = trial, height
        if many - few <= 1:
            break
        if math.isfinite(few_height) and math.isfinite(many_height) and step % 4 != 3:
            a, b = math.sqrt(few), math.sqrt(many)
            root = a - few_height * (b - a) / (many_height - few_height)
            trial = int(root * root) + (1 if step % 2 else 0)
        else:
            trial = int(math.sqrt(max(few, 1) * many))
        trial = min(max(trial, few + 1), many - 1)
    while guarantee(mechanism, many, delta).epsilon > epsilon:
        many += max(1, many // 1_000_000)
        if many > MOST_REPORTS:
            raise out_of_reach
    return many


def guarantee_curve(
    mechanism: Randomizer, reports: int, delta: float, dishonest: Iterable[int]
) -> tuple[Guarantee, ...]:
    """The guarantee for each number of `dishonest` reports, which the adversary makes or knows."""
    reports = check_reports(reports)
    counts = tuple(dishonest)
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < reports:
            raise InvalidParameter(f"dishonest must be from 0 to {reports - 1}, got {count!r}")
    return tuple(guarantee(mechanism, reports - count, delta) for count in counts)


class Profile:
    """The tightest of all certified bounds that a mechanism has."""

    def __init__(self, mechanism: Randomizer) -> None:
        self.local = mechanism.realised_epsilon
        amplification = mechanism.amplification()
        # a mechanism that does not describe its pairs is treated as any randomizer of its epsilon
        self._blankets = Blankets(amplification.pairs or AnyRandomizer.at_most(self.local).amplification().pairs)
        generic = isinstance(mechanism, AnyRandomizer) or not amplification.pairs
        self._method: Method = "extremal-pair" if generic else "blanket"
        if isinstance(mechanism, CloneRandomizer):
            self._method = "clone-fmt21"
        self._coin = None if amplification.binary is None else Coin(*amplification.binary)

    def spread(self, reports: int) -> float:
        return self._blankets.spread(reports)

    def epsilon(self, reports: int, delta: float) -> tuple[float, Method]:
        """The smallest ε at which `delta` is certified, at most the local ε."""
        reports = min(reports, MOST_REPORTS)
        found, method = self.local, self._method
        if self._coin is not None:
            spread = self.spread(reports)
            guess = 0.8 * spread * math.sqrt(2 * math.log1p(spread / delta))
            exact = Census(self._coin, reports).epsilon(delta, self.local, guess)
            if exact < found:
                found, method = exact, "exact-binary"
        if found == self.local or self._blankets.delta(reports, found) <= delta:
            loose = self._blankets.epsilon(reports, delta, found)
            if loose < found:
                found, method = loose, self._method
        return found, method

    def delta(
        self,
        reports: int,
        epsilon: float,
        *,
        blocks: int = MOST_DATA_SETS,
        fineness: float = USUAL,
        enough: float = 1.0,
    ) -> float:
        """A certified δ(ε). If it is above `enough`, any value above `enough`."""
        if epsilon >= self.local:
            return 0.0
        found = self._blankets.delta(reports, epsilon, fineness)
        if self._coin is None:
            return found
        return min(found, Census(self._coin, reports, blocks).delta(epsilon, enough))


@lru_cache(maxsize=128)
def profile(mechanism: Randomizer) -> Profile:
    """The mechanism's profile, built once, since mechanisms are immutable values."""
    return Profile(mechanism)


def check_reports(reports: int) -> int:
    if isinstance(reports, bool) or not isinstance(reports, int) or reports < 1:
        raise InvalidParameter(f"reports must be a whole number of at least 1, got {reports!r}")
    return reports


def check_delta(delta: float | Fraction) -> float:
    if isinstance(delta, bool) or not isinstance(delta, int | float | Fraction) or not 0 <= delta <= 1:
        raise InvalidParameter(f"delta must be a number from 0 to 1, got {delta!r}")
    lowered = float(delta)
    return lowered if lowered <= delta else math.nextafter(lowered, 0.0)


_LARGE = 10**6
"""Every local ε is far below this, so larger ε make no difference."""


def check_epsilon(epsilon: float | Fraction) -> float:
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | Fraction) or not 0 <= epsilon < math.inf:
        raise InvalidParameter(f"epsilon must be a number of at least 0, got {epsilon!r}")
    lowered = float(min(epsilon, _LARGE))
    return lowered if lowered <= epsilon else math.nextafter(lowered, 0.0)
