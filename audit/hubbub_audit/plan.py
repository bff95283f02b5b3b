"""Plan of an audit: its attacks, the false-alarm rate of each test, and running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context

from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import mechanism, registered
from hubbub_audit.averaging_and_retries import averaging, retries
from hubbub_audit.batch_likelihood_ratio import crowd
from hubbub_audit.crowd_splitting import splitting
from hubbub_audit.exact_epsilon import exact
from hubbub_audit.findings import FAMILY, Attack, Finding
from hubbub_audit.junk_and_copies import junk
from hubbub_audit.local_epsilon_and_law import law, local
from hubbub_audit.log_canaries import canaries
from hubbub_audit.poisoning import poisoning
from hubbub_audit.shuffled_batches import shuffled
from hubbub_audit.side_channels import lengths, recording, sending
from hubbub_audit.targets import Subject, spread, subject_of, usual
from hubbub_audit.tracing_and_differencing import differencing, tracing
from hubbub_audit.twin_devices_attack import twins

__all__ = ["EPSILONS", "TRIALS", "Audit", "Plan", "attacks", "audit", "audit_in_processes"]

EPSILONS = (0.5, 1.0, 4.0)
TRIALS = 100_000
"""Reports per input. Everything that costs more than a report is done less often in proportion."""
_CROWD_EPSILON, _SHUFFLER_EPSILON, _DEVICE_EPSILON = 2.0, 3.0, 1.0
"""Epsilons at which shuffling helps visibly in batches small enough to be made by the thousand."""
_LONGEST_LAW = 1_000
"""Most possible reports of an example: enumerating more takes too long."""
_LONGEST_LIST = 256
"""Most values of a metric of which a device has forty copies: a bundle must hold them all."""
_TOGETHER = 4
_TRACED = 6
"""Metrics of one device whose batches are combined."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of an audit, and how sure they are."""

    findings: tuple[Finding, ...]
    tests: int
    alpha: float
    """False-alarm rate of each test."""

    @property
    def false_alarms(self) -> float:
        """Bound on the chance that any test raises an alarm although every claim holds (Bonferroni)."""
        return self.tests * self.alpha

    @property
    def beaten(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "beaten"]

    @property
    def weak(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "weak"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to audit: all registered mechanisms, those named, or a codebook's metrics. Other processes can load it."""

    names: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()
    trials: int = TRIALS
    codebook: bytes | None = None
    """Compiled."""

    def attacks(self) -> list[Attack]:
        codebook = None if self.codebook is None else Codebook.from_compiled(self.codebook)
        return attacks(self.names, self.epsilons, self.trials, codebook)


def audit_in_processes(plan: Plan, jobs: int, progress: Callable[[Attack], None] | None = None) -> Audit:
    """Run `audit` on the plan's attacks, several at a time; each process makes the plan for itself."""
    planned = plan.attacks()
    tests = sum(attack.tests for attack in planned)
    alpha = FAMILY / max(tests, 1)
    found: dict[int, list[Finding]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_run_one, plan, index, alpha): index for index in range(len(planned))}
        try:
            for done in as_completed(running):
                found[running[done]] = done.result()
                if progress is not None:
                    progress(planned[running[done]])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Audit(tuple(finding for index in sorted(found) for finding in found[index]), tests, alpha)


@lru_cache(maxsize=1)
def _made(plan: Plan) -> list[Attack]:
    return plan.attacks()


def _run_one(plan: Plan, index: int, alpha: float) -> list[Finding]:
    return _made(plan)[index].run(alpha)


def audit(
    planned: Sequence[Attack], progress: Callable[[Attack], None] | None = None, alpha: float | None = None
) -> Audit:
    """Run all attacks, one after the other. Each test gets an equal share of the false-alarm rate FAMILY.

    `alpha` sets the rate of each test instead.
    """
    tests = sum(attack.tests for attack in planned)
    alpha = FAMILY / max(tests, 1) if alpha is None else alpha
    findings: list[Finding] = []
    for attack in planned:
        findings += attack.run(alpha)
        if progress is not None:
            progress(attack)
    return Audit(tuple(findings), tests, alpha)


def attacks(
    names: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    trials: int = TRIALS,
    codebook: Codebook | None = None,
) -> list[Attack]:
    """The attacks of an audit of all registered mechanisms, of those named, or of a codebook's metrics."""
    if codebook is not None:
        subjects = [Subject(metric) for metric in codebook.metrics if metric.enabled]
        if not subjects:
            raise InvalidParameter("no metric of the codebook is enabled, so there is nothing to audit")
        crowds = devices = subjects
    else:
        chosen = [mechanism(name).name for name in names] or sorted(registered())
        subjects = [usual(name, epsilon) for name in chosen for epsilon in epsilons or EPSILONS]
        crowds = [usual(name, _CROWD_EPSILON) for name in chosen]
        devices = [usual(name, _DEVICE_EPSILON, size=2) for name in chosen]
    return [
        *_of_reports(subjects, trials),
        *_of_crowds(crowds, trials),
        # All metrics are alike to a shuffler: this one's batches reveal most.
        shuffled(usual("krr", _SHUFFLER_EPSILON), max(trials // 25, 40)),
        splitting(),
        junk(min(max(trials // 10_000, 2), 20)),
        *_of_devices(devices, trials),
    ]


def _of_reports(subjects: Sequence[Subject], trials: int) -> list[Attack]:
    planned: list[Attack] = []
    for subject in subjects:
        planned += [local(subject, trials), law(subject, trials // 2)]
        planned += [exact(example) for example in _small(subject)]
        planned += [poisoning(subject)]
    return planned


def _small(subject: Subject) -> list[Subject]:
    """Instances of the same code and epsilon that are small enough to enumerate."""
    examples = type(subject.mechanism).examples(float(subject.mechanism.epsilon))
    return [subject_of(example) for example in examples if len(example.outputs()) <= _LONGEST_LAW]


def _of_crowds(subjects: Sequence[Subject], trials: int) -> list[Attack]:
    return [
        *(crowd(subject, max(trials // 10, 100)) for subject in subjects),
        *(crowd(one, max(trials // 20, 100), _TOGETHER) for one in _one_of_each_kind(subjects)),
        *([tracing(spread(subjects, _TRACED), max(trials // 40, 100))] if len(subjects) > 1 else []),
        # All metrics are alike to a subtraction.
        differencing(usual("krr", _CROWD_EPSILON, size=2), max(trials // 8, 100)),
    ]


def _of_devices(subjects: Sequence[Subject], trials: int) -> list[Attack]:
    kinds = [_short(subject) for subject in _one_of_each_kind(subjects)]
    return [
        averaging(kinds[0], max(trials // 50, 64)),
        *(retries(subject, max(6, trials // 2_000)) for subject in kinds),
        lengths(subjects),
        *(sending(subject, max(trials // 50, 64)) for subject in kinds),
        *(recording(subject, max(trials // 25, 64)) for subject in kinds),
        canaries(),
        twins(max(trials // 1_000, 4)),
    ]


def _one_of_each_kind(subjects: Sequence[Subject]) -> list[Subject]:
    """The most telling subject of each kind (frequencies, means): the less noise, the more an attack proves."""
    kinds = sorted({subject.mechanism.kind for subject in subjects})
    of_kind = [[subject for subject in subjects if subject.mechanism.kind == kind] for kind in kinds]
    return [min(some, key=lambda one: (round(one.mechanism.typical_variance(), 6), one.label)) for some in of_kind]


def _short(subject: Subject) -> Subject:
    """The same mechanism on a short list, if the list is long: a client handles both alike."""
    if subject.mechanism.domain.estimates > _LONGEST_LIST:
        return usual(subject.mechanism.name, subject.epsilon)
    return subject
