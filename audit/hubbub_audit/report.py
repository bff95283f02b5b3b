"""Audit reports: JSON for machines, and one HTML file that loads nothing and that an officer can file."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hubbub
from hubbub_audit import batch_likelihood_ratio, local_epsilon_and_law
from hubbub_audit.findings import Finding, Kind, Verdict
from hubbub_audit.plan import Audit

__all__ = ["HEADINGS", "Run", "document", "html"]

HEADINGS: dict[Kind, tuple[str, str]] = {
    "local": (
        "One report",
        "The receiver of a single report tries to tell two values apart. The pair of values is the one that reports "
        "tell apart best; the test is the best known to statistics, and must prove "
        f"{local_epsilon_and_law.POWER:.0%} of the claim to count. A second test is derived from the "
        "reports themselves, in case the declared law is wrong. A third test compares the reports with that law.",
    ),
    "exact": (
        "Every outcome of every coin",
        "Small instances of the same code are driven through all outcomes of their coins. Nothing is sampled, so the "
        "epsilon is exact.",
    ),
    "shuffle": (
        "A batch out of the shuffler",
        "The receiver of a shuffled batch tries to tell which of two values one device held, while all others hold "
        "the value that hides it least, and tries to learn from the order of the reports. Batches are expensive, so "
        f"{batch_likelihood_ratio.POWER:.0%} of the claim must be proven to count. "
        "The delta is large enough to be observed.",
    ),
    "time": (
        "One device over time",
        "A device that always holds the same value is watched for several periods. Answers to its uploads are lost, "
        "its app is restarted, its key is revoked.",
    ),
    "side channel": (
        "Beside the report",
        "Lengths, times of sending, the duration of recording, and everything written to logs are searched for traces "
        "of the value.",
    ),
    "poisoning": (
        "Devices that lie",
        "This is about results, not about privacy: devices that send the worst possible reports must not move an "
        "estimate by more than the bound that is published with it.",
    ),
}
WORDS = {"holds": "holds", "beaten": "BEATEN", "weak": "too few trials"}


@dataclass(frozen=True, slots=True)
class Run:
    """What a reader needs to repeat the run."""

    at: float
    """Unix time."""
    seconds: float
    trials: int
    subject: str
    """What was audited: all mechanisms, some, or a codebook."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one kind of attack."""

    title: str
    what: str
    findings: tuple[Finding, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(finding.verdict == verdict for finding in self.findings)


def document(audit: Audit, run: Run) -> dict[str, Any]:
    """The whole report as JSON; an infinite number is null."""
    return {
        "audit": "hubbub",
        "version": hubbub.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "date": datetime.fromtimestamp(run.at, UTC).isoformat(timespec="seconds"),
        "seconds": round(run.seconds, 1),
        "subject": run.subject,
        "trials": run.trials,
        "seed": None,
        "verdict": _verdict(audit),
        "false_alarm_rate": audit.false_alarms,
        "tests": audit.tests,
        "false_alarm_rate_of_each_test": audit.alpha,
        "findings": [{name: _number(value) for name, value in asdict(finding).items()} for finding in audit.findings],
    }


def _verdict(audit: Audit) -> str:
    return "beaten" if audit.beaten else "weak" if audit.weak else "holds"


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def html(audit: Audit, run: Run) -> str:
    """One self-contained page: no script, and no font or image from elsewhere."""
    from jinja2 import Environment, select_autoescape

    environment = Environment(autoescape=select_autoescape(default_for_string=True), trim_blocks=True)
    environment.filters["short"] = short
    template = environment.from_string(Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8"))
    grouped = [
        Group(*heading, tuple(finding for finding in audit.findings if finding.kind == kind))
        for kind, heading in HEADINGS.items()
    ]
    return template.render(
        audit=audit,
        groups=[group for group in grouped if group.findings],
        run=document(audit, run),
        words=WORDS,
    )


def short(number: float) -> str:
    """A number for a table, in two to four significant digits."""
    if math.isinf(number):
        return "∞"
    return f"{number:.1e}" if 0 < abs(number) < 1e-3 else f"{number:.4g}"
