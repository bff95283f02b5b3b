"""A comparison of two ranges of periods."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub_query.columns import Columns, chance, guarantee, placed, stacked
from hubbub_query.frame import Tabular
from hubbub_query.privacy import Manipulation, Privacy
from hubbub_query.values import IntervalKind, Mechanism, PeriodRange, Shaped

__all__ = ["Comparison", "Difference", "ShownDifference", "Side"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDifference:
    """A difference for people: nothing outside of what is possible, and the difference within its limits."""

    a: float
    b: float
    value: float
    """b minus a, as shown."""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one value changed from range a to range b."""

    value: bool | str | None
    label: str
    a: float
    b: float
    difference: float
    """b minus a, raw."""
    stderr: float
    low: float | None
    high: float | None
    shown: ShownDifference
    p_value: float | None
    """How often noise alone would do this, for this value alone; None if it was left out."""
    adjusted_p_value: float | None
    """The same for all values together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two ranges."""

    metric_id: str
    mechanism: Mechanism
    reports: int
    periods: PeriodRange
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Shaped, Tabular):
    """Range b against range a."""

    metric: str
    type: str
    estimand: str
    """What the difference is about, and what it can't tell."""
    complete: bool
    a: Side
    b: Side
    interval: IntervalKind
    correction: str
    """How intervals and p-values account for looking at several values."""
    value_count: int
    values: tuple[Difference, ...]
    privacy: Privacy | None
    manipulation: Manipulation

    def columns(self) -> Columns:
        names = ("a", "b", "difference", "stderr", "low", "high", "p_value", "adjusted_p_value")
        shown = {"shown_a": "a", "shown_b": "b", "shown": "value", "shown_low": "low", "shown_high": "high"}
        return stacked(
            [
                {
                    "metric": self.metric,
                    "value": [one.label for one in self.values],
                    **(placed([one.label for one in self.values], self) if self.axes else {}),
                    **{name: [getattr(one.shown, of) for one in self.values] for name, of in shown.items()},
                    **{name: [getattr(one, name) for one in self.values] for name in names},
                    "a_reports": self.a.reports,
                    "b_reports": self.b.reports,
                    **chance(self.interval),
                    **guarantee(self.privacy),
                    "per_thousand_fakes": self.manipulation.per_thousand_fakes,
                    "a_from": self.a.periods.start,
                    "a_to": self.a.periods.end,
                    "b_from": self.b.periods.start,
                    "b_to": self.b.periods.end,
                    "complete": self.complete,
                    "type": self.type,
                    "shape": self.shape,
                    "value_unit": self.unit,
                }
            ]
        )
