"""Attacks on one device over time: what its reports of many periods reveal together, and whether resent ones differ.

A device that holds one value reports it in every period, with fresh noise; anyone who links its reports can average the
noise out. The ledger accounts for that: after T periods it says T eps, and no test on T linked reports may prove more.
The strongest test is the sum of log likelihood ratios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub_audit.audited_client import a_device, lost_answer, refused
from hubbub_audit.distinguishing_events import best_event, by_score, halves, lost
from hubbub_audit.findings import Attack, Finding, judged
from hubbub_audit.local_epsilon_and_law import POWER
from hubbub_audit.targets import Subject, codebook_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PERIODS", "averaging", "retries"]

PERIODS = 3
_A_DAY = 24
_ALIKE = 16
"""Identical metrics of one device, to make histories faster."""


def averaging(subject: Subject, trials: int, periods: int = PERIODS) -> Attack:
    """Tell two devices apart that each hold one value for `periods` periods, by all their reports together."""

    def run(alpha: float) -> list[Finding]:
        pair = subject.worst_pair()
        spent: list[float] = []
        scores = []
        for value in pair:
            histories, each = _histories(subject, value, trials, periods)
            chances = np.maximum(subject.likelihoods(histories.reshape(-1, histories.shape[-1]), pair), 1e-300)
            scores.append(np.log(chances[:, 0] / chances[:, 1]).reshape(-1, periods).sum(axis=1))
            spent.append(each)
        claimed = max(spent) * periods
        (choose, test), (choose_other, test_other) = map(halves, scores)
        observed = max(
            lost(best_event(choose, choose_other, [by_score]), test, test_other, alpha),
            lost(best_event(choose_other, choose, [by_score]), test_other, test, alpha),
        )
        return [
            Finding(
                "time",
                subject.label,
                f"all reports of {periods} periods",
                f"the device's ledger says epsilon {claimed:g} after {periods} periods",
                claimed,
                observed,
                judged(observed, claimed, POWER),
                f"proves {observed / claimed:.0%} of the claim",
                trials=2 * len(choose) + 2 * len(test),
                tests=2,
                detail=f"real clients, {float(pair[0]):g} against {float(pair[1]):g}",
            )
        ]

    return Attack("time", subject.label, 2, run)


def _histories(subject: Subject, held: Any, trials: int, periods: int) -> tuple[NDArray[np.uint8], float]:
    """Payloads of `trials` histories of a device that always holds one value, and its ledger's epsilon per period."""
    codebook = codebook_of([subject] * _ALIKE)
    rounds = -(-trials // _ALIKE) * periods
    with a_device(codebook) as device:
        for number in range(rounds):
            for metric in codebook.metrics:
                device.record(metric.name, subject.value_of(held))
            device.clock.next_period()
            if number % _A_DAY == _A_DAY - 1 or number == rounds - 1:
                device.client.flush(0, now=True)
        account = device.client.ledger()
        opened = [device.open(report) for report in device.transport.reports]
    found: dict[bytes, list[tuple[int, bytes]]] = {}
    for header, plaintext in opened:
        found.setdefault(header.metric, []).append((plaintext.period, plaintext.payload))
    rows = [payload for metric in found.values() for _, payload in sorted(metric)]
    width = subject.mechanism.report_bytes
    histories = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, periods, width)[:trials]
    return histories, account.spent / (rounds * _ALIKE)


def retries(subject: Subject, periods: int) -> Attack:
    """Lose answers, break connections, restart the app, revoke the key: all copies of a report must be the same."""

    def run(_: float) -> list[Finding]:
        with a_device(codebook_of([subject])) as device:
            held = subject.value_of(subject.worst_pair()[0])
            for number in range(periods):
                device.record("m000", held)
                for _attempt in range(3):
                    device.transport.script.append(lost_answer(device))
                    device.client.flush(0, now=True)
                if number % 3 == 1:
                    device.restart()
                if number % 3 == 2:
                    device.revoke()
                    device.transport.script.append(refused("revoked-key"))
                device.transport.script.append(lost_answer(device))
                device.client.flush(0, now=True)
                device.client.flush(0, now=True)
                device.clock.next_period()
            spent = device.client.ledger().spent
            copies = [device.open(report) for report in device.uploads()]
        said: dict[int, set[tuple[bytes, bytes]]] = {}
        for _header, plaintext in copies:
            said.setdefault(plaintext.period, set()).add((plaintext.nonce, plaintext.payload))
        most = max(len(different) for different in said.values())
        owed = subject.epsilon * len(said)
        honest = most == 1 and abs(spent - owed) < 1e-9 and len(said) == periods
        return [
            Finding(
                "time",
                subject.label,
                "lost answers, restarts, revoked keys",
                "a report is randomized once, however often it is sent",
                1.0,
                float(most),
                "holds" if honest else "beaten",
                f"{len(copies)} uploads of {len(said)} reports; any difference shows",
                trials=len(copies),
                detail=f"most different reports of one period: {most}; ledger: epsilon {spent:g} of {owed:g}",
            )
        ]

    return Attack("time", subject.label, 0, run)
