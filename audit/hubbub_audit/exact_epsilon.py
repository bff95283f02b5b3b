"""Attack by enumeration of every coin: the exact law of small instances, and the exact epsilon that it loses.

Nothing is sampled, so there is no false alarm and no effect is too small: noise one part in 10^12 too low shows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hubbub.mechanisms._exact_arithmetic import exp_below, float_above, log_above
from hubbub_audit.findings import Attack, Finding, judged
from hubbub_audit.output_law import CannotEnumerate, Law, law_of
from hubbub_audit.targets import AnyMechanism, Subject, truth_of

__all__ = ["exact"]

_TIGHT = 0.5
"""The exact epsilon must be this part of the claim; less would mean needless noise."""
_TOLERANCE = 1e-9
_HAIR = Fraction(1, 10**30)
"""Relative tolerance: `exp` of the enumeration has forty digits."""


def exact(subject: Subject) -> Attack:
    """Enumerate all outcomes of the randomizer, for all inputs."""

    def run(_: float) -> list[Finding]:
        mechanism = subject.mechanism
        try:
            laws = {value: _law(mechanism, value) for value in mechanism.inputs()}
            between = {value: _law(mechanism, value) for value in subject.probes()}
        except CannotEnumerate as reason:
            return [_too_many(subject, str(reason))]
        ratio = _worst_ratio(list(laws.values()))
        lost = float("inf") if ratio is None else float_above(log_above(max(ratio, Fraction(1))))
        beaten = ratio is None or ratio > exp_below(mechanism.epsilon) * (1 + _HAIR)
        verdict = "beaten" if beaten else judged(lost, subject.epsilon, _TIGHT, slack=1e-12)
        count = len(set().union(*laws.values()))
        off, where = _off(mechanism, laws | between)
        shared: dict[str, Any] = {"trials": len(laws) * count, "detail": f"{len(laws)} inputs, {count} reports"}
        return [
            Finding(
                "exact",
                subject.label,
                "all outcomes of all coins",
                f"one report loses at most epsilon {subject.epsilon:g}",
                subject.epsilon,
                lost,
                verdict,
                "certain",
                **shared,
            ),
            Finding(
                "exact",
                subject.label,
                "law against its declaration",
                "likelihoods and unbiased estimates as declared, to 1e-9",
                _TOLERANCE,
                off,
                "beaten" if off > _TOLERANCE else "holds",
                "certain",
                **{**shared, "detail": where or shared["detail"]},
            ),
        ]

    return Attack("exact", subject.label, 0, run)


def _too_many(subject: Subject, reason: str) -> Finding:
    claim = f"one report loses at most epsilon {subject.epsilon:g}"
    return Finding("exact", subject.label, "all outcomes of all coins", claim, subject.epsilon, 0.0, "weak", reason)


def _law(mechanism: AnyMechanism, value: Any) -> Law[Any]:
    return law_of(lambda rng: mechanism.randomize(value, rng))


def _worst_ratio(laws: list[Law[Any]]) -> Fraction | None:
    """The largest P[y | x] / P[y | x']; None if it is infinite. Mass too rare to follow counts for the defence."""
    worst = Fraction(1)
    lost = max(law.lost for law in laws)
    for report in set().union(*laws):
        chances = [law.get(report, Fraction(0)) for law in laws]
        if (low := min(chances) + lost) == 0:
            return None
        worst = max(worst, max(chances) / low)
    return worst


def _off(mechanism: AnyMechanism, laws: dict[Any, Law[Any]]) -> tuple[float, str]:
    """The largest gap between the law and its declaration: a likelihood, or the mean of an estimate."""
    worst, where = 0.0, ""
    for value, law in laws.items():
        lost = float(law.lost)
        for report, chance in law.items():
            gap = abs(mechanism.likelihood(report, value) - float(chance)) - lost
            if gap > worst:
                worst, where = gap, f"likelihood of {report!r} given {float(value):g}"
        gap = _bias(mechanism, value, law)
        if gap > worst:
            worst, where = gap, f"mean of the estimate given {float(value):g}"
    return worst, where


def _bias(mechanism: AnyMechanism, value: Any, law: Law[Any]) -> float:
    """Distance of one report's mean contribution from the truth, as a part of its span."""
    truth = truth_of(mechanism, value)
    single = np.array([mechanism.estimate(mechanism.tally([report])).values for report in law])
    mean = np.array([float(chance) for chance in law.values()]) @ single
    span = float(np.abs(single).max()) + 1
    return float(np.abs(mean - truth).max()) / span - float(law.lost) * span
