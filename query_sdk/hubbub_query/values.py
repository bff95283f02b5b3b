"""Estimated values with their interval, and the shape in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Axis", "Headline", "IntervalKind", "Mechanism", "PeriodRange", "Shaped", "Shown", "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What people are shown of a value: clipped together with its limits to what is possible."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value with its raw estimate, and what to show of it."""

    value: bool | str | None
    """Null for a mean."""
    label: str
    estimate: float
    """Unbiased: a share may lie below 0 or above 1."""
    stderr: float
    low: float | None
    """Raw lower limit, not clipped."""
    high: float | None
    """Raw upper limit, not clipped."""
    shown: Shown
    total: float
    """The estimate times the reports."""
    total_low: float | None
    total_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalKind:
    """How limits were made."""

    kind: str
    confidence: float
    simultaneous: bool
    """Whether the intervals of all values hold together with this confidence."""
    together: int
    """For how many values at once; 1: for each by itself."""
    selection: str | None = None
    """If values were chosen by their estimates: why the intervals hold nonetheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A mechanism with its parameters."""

    name: str
    epsilon: float
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodRange:
    """A half-open range of periods. `released`: how many of them have a release."""

    start: str
    end: str
    length: str
    released: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis that values run along."""

    name: str
    labels: tuple[str, ...]
    places: tuple[float, ...] | None
    """The place of each label on a scale; None if there is none."""
    unit: str | None
    edges: tuple[float, ...] | None
    """Where labels that are bins begin and end; None if they are none."""
    scale: Literal["linear", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Which value stands for all of them."""

    label: str | None
    """None: the one with the largest estimate."""
    name: str | None
    """What to call it instead of by its label, such as `yes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """How values are to be shown; no reader need know the metric's type."""

    shape: Literal["shares", "number", "curve", "grid", "numbers"]
    measure: Literal["share", "number"]
    unit: str | None
    order: Literal["size", "listed"]
    headline: Headline
    axes: tuple[Axis, ...]
    postprocessing: tuple[Literal["none", "norm_sub", "base_cut", "clip", "projected"], ...]
