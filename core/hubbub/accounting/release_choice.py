"""The mechanism with the least error of all that meet one release target at one crowd, and why.

What is best at a local epsilon is not best after shuffling. Here every mechanism, in every variant, gets the largest
local epsilon with which the crowd still meets the target, and then errors are compared. Candidates are ranked by an
approximation; the first few are certified, and only certified numbers are returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.accounting.central_gaussian import central_gaussian
from hubbub.accounting.guarantee import Guarantee
from hubbub.accounting.largest_epsilon import at_largest_epsilon, certified, without_useless_epsilon
from hubbub.accounting.release_target import Contender, Target, local_bound
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import REPORT_BYTES, Categories, Mechanism, registered, select
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON, exact_epsilon

if TYPE_CHECKING:
    from hubbub.mechanisms import Domain

    AnyMechanism = Mechanism[Any]

__all__ = ["ReleaseChoice", "choose_for_release", "likely_error"]

NEAR = 1.05
"""Candidates whose approximate error is at most this multiple of the least are certified, up to `MOST_CERTIFIED`."""
MOST_CERTIFIED = 4
TIE = 1.01
"""Certified errors within one per cent count as equal. Then the shorter report wins."""
_FIRST = 9
"""Of the variants of a mechanism, about this many are looked at first, and then the ones around the best."""


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """The chosen mechanism, what is certified for it, and the contenders, best first."""

    target: Target
    cap: Fraction
    chosen: Contender
    certified: Guarantee
    contenders: tuple[Contender, ...]

    @property
    def mechanism(self) -> AnyMechanism:
        return self.chosen.mechanism

    @property
    def error(self) -> float:
        return self.chosen.error

    @property
    def central(self) -> float:
        """The standard error of the central Gaussian mechanism at the same target and as many devices."""
        target = self.target
        return central_gaussian(self.mechanism.domain, target.reports, float(target.epsilon), float(target.delta))

    @property
    def least(self) -> float | None:
        """The least error of any randomizer of the chosen local epsilon (for a mean the least known)."""
        return local_bound(self.mechanism.domain, self.mechanism.realised_epsilon, self.target.reports)

    @property
    def is_capped(self) -> bool:
        """Whether a larger local epsilon would have met the target, too."""
        return self.mechanism.epsilon == self.cap and self.cap < LARGEST_EPSILON

    @property
    def why(self) -> str:
        """The reasons in a few sentences."""
        target, one = self.target, self.chosen
        said = [
            f"Compared at equal certificate, because a release target and a crowd are known: epsilon "
            f"{float(target.epsilon):g} at delta {float(target.delta):g} with {target.honest:,} honest devices.",
            f"{one.title}: standard error {one.error:.3g}, {self._beside_bounds()}, with local "
            f"epsilon {float(one.mechanism.epsilon):g}, which is all that holds if shuffler and aggregator collude.",
        ]
        if self.is_capped:
            said.append(f"The cap of {float(self.cap):g} on the local epsilon, not the target, sets this error.")
        others = [other for other in self.contenders if other.against]
        if others:
            said.append("The rule: each at the largest local epsilon that the target allows, then the least error.")
            said += [f"{other.title}: {other.against}." for other in others]
        return " ".join(said)

    def _beside_bounds(self) -> str:
        said = f"{self.error / self.central:.2f} of the central Gaussian mechanism's"
        if self.least:
            known = "possible" if self.mechanism.domain.is_optimum_proven else "known"
            said += f" and {self.error / self.least:.2f} of the least {known} at its local epsilon"
        return said


def choose_for_release(
    domain: Domain,
    target: Target,
    cap: object = LARGEST_EPSILON,
    report_bytes: int | None = REPORT_BYTES,
    only: str | None = None,
) -> ReleaseChoice:
    """The mechanism and the local epsilon, at most `cap`, with the least error that is certified to meet the target.

    `only` names a mechanism to search alone. There is always an answer, since a local epsilon of the release's own
    meets the target without any shuffling.
    """
    most = exact_epsilon(cap)
    found = list(_ranked(domain, target, most, report_bytes, only))
    if not found:
        select(domain, most, report_bytes)  # says what does not fit, and what to do
        raise InvalidParameter(f"{only} does not fit {domain.in_words} in {report_bytes} bytes")
    least = found[0].error
    sure = [
        certified(one, target, most)
        for number, one in enumerate(found)
        if number < MOST_CERTIFIED and one.error <= NEAR * least
    ]
    best = min(one.error for one in sure)
    chosen = min((one for one in sure if one.error <= TIE * best), key=_merit)
    chosen = without_useless_epsilon(chosen, target)
    rest = [one for one in (*sure, *found[len(sure) :]) if one.title != chosen.title]
    contenders = (
        chosen,
        *sorted((_against(one, chosen) for one in _one_each(rest, chosen)), key=lambda one: one.error),
    )
    return ReleaseChoice(target, most, chosen, target.guarantee(chosen.mechanism), contenders)


def likely_error(
    domain: Domain, target: Target, cap: Fraction, report_bytes: int | None = REPORT_BYTES, only: str | None = None
) -> float:
    """Roughly the error of the choice, in a tenth of its time. For searches: nothing shown comes from it."""
    return min((one.error for one in _ranked(domain, target, cap, report_bytes, only)), default=math.inf)


def _ranked(
    domain: Domain, target: Target, cap: Fraction, report_bytes: int | None, only: str | None
) -> Iterator[Contender]:
    """Every variant that was looked at, at its largest epsilon by the approximation, the least error first."""
    found: list[Contender] = []
    for name, cls in registered().items():
        is_asked = only == name or (only is None and not cls.reserved)
        if is_asked and cls.fits(domain) and not cls.needs_options:
            found += _variants(cls, domain, target, cap, report_bytes)
    return iter(sorted(found, key=lambda one: one.error))


def _variants(
    cls: type[AnyMechanism], domain: Domain, target: Target, cap: Fraction, report_bytes: int | None
) -> list[Contender]:
    variants = list(cls.variants(domain))
    known: dict[int, Contender | None] = {}

    def look(places: Sequence[int]) -> None:
        for place in places:
            if 0 <= place < len(variants) and place not in known:
                one = at_largest_epsilon(cls, domain, variants[place], target, cap)
                fits = report_bytes is None or one.mechanism.report_bytes <= report_bytes
                known[place] = one if fits else None

    stride = max(1, len(variants) // _FIRST)
    look(range(0, len(variants), stride))
    fitting = {place: one for place, one in known.items() if one is not None}
    if fitting:
        best = min(fitting, key=lambda place: fitting[place].error)
        look(range(best - stride + 1, best + stride))
    return [one for one in known.values() if one is not None]


def _merit(one: Contender) -> tuple[int, float, bool]:
    """Sort key: the shorter report, then the smaller epsilon, then the mechanism that is made for two values."""
    mechanism = one.mechanism
    return mechanism.report_bytes, float(mechanism.epsilon), mechanism.fits(Categories(3))


def _one_each(rest: Sequence[Contender], chosen: Contender) -> list[Contender]:
    """The best variant of each other mechanism, and of the chosen one."""
    best: dict[str, Contender] = {}
    for one in sorted(rest, key=lambda one: (not one.is_certified, one.error)):
        best.setdefault(one.mechanism.name, one)
    same = best.pop(chosen.mechanism.name, None)
    return [*best.values(), *([same] if same else [])]


def _against(one: Contender, chosen: Contender) -> Contender:
    """What speaks against a mechanism that was not chosen. Figures of one that was not certified are rough."""
    ratio, about = one.error / chosen.error, "" if one.is_certified else "about "
    longer = one.mechanism.report_bytes > chosen.mechanism.report_bytes
    if ratio < 1 and longer:
        said = f"{1 - ratio:.1%} less error is not worth {one.mechanism.report_bytes} bytes instead of "
        said += f"{chosen.mechanism.report_bytes}"
    elif ratio < TIE:
        said = "no better, and no shorter"
    else:
        said = f"{about}{ratio:.3g} times the error, at local epsilon {about}{float(one.mechanism.epsilon):.3g}"
    return Contender(one.mechanism, one.options, one.error, one.is_certified, said)
