"""Attacks on side channels of a report: its length, when it is sent, and how long `record` takes.

Times are compared between two values that are recorded side by side, in an order decided by a coin. If the value makes
no difference, the coin alone decides which of the two takes longer, whatever else the machine does. The number of wins
is then exactly binomial, and a noisy machine costs power but raises no alarm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hubbub.randomness import SystemRandomness
from hubbub_audit.audited_client import a_device
from hubbub_audit.batch_likelihood_ratio import POWER
from hubbub_audit.confidence_bounds import share_below
from hubbub_audit.distinguishing_events import best_event, by_bits, by_cell, by_number, by_score, halves, lost
from hubbub_audit.findings import Attack, Finding, judged
from hubbub_audit.targets import Subject, codebook_of, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["lengths", "recording", "sending"]

_ALIKE = 40
"""Identical metrics of one device: this many values are recorded side by side."""
_STEPS = 16
"""Number of times that the network is checked while reports are sent."""
MARGIN = 0.1
"""One of two values may be slower in half of the pairs plus this part: about what the bytes of a longer name cost.
Only the app itself can time a `record`; reports leave after a random delay."""

_COARSE = 0.3
"""Enough sends must be watched to see this part of the reports leave earlier or later for one value."""
_SLOW = 0.5
"""Enough recordings must be timed to see a difference of this part of the usual time."""


def lengths(subjects: Sequence[Subject]) -> Attack:
    """Record every value of every metric, and compare the lengths of the reports that leave the device."""

    def run(_: float) -> list[Finding]:
        codebook = codebook_of(subjects)
        names = [metric.name for metric in codebook.metrics]
        seen: dict[bytes, set[int]] = {metric.id: set() for metric in codebook.metrics}
        count = 0
        with a_device(codebook) as device:
            values = [_all_values(subject) for subject in subjects]
            for turn in range(max(map(len, values))):
                for name, some in zip(names, values, strict=True):
                    device.record(name, some[turn % len(some)])
                device.client.flush(0, now=True)
                device.clock.next_period()
            for report in device.uploads():
                seen[device.open(report)[0].metric].add(len(report))
                count += 1
        most = max(map(len, seen.values()))
        return [
            Finding(
                "side channel",
                f"{len(subjects)} metrics",
                "length of what is sent",
                "all reports of a metric have one length, whatever the value",
                1.0,
                float(most),
                "holds" if most == 1 else "beaten",
                f"every value of {len(subjects)} metrics, at most {max(map(len, values))}; any difference shows",
                trials=count,
                detail="different lengths of one metric, at most",
            )
        ]

    return Attack("side channel", "lengths", 0, run)


def _all_values(subject: Subject) -> list[object]:
    inputs = [*spread(list(subject.mechanism.inputs()), 64), *subject.mechanism.domain.between()]
    return [*map(subject.value_of, inputs), *subject.metric.values.unusual()]


class _Seen(NamedTuple):
    """For each recorded value: which of the two it was, its report, and a time."""

    kinds: NDArray[np.int64]
    payloads: NDArray[np.uint8]
    times: NDArray[np.float64]
    partners: NDArray[np.float64]
    """The time of the other value of the same pair."""


# -- when it is sent ---------------------------------------------------------------------------------


def sending(subject: Subject, trials: int) -> Attack:
    """Watch when the reports of two values leave, and which report leaves when."""

    def run(alpha: float) -> list[Finding]:
        pair = subject.worst_pair()
        seen, late = _watched(subject, pair, trials)
        alone = [seen.times[seen.kinds == kind] for kind in (0, 1)]
        observed = max(_told(alone[way], alone[1 - way], alpha) for way in (0, 1))
        joint = [
            np.hstack([seen.times[seen.kinds == kind, None].astype(np.uint8), seen.payloads[seen.kinds == kind]])
            for kind in (0, 1)
        ]
        together = max(_told_jointly(joint[way], joint[1 - way], alpha) for way in (0, 1))
        each = int(0.75 * min(map(len, alone)))
        visible = 2 * 6.5 * math.sqrt(0.25 / each)
        return [
            Finding(
                "side channel",
                subject.label,
                "time of sending",
                "when a report is sent tells nothing about its value",
                0.0,
                observed,
                "beaten" if observed > 0 or late else "holds" if visible <= _COARSE else "weak",
                f"would see {visible:.0%} of reports sent earlier or later for one value",
                trials=len(seen.times),
                tests=2,
                detail=f"{late} sent later than half the grace; seen in {_STEPS} steps",
            ),
            Finding(
                "side channel",
                subject.label,
                "time of sending with the report",
                f"time and report together lose at most epsilon {subject.epsilon:g}",
                subject.epsilon,
                together,
                judged(together, subject.epsilon, POWER),
                f"proves {together / subject.epsilon:.0%} of the claim",
                trials=len(seen.times),
                tests=2,
            ),
        ]

    return Attack("side channel", subject.label, 4, run)


def _told(first: NDArray[Any], second: NDArray[Any], alpha: float) -> float:
    (choose, test), (choose_other, test_other) = halves(first), halves(second)
    return lost(best_event(choose, choose_other, [by_score]), test, test_other, alpha)


def _told_jointly(first: NDArray[Any], second: NDArray[Any], alpha: float) -> float:
    (choose, test), (choose_other, test_other) = halves(first), halves(second)
    event = best_event(choose, choose_other, [by_cell, by_number, by_bits])
    return lost(event, test, test_other, alpha)


def _watched(subject: Subject, pair: tuple[Any, Any], trials: int) -> tuple[_Seen, int]:
    """Values recorded at the same moment, and the clock step at which each report was uploaded."""
    grace = 2 * 3_600
    codebook = codebook_of([subject] * _ALIKE, grace=grace)
    rng = SystemRandomness()
    kinds: list[int] = []
    payloads: list[bytes] = []
    steps: list[int] = []
    late = 0
    with a_device(codebook) as device:
        while len(kinds) < 2 * trials:
            held = [int(rng.coin(1, 2)) for _ in codebook.metrics]
            of = {metric.id: kind for metric, kind in zip(codebook.metrics, held, strict=True)}
            period = device.clock.period.index
            device.clock.advance(1)
            for metric, kind in zip(codebook.metrics, held, strict=True):
                device.record(metric.name, subject.value_of(pair[kind]))
            device.client.flush(0)
            for step in range(1, _STEPS + 2):  # one step more than needed, to catch late reports
                device.clock.advance(grace / 2 / _STEPS)
                device.client.flush(0)
                for report in device.transport.reports:
                    header, plaintext = device.open(report)
                    if plaintext.period == period:
                        kinds.append(of[header.metric])
                        payloads.append(plaintext.payload)
                        steps.append(min(step, _STEPS))
                        late += step > _STEPS
                device.transport.reports.clear()
                device.transport.requests.clear()
            device.clock.next_period(2)
    rows = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(kinds), -1)
    times = np.array(steps, np.float64)
    return _Seen(np.array(kinds), rows, times, times), late


# -- how long it takes to record ---------------------------------------------------------------------


def recording(subject: Subject, trials: int) -> Attack:
    """Time `record` for two values side by side."""

    def run(alpha: float) -> list[Finding]:
        pair = subject.worst_pair()
        seen = _timed(subject, pair, trials)
        ours = seen.kinds == 0
        wins = int((seen.times[ours] > seen.partners[ours]).sum())
        losses = int((seen.times[ours] < seen.partners[ours]).sum())
        pairs = wins + losses
        observed = max(float(share_below(count, pairs, alpha)) - 0.5 for count in (wins, losses))
        apart = np.sort(np.abs(seen.times[ours] - seen.partners[ours]))
        need = MARGIN + 6.5 * math.sqrt(0.25 / max(pairs, 1))
        visible = float(apart[min(len(apart) - 1, int(2 * need * len(apart)))])
        usual = float(np.median(seen.times))
        joint = [np.hstack([_faster(seen, kind), seen.payloads[seen.kinds == kind]]) for kind in (0, 1)]
        together = max(_told_jointly(joint[way], joint[1 - way], alpha) for way in (0, 1))
        return [
            Finding(
                "side channel",
                subject.label,
                "time that record() takes",
                f"neither value is the slower one in more than {0.5 + MARGIN:.0%} of pairs",
                MARGIN,
                max(observed, 0.0),
                "beaten" if observed > MARGIN else "holds" if visible <= _SLOW * usual else "weak",
                f"would see about {visible:.2g} of {usual:.2g} microseconds",
                trials=pairs,
                tests=2,
                detail=f"slower in {wins} of {pairs} pairs",
            ),
            Finding(
                "side channel",
                subject.label,
                "record() time with the report",
                f"time and report together lose at most epsilon {subject.epsilon:g}",
                subject.epsilon,
                together,
                judged(together, subject.epsilon, POWER),
                f"proves {together / subject.epsilon:.0%} of the claim",
                trials=2 * pairs,
                tests=2,
            ),
        ]

    return Attack("side channel", subject.label, 4, run)


def _faster(seen: _Seen, kind: int) -> NDArray[np.uint8]:
    """Whether each value of this kind was recorded faster than its partner, as one more byte of the report."""
    mine = seen.kinds == kind
    return (seen.times[mine, None] < seen.partners[mine, None]).astype(np.uint8)


def _timed(
    subject: Subject, pair: tuple[Any, Any], trials: int, clock: Callable[[], int] = time.perf_counter_ns
) -> _Seen:
    codebook = codebook_of([subject] * _ALIKE)
    rng = SystemRandomness()
    kinds: list[int] = []
    times: list[float] = []
    partners: list[float] = []
    order: list[tuple[bytes, int]] = []
    with a_device(codebook) as device:
        while len(kinds) < 2 * trials:
            period = device.clock.period.index
            for left, right in zip(codebook.metrics[::2], codebook.metrics[1::2], strict=True):
                first = int(rng.coin(1, 2))
                took = []
                for metric, kind in ((left, first), (right, 1 - first)):
                    value, record = subject.value_of(pair[kind]), device.client.record
                    start = clock()
                    record(metric.name, value)
                    took.append((clock() - start) / 1_000)
                    order.append((metric.id, period))
                kinds += [first, 1 - first]
                times += took
                partners += reversed(took)
            device.client.flush(0, now=True)
            device.clock.next_period()
        said = {}
        for report in device.transport.reports:
            header, plaintext = device.open(report)
            said[header.metric, plaintext.period] = plaintext.payload
    rows = np.frombuffer(b"".join(said[key] for key in order), np.uint8).reshape(len(kinds), -1)
    return _Seen(np.array(kinds), rows, np.array(times), np.array(partners))
