r"""Attacks on one device in many metrics: tracing it through all of them, and isolating it by differences of answers.

*Tracing.* A device has one report in one batch of every metric. Nothing links these reports, but an attacker who knows
which values the device may hold can combine the evidence of all batches: the likelihood ratios multiply. What they
prove together must stay below what the ledger composes for that device and period.

*Differencing.* An analyst asks for one period, then for two, and subtracts. What remains is the release of the other
period, which contains the device. It must prove no more than that release is certified for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.accounting import compose, guarantee
from hubbub_audit.batch_likelihood_ratio import DELTA, batch_size, batches, shuffle_finding
from hubbub_audit.distinguishing_events import best_event, by_score, halves, lost
from hubbub_audit.findings import Attack, Finding, judged
from hubbub_audit.targets import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["differencing", "tracing"]

_POWER = 0.1
"""The part of the composed epsilon that an attack must reach: no single threshold is best for a mixture of laws."""


def tracing(subjects: Sequence[Subject], trials: int) -> Attack:
    """Tell which of two sets of values a device holds, by the batches of all its metrics of one period."""

    def run(alpha: float) -> list[Finding]:
        scores = [np.zeros(trials), np.zeros(trials)]
        sizes = [batch_size(subject) for subject in subjects]
        for subject, size in zip(subjects, sizes, strict=True):
            pair = subject.worst_pair()
            for side, held in enumerate(pair):
                scores[side] += batches(subject, held, pair[1], trials, size, pair)
        claimed = compose([(one.mechanism, size, 1) for one, size in zip(subjects, sizes, strict=True)], DELTA)
        observed = max(_told(scores[way], scores[1 - way], alpha) for way in (0, 1))
        names = ", ".join(subject.mechanism.name for subject in subjects)
        return [
            Finding(
                "shuffle",
                f"one device, {len(subjects)} metrics",
                "traced through all of its metrics",
                f"at delta {DELTA:g} all batches of a period together lose at most epsilon {claimed.epsilon:.3g} "
                f"(alone: {claimed.local_epsilon:.3g})",
                claimed.epsilon,
                observed,
                judged(observed, claimed.epsilon, _POWER),
                f"proves {observed / claimed.epsilon:.0%} of the claim",
                trials=2 * trials,
                tests=2,
                detail=f"{names}; batches of {min(sizes)} to {max(sizes)} reports",
            )
        ]

    return Attack("shuffle", f"one device, {len(subjects)} metrics", 2, run)


def differencing(subject: Subject, trials: int) -> Attack:
    """Isolate a release by subtracting published estimates, and tell two values of one device apart by the rest."""

    def run(alpha: float) -> list[Finding]:
        size, pair = batch_size(subject), subject.worst_pair()
        scores = [_left_over(subject, held, pair, size, trials) for held in pair]
        claimed = guarantee(subject.mechanism, size, DELTA).epsilon
        observed = max(_told(scores[way], scores[1 - way], alpha) for way in (0, 1))
        what = f"{size} reports per period, two periods minus one"
        return [shuffle_finding(subject, "published estimates, subtracted", claimed, observed, trials, 2, what)]

    return Attack("shuffle", subject.label, 2, run)


def _told(first: NDArray[np.float64], second: NDArray[np.float64], alpha: float) -> float:
    (choose, test), (choose_other, test_other) = halves(first), halves(second)
    return lost(best_event(choose, choose_other, [by_score], DELTA), test, test_other, alpha, DELTA)


def _left_over(subject: Subject, held: Any, pair: tuple[Any, Any], size: int, trials: int) -> NDArray[np.float64]:
    """For each pair of periods, how far the second's estimate, found by subtraction, leans to the first value."""
    mechanism = subject.mechanism
    earlier = _reports(subject, pair[1], trials * size)
    others, mine = _reports(subject, pair[1], trials * (size - 1)), _reports(subject, held, trials)
    leaning = np.zeros(trials)
    for trial in range(trials):
        before = mechanism.tally(earlier[trial * size : (trial + 1) * size])
        after = mechanism.tally([mine[trial], *others[trial * (size - 1) : (trial + 1) * (size - 1)]])
        one, both = mechanism.estimate(before).values, mechanism.estimate(before + after).values
        leaning[trial] = _lean(2 * both - one, pair)  # equal periods: the sum is twice the mean
    return leaning


def _lean(estimate: NDArray[np.float64], pair: tuple[Any, Any]) -> float:
    if len(estimate) == 1:
        return float(estimate[0]) * (1 if pair[0] > pair[1] else -1)
    return float(estimate[pair[0]] - estimate[pair[1]])


def _reports(subject: Subject, held: Any, count: int) -> list[Any]:
    width = subject.mechanism.report_bytes
    raw = subject.payloads(held, count).tobytes()
    return [subject.mechanism.decode(raw[at : at + width]) for at in range(0, len(raw), width)]
