"""What an attack is, and what it found: a claim, what was observed against it, and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["FAMILY", "Attack", "Finding", "Kind", "Verdict", "judged"]

FAMILY = 1e-6
"""Chance that an audit of honest code raises any alarm at all."""

Verdict: TypeAlias = Literal["holds", "beaten", "weak"]
"""`weak`: nothing was beaten, but the attack could not have seen much; more trials may."""
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
    """In the claim's unit: what the attack proves, from below."""
    verdict: Verdict
    power: str
    """What the attack would have seen."""
    trials: int = 0
    tests: int = 0
    """Statistical tests that went into it; none where the answer is certain."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attack:
    """Something to be run: it is told the false-alarm rate that each of its `tests` may have."""

    kind: Kind
    subject: str
    tests: int
    run: Callable[[float], list[Finding]] = field(repr=False)


def judged(observed: float, claimed: float, least: float, slack: float = 0.0) -> Verdict:
    """Beaten above the claim, weak below the part of it (`least`) that shows that the attack has power."""
    if observed > claimed * (1 + slack):
        return "beaten"
    return "holds" if observed >= least * claimed else "weak"
