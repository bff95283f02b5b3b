"""Selection of a mechanism when the codebook names none: the lowest exact variance that fits, and why.

It uses only closed forms and does not load numpy, because a device that compiles a packaged codebook selects, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exact_epsilon
from hubbub.mechanisms._least_variance import optimum
from hubbub.mechanisms._registry import registered
from hubbub.mechanisms.domains import Categories

if TYPE_CHECKING:
    from hubbub.mechanisms.base import Mechanism
    from hubbub.mechanisms.domains import Domain

    AnyMechanism = Mechanism[Any]

REPORT_BYTES = 32
"""Default limit on the length of a report. The envelope around a report takes twice as much anyway."""

TIE = 1.02
"""Variances within two per cent count as equal. Then the smaller report wins."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mechanism for the domain, and the reason against it (empty for the chosen one)."""

    name: str
    mechanism: AnyMechanism | None
    """None if it needs something that only a person can give."""
    variance: float | None
    report_bytes: int | None
    against: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen mechanism and all candidates, best first."""

    mechanism: AnyMechanism
    limit: int | None
    candidates: tuple[Candidate, ...]
    optimum: float | None
    """The least variance that any mechanism can have, or for a mean the least known. None if there is no figure."""

    @property
    def variance(self) -> float:
        """The figure that was compared; see `Mechanism.typical_variance`."""
        return self.mechanism.typical_variance()

    @property
    def why(self) -> str:
        """The reasons in a few sentences."""
        fits = "any length" if self.limit is None else f"at most {_bytes(self.limit)}"
        said = [f"{self.mechanism.name}: n x variance {self.variance:.4g}{self._beside_the_optimum()}"]
        said[0] += f", {_bytes(self.mechanism.report_bytes)} a report."
        others = [one for one in self.candidates if one.against]
        if others:
            said.append(f"The rule: lowest variance for reports of {fits}; within {TIE - 1:.0%}, the smaller report.")
            said += [f"{_figures(one)}: {one.against}." for one in others]
        else:
            said.append("Nothing else fits these values.")
        return " ".join(said)

    def _beside_the_optimum(self) -> str:
        if self.optimum is None:
            return ""
        least = "least possible" if self.mechanism.domain.is_optimum_proven else "least known"
        return f" ({self.variance / self.optimum:.2f} of the {least})"


def select(domain: Domain, epsilon: object, report_bytes: int | None = REPORT_BYTES) -> Choice:
    """The mechanism with the lowest variance under the report limit, with reasons. Of near ties, the smaller report.

    A mechanism that costs the server too much, or needs something that only a person can give, is never selected. A
    codebook can still name it.
    """
    exact = exact_epsilon(epsilon)
    if report_bytes is not None and (isinstance(report_bytes, bool) or not isinstance(report_bytes, int)):
        raise InvalidParameter(f"report_bytes must be a whole number or None, got {report_bytes!r}")
    fitting = {name: cls for name, cls in registered().items() if cls.fits(domain)}
    made = [cls.calibrate(exact, domain) for cls in fitting.values() if not cls.needs_options]
    if not made:
        raise InvalidParameter(f"no mechanism fits {domain}")
    free = [one for one in made if not one.reserved]
    small = [one for one in free if report_bytes is None or one.report_bytes <= report_bytes]
    if not small:
        _refuse_all(domain, free, report_bytes)
    best = min(one.typical_variance() for one in small)
    chosen = min((one for one in small if one.typical_variance() <= TIE * best), key=_merit)
    candidates = [_candidate(one, chosen, report_bytes) for one in made]
    candidates.sort(key=lambda one: (one.variance or 0.0, one.name != chosen.name))
    by_hand = [
        Candidate(name, None, None, None, f"needs {cls.needs_options}, which only you can give")
        for name, cls in fitting.items()
        if cls.needs_options
    ]
    return Choice(chosen, report_bytes, (*candidates, *by_hand), optimum(domain, float(exact)))


def choose(domain: Domain, epsilon: object, report_bytes: int | None = REPORT_BYTES) -> AnyMechanism:
    """The mechanism that `select` chooses."""
    return select(domain, epsilon, report_bytes).mechanism


def explain(mechanism: AnyMechanism) -> str:
    """Why this mechanism is the default for its domain, or what the default would be instead."""
    default = select(mechanism.domain, mechanism.epsilon)
    if default.mechanism == mechanism:
        return default.why
    instead, ratio = default.mechanism, mechanism.typical_variance() / default.variance
    return (
        f"{mechanism.name}: set by name, or by a limit on the report. The default would be {instead.name}: "
        f"{_bytes(instead.report_bytes)} a report instead of {_bytes(mechanism.report_bytes)}, and "
        f"{mechanism.name} has {ratio:.3g} times its variance."
    )


def _merit(one: AnyMechanism) -> tuple[int, float, bool]:
    """Sort key: smaller report, then less variance, then the one made for two values. Then registration order decides.

    Variances are rounded to nine digits, since mechanisms that are equal in theory differ in the last digits.
    """
    return one.report_bytes, float(f"{one.typical_variance():.9g}"), one.fits(Categories(3))


def _refuse_all(domain: Domain, made: list[AnyMechanism], limit: int | None) -> NoReturn:
    least = min(made, key=lambda one: one.report_bytes)
    remedy = f", or {domain.shorter}" if domain.shorter else ""
    raise InvalidParameter(
        f"no mechanism sends {domain.in_words} in {limit} bytes; {least.name} needs {least.report_bytes}",
        f"raise report_bytes to {least.report_bytes}{remedy}",
    )


def _candidate(one: AnyMechanism, chosen: AnyMechanism, limit: int | None) -> Candidate:
    variance, least = one.typical_variance(), chosen.typical_variance()
    more = variance / least
    if one is chosen:
        against = ""
    elif one.reserved:
        against = one.reserved
    elif limit is not None and one.report_bytes > limit:
        against = f"above the limit of {limit}"
    elif more < 1:
        against = f"{1 - more:.1%} less variance is not worth {one.report_bytes} bytes instead of {chosen.report_bytes}"
    elif more < TIE:
        against = "no better, and no smaller"
    else:
        against = f"{more:.3g} times the variance"
    return Candidate(one.name, one, variance, one.report_bytes, against)


def _figures(one: Candidate) -> str:
    if one.variance is None or one.report_bytes is None:
        return one.name
    return f"{one.name} ({one.variance:.4g}, {_bytes(one.report_bytes)})"


def _bytes(count: int) -> str:
    return f"{count:,} byte" + ("" if count == 1 else "s")
