"""Attacks and their findings: a claim, what was observed against it, and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["FAMILY", "Attack", "Finding", "Kind", "Verdict", "judged"]

FAMILY = 1e-6
"""Largest chance that an audit of honest code raises any alarm at all."""

Verdict: TypeAlias = Literal["holds", "beaten", "weak"]
"""`weak`: the claim was not beaten, but the attack could not have seen much. More trials may."""
Kind: TypeAlias = Literal["local", "exact", "shuffle", "time", "side channel", "poisoning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim after one attack on it."""

    kind: Kind
    subject: str
    """What was attacked: a mechanism with its epsilon, or a part of the system."""
    attack: str
    claim: str
    """In words, with its number."""
    claimed: float
    observed: float
    """What the attack proves, in the claim's unit: a lower limit."""
    verdict: Verdict
    power: str
    """What the attack could have seen."""
    trials: int = 0
    tests: int = 0
    """Statistical tests that it rests on; 0 if the answer is certain."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack to run. `run` takes the false-alarm rate that each of its `tests` may have."""

    kind: Kind
    subject: str
    tests: int
    run: Callable[[float], list[Finding]] = field(repr=False)


def judged(observed: float, claimed: float, least: float, slack: float = 0.0) -> Verdict:
    """Beaten above the claim; weak below the part of it (`least`) that an attack with power must reach."""
    if observed > claimed * (1 + slack):
        return "beaten"
    return "holds" if observed >= least * claimed else "weak"
