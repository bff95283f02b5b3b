r"""Attack on shuffled batches: how surely can a receiver tell which of two values one device held?

The value of one device is replaced; all other devices hold the value that hides it least. For a batch in random order
the likelihood ratio is the strongest statistic: with the others at z,

    P[batch | x] / P[batch | x'] = sum_i L(y_i | x) / L(y_i | z)  /  sum_i L(y_i | x') / L(y_i | z)

A threshold on it, chosen on separate batches, is counted. What it proves at delta = 1/100 is compared with the epsilon
that the accountant certifies at the same delta. At a delta that matters in practice nothing could be observed: an event
of chance 1e-8 does not happen in an audit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.accounting import compose, guarantee
from hubbub_audit.distinguishing_events import Event, best_event, by_score, lost
from hubbub_audit.findings import Attack, Finding, Kind, judged
from hubbub_audit.targets import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DELTA", "POWER", "crowd", "log_ratios", "shuffle_finding"]

DELTA = 0.01
"""Large enough that events of this chance are seen in a few thousand batches."""
POWER = 0.15
"""The part of the certified epsilon that an attack must reach. Batches are costly, and the best threshold is rare."""
SIZES = (2, 4, 8, 16, 32)
_AMPLIFIED = 0.9
_TRAINING = 0.3


def crowd(subject: Subject, trials: int, periods: int = 1) -> Attack:
    """Tell the worst pair apart by whole batches, with every report made by the SDK's draw and put in random order.

    With `periods` above one, the same device and crowd are watched for that many periods: the likelihood ratios of the
    batches multiply, and the claim is the composed guarantee.
    """

    def run(alpha: float) -> list[Finding]:
        size = batch_size(subject)
        pair = subject.worst_pair()
        others = _others(subject, pair)
        few = max(50, int(trials * _TRAINING))
        best: tuple[float, Any, int, Event | None] = (-1.0, others[0], 0, None)
        for hiding in others:
            sides = [batches(subject, value, hiding, few, size, pair, periods) for value in pair]
            for way in (0, 1):
                event = best_event(sides[way], sides[1 - way], [by_score], DELTA)
                proven = lost(event, sides[way], sides[1 - way], 1e-3, DELTA)
                if proven > best[0]:
                    best = proven, hiding, way, event
        _, hiding, way, event = best
        tested = [batches(subject, value, hiding, trials, size, pair, periods) for value in pair]
        observed = lost(event, tested[way], tested[1 - way], alpha, DELTA)
        what = f"{size} reports, others hold {float(hiding):g}"
        if periods == 1:
            claimed = guarantee(subject.mechanism, size, DELTA).epsilon
            return [shuffle_finding(subject, "whole batches, likelihood ratio", claimed, observed, trials, 1, what)]
        claimed = compose([(subject.mechanism, size, periods)], DELTA).epsilon
        attack = f"{periods} batches of one device together"
        return [shuffle_finding(subject, attack, claimed, observed, trials, 1, what, kind="time")]

    return Attack("shuffle" if periods == 1 else "time", subject.label, 1, run)


def shuffle_finding(
    subject: Subject,
    attack: str,
    claimed: float,
    observed: float,
    batches_each: int,
    tests: int,
    detail: str,
    kind: Kind = "shuffle",
) -> Finding:
    return Finding(
        kind,
        subject.label,
        attack,
        f"at delta {DELTA:g} the batch loses at most epsilon {claimed:.3g} (alone: {subject.epsilon:g})",
        claimed,
        observed,
        judged(observed, claimed, POWER),
        f"proves {observed / claimed:.0%} of the claim",
        trials=2 * batches_each,
        tests=tests,
        detail=detail,
    )


def batch_size(subject: Subject) -> int:
    """The smallest of SIZES at which shuffling visibly helps, so that there is a claim to attack."""
    for size in SIZES[:-1]:
        if guarantee(subject.mechanism, size, DELTA).epsilon <= _AMPLIFIED * subject.epsilon:
            return size
    return SIZES[-1]


def _others(subject: Subject, pair: tuple[Any, Any]) -> list[Any]:
    """Values of the crowd that may hide the device least: either of the pair, or a third one."""
    third = [value for value in subject.mechanism.inputs() if value not in pair]
    return [*pair, *third[len(third) // 2 :][:1]]


def batches(
    subject: Subject, held: Any, hiding: Any, count: int, size: int, pair: tuple[Any, Any], periods: int = 1
) -> NDArray[np.float64]:
    """Log likelihood ratios of `count` batches in which one device holds `held`, summed over the periods."""
    mine = subject.payloads(held, count * periods)
    crowd_ = subject.payloads(hiding, count * periods * (size - 1))
    together = np.concatenate([mine[:, None, :], crowd_.reshape(count * periods, size - 1, -1)], axis=1)
    ratios = log_ratios(subject, together, pair, hiding)
    return np.asarray(ratios.reshape(count, periods).sum(axis=1))


def log_ratios(
    subject: Subject, payloads: NDArray[np.uint8], pair: tuple[Any, Any], hiding: Any
) -> NDArray[np.float64]:
    """ln P[batch | first] / P[batch | second], others at `hiding`; the axes are batch, report, byte."""
    count, size, width = payloads.shape
    chances = np.maximum(subject.likelihoods(payloads.reshape(-1, width), [*pair, hiding]), 1e-300)
    weights = (chances[:, :2] / chances[:, 2:]).reshape(count, size, 2).sum(axis=1)
    return np.asarray(np.log(weights[:, 0] / weights[:, 1]))
