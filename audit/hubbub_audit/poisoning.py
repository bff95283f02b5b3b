r"""Attack by fake reports: can devices that lie at will move an estimate by more than the published bound?

A fake may send any bytes that decode. Maximal gain (Cao, Jia and Gong, USENIX Security 2021, arXiv 1911.02046) takes
the report that adds most to the target's estimate. The shift is largest if it replaces the report that adds least.
Both are chosen from reports of honest devices with several values, and from payloads that no honest device would send.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.errors import MalformedReport
from hubbub_aggregator.intake.open_reports import tally_payloads
from hubbub_audit.findings import Attack, Finding
from hubbub_audit.targets import AnyMechanism, Subject, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["POWER", "poisoning"]

POWER = 0.9
"""The part of the bound that the fakes must reach: the bound is meant to be exact."""
_REPORTS, _FAKES = 1_000, 50
_OF_EACH_VALUE = 200
_ANY_BYTES = 2_000
_ROUND_OFF = 1e-9


def poisoning(subject: Subject) -> Attack:
    """Replace the worst reports by the best fakes, and see how far the estimate moves."""

    def run(_: float) -> list[Finding]:
        mechanism = subject.mechanism
        pool = _pool(subject)
        item, best, worst = _extremes(subject, pool)
        honest = [row.tobytes() for row in subject.payloads(mechanism.inputs()[0], _REPORTS - _FAKES)]
        before = _published(subject, honest + [worst] * _FAKES)
        after = _published(subject, honest + [best] * _FAKES)
        bound = subject.metric.values.influence(mechanism) * _FAKES / _REPORTS  # as the API states it
        observed = float(np.abs(after - before).max())
        beaten = observed > bound * (1 + _ROUND_OFF)
        what = f"of value {item}" if len(before) > 1 else "of the mean"
        return [
            Finding(
                "poisoning",
                subject.label,
                "maximal-gain fakes",
                f"{_FAKES} fakes of {_REPORTS:,} move no estimate by more than {bound:.4g}",
                bound,
                observed,
                "beaten" if beaten else "holds" if observed >= POWER * bound else "weak",
                f"reaches {observed / bound:.0%} of the bound",
                trials=len(pool),
                detail=f"estimate {what}, {len(pool)} payloads tried",
            )
        ]

    return Attack("poisoning", subject.label, 0, run)


def _extremes(subject: Subject, pool: list[bytes]) -> tuple[int, bytes, bytes]:
    """The value that single reports move farthest, and the reports that add most and least to it.

    Reports are tried one by one: all estimates of a long list at once would not fit into memory.
    """
    most = np.full(_published(subject, pool[:1]).shape, -np.inf)
    least, best, worst = -most, np.zeros(most.shape, np.intp), np.zeros(most.shape, np.intp)
    for place, payload in enumerate(pool):
        values = _published(subject, [payload])
        more, less = values > most, values < least
        most[more], best[more], least[less], worst[less] = values[more], place, values[less], place
    item = int((most - least).argmax())
    return item, pool[best[item]], pool[worst[item]]


def _published(subject: Subject, payloads: list[bytes]) -> NDArray[np.float64]:
    """The values of the result as a query shows them, which may differ from the estimates of the mechanism."""
    return subject.metric.estimate(_tally(subject.mechanism, payloads)).values


def _pool(subject: Subject) -> list[bytes]:
    """Distinct payloads that decode."""
    mechanism, size = subject.mechanism, subject.mechanism.report_bytes
    honest = [
        row.tobytes()
        for value in spread(list(mechanism.inputs()), 8)
        for row in subject.payloads(value, _OF_EACH_VALUE)
    ]
    made_up = [bytes(size), b"\xff" * size, *_single_bytes(size), *(os.urandom(size) for _ in range(_ANY_BYTES))]
    made_up += [_one_bit_changed(payload, at) for payload in honest[:16] for at in range(min(8 * size, 256))]
    made_up += [_as_large_as_decodes(mechanism, size)]
    return sorted(set(honest) | {payload for payload in made_up if _decodes(mechanism, payload)})


def _single_bytes(size: int) -> Iterable[bytes]:
    return (bytes(size - 1) + bytes([last]) for last in range(256))


def _one_bit_changed(payload: bytes, at: int) -> bytes:
    changed = bytearray(payload)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def _as_large_as_decodes(mechanism: AnyMechanism, size: int) -> bytes:
    """The largest number that decodes, by bisection: the extreme of a report that is a number."""
    low, high = 0, 256**size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _decodes(mechanism, middle.to_bytes(size)):
            low = middle
        else:
            high = middle - 1
    return low.to_bytes(size)


def _decodes(mechanism: AnyMechanism, payload: bytes) -> bool:
    try:
        mechanism.decode(payload)
    except MalformedReport:
        return False
    return True


def _tally(mechanism: AnyMechanism, payloads: list[bytes]) -> Any:
    """As the aggregator counts them."""
    return mechanism.tally_from_bytes(tally_payloads((mechanism, b"".join(payloads))))
