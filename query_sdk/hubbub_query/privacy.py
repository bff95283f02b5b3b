"""The privacy guarantee of an answer, and how far fake reports could shift it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Collusion", "Manipulation", "PeriodPrivacy", "Privacy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodPrivacy:
    """The guarantee of one period."""

    period: str
    epsilon: float
    delta: float
    honest_reports: int
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collusion:
    """What holds even if shuffler and aggregator work together."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The guarantee of everything in the answer together."""

    unit: str
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int
    """The smallest number assumed for any period."""
    method: str
    per_period: tuple[PeriodPrivacy, ...]
    if_collusion: Collusion
    assumptions: tuple[str, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manipulation:
    """What fake reports could do."""

    per_thousand_fakes: float
    """Largest shift of any value if one report in a thousand is made up."""
