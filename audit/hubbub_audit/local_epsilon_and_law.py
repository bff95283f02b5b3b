r"""Attack on single reports: how surely can a receiver tell two inputs apart, and do reports follow the declared law?

A local epsilon promises P[E | x] <= e^eps P[E | x'] for every set E of reports. For the worst pair of inputs, two sets
are counted on reports made by the SDK's own draw: the best set by the declared likelihood (Neyman and Pearson), and the
best set found in the reports themselves. Clopper-Pearson limits turn the counts into an epsilon that is certainly lost.

Estimators, intervals and the shuffle accountant rest on the declared law. It is tested in two ways:

    E[L(R | x') / L(R | x)] = 1          for R drawn given x
    the mean estimate of devices that all hold x is x

Both are means of bounded numbers, tested by Bernstein's inequality. If a type publishes other values than those that
its mechanism estimates, the published values are tested, by McDiarmid's inequality and the published influence.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub_audit.confidence_bounds import bernstein, empirical_bernstein, mcdiarmid
from hubbub_audit.distinguishing_events import best_event, by_bits, by_cell, by_number, by_score, halves, lost
from hubbub_audit.findings import Attack, Finding, judged
from hubbub_audit.targets import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["POWER", "law", "local"]

POWER = 0.5
"""The part of the claim that an attack must reach. Otherwise it has shown nothing."""
_COARSE = 1.0
"""Part of its scale by which a wrong estimate must be visible: with 1, a 0 for a value that all devices hold is."""
_LEAST_LIKELIHOOD = 1e-300
_DATA_DRIVEN = [by_cell, by_number, by_bits]


def local(subject: Subject, trials: int) -> Attack:
    """Tell the worst pair of inputs apart by one report each, `trials` times."""

    def run(alpha: float) -> list[Finding]:
        pair = subject.worst_pair()
        drawn = [subject.payloads(value, trials) for value in pair]
        scores = [_scores(subject, payloads, pair) for payloads in drawn]
        by_likelihood = [_one_way(scores, way, alpha, declared=True) for way in (0, 1)]
        by_looking = [_one_way(drawn, way, alpha, declared=False) for way in (0, 1)]
        return [
            _finding(subject, pair, trials, "best set by the declared likelihood", by_likelihood, POWER),
            # Catches what the declaration leaves out. It is blind to hashed reports; the first attack is not.
            _finding(subject, pair, trials, "best set found in the reports", by_looking, 0.0),
        ]

    return Attack("local", subject.label, 4, run)


def _one_way(samples: list[NDArray[Any]], way: int, alpha: float, *, declared: bool) -> tuple[float, str]:
    """The epsilon proven in one direction, and the event that proves it."""
    (choose, test), (choose_other, test_other) = halves(samples[way]), halves(samples[1 - way])
    families = [by_score] if declared else _DATA_DRIVEN
    event = best_event(choose, choose_other, families)
    return lost(event, test, test_other, alpha), event.what if event else "none"


def _scores(subject: Subject, payloads: NDArray[np.uint8], pair: tuple[Any, Any]) -> NDArray[np.float64]:
    chances = np.maximum(subject.likelihoods(payloads, pair), _LEAST_LIKELIHOOD)
    return np.asarray(np.log(chances[:, 0] / chances[:, 1]))


def _finding(
    subject: Subject, pair: tuple[Any, Any], trials: int, attack: str, found: list[tuple[float, str]], least: float
) -> Finding:
    observed, event = max(found)
    claimed = subject.epsilon
    return Finding(
        "local",
        subject.label,
        attack,
        f"one report loses at most epsilon {claimed:g}",
        claimed,
        observed,
        judged(observed, claimed, least),
        f"proves {observed / claimed:.0%} of the claim",
        trials=2 * trials,
        tests=2,
        detail=f"inputs {_shown(pair[0])} and {_shown(pair[1])}; {event}",
    )


def _shown(value: Any) -> str:
    return f"{float(value):g}"


# -- the declared law --------------------------------------------------------------------------------


def law(subject: Subject, trials: int) -> Attack:
    """Test the reports against the law that the mechanism declares."""
    probes = subject.probes()
    items = len(subject.metric.values.labels())

    def run(alpha: float) -> list[Finding]:
        off: list[tuple[float, str]] = []
        see: list[float] = []
        for value, other in zip(probes, probes[1:] + probes[:1], strict=True):
            payloads = subject.payloads(value, trials)
            off.append(_identity(subject, payloads, value, other, alpha))
            for found, visible in _bias(subject, payloads, value, alpha / items):
                off.append(found)
                see.append(visible)
        worst, what = max(off)
        visible = 2 * max(see)
        return [
            Finding(
                "local",
                subject.label,
                "reports against the declared law",
                "reports follow the declared law; 1 is the most that chance explains",
                1.0,
                worst,
                "beaten" if worst > 1 else "holds" if visible <= _COARSE else "weak",
                f"would see an estimate off by {visible:.2g} of its scale",
                trials=trials * len(probes),
                tests=2 * len(probes),
                detail=what,
            )
        ]

    return Attack("local", subject.label, 2 * len(probes), run)


def _identity(subject: Subject, payloads: NDArray[np.uint8], value: Any, other: Any, alpha: float) -> tuple[float, str]:
    """Distance of E[L(R | other) / L(R | value)] from one, as a multiple of what chance explains."""
    chances = subject.likelihoods(payloads, [value, other])
    if (chances[:, 0] <= 0).any():
        return math.inf, f"reports of {_shown(value)} that the declared law excludes"
    ratio = chances[:, 1] / chances[:, 0]
    limit = math.exp(subject.epsilon)  # ratios lie between its inverse and itself; if not, the claim is already void
    if ratio.max() > limit * (1 + 1e-9) or ratio.min() * limit < 1 - 1e-9:
        return math.inf, f"declared likelihood ratio {ratio.max():.6g} above e^epsilon"
    allowed = empirical_bernstein(ratio, limit - 1 / limit, alpha)
    return abs(float(ratio.mean()) - 1) / allowed, f"likelihood identity at {_shown(value)}"


def _bias(
    subject: Subject, payloads: NDArray[np.uint8], value: Any, alpha: float
) -> list[tuple[tuple[float, str], float]]:
    """Error of the mean estimate of devices that all hold `value`, as a multiple of what chance explains; and the
    latter in the estimate's own scale. One pair for each value of the result."""
    mechanism, values, count = subject.mechanism, subject.metric.values, len(payloads)
    found = subject.metric.estimate(mechanism.tally(mechanism.decode_many(payloads)[0])).values
    truth = values.truth(mechanism.domain.inputs([value]), [1])
    scale, influence = values.span, values.influence(mechanism)
    if values.publishes_as_estimated():
        declared = np.broadcast_to(mechanism.variance(truth), truth.shape)
        limits = [bernstein(float(variance), influence, count, alpha) for variance in declared]
    else:
        limits = [mcdiarmid(influence, count, alpha)] * len(truth)
    results = []
    for item, allowed in enumerate(limits):
        off = abs(float(found[item] - truth[item])) / allowed
        results.append(((off, f"estimate of value {item} where all hold {_shown(value)}"), allowed / scale))
    return results
