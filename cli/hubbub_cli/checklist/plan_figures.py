"""Figures of a release plan. All come from the accountant; here they are only combined.

A person with k devices is a group of k. Going from one world to the other in k steps, each of which replaces the value
of one device and is (eps, delta)-private, gives P <= e^(k eps) P' + delta (1 + e^eps + ... + e^((k - 1) eps)).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.period import DAY
from hubbub_cli.services.default_min_crowd import usual_floor

if TYPE_CHECKING:
    from hubbub.accounting.codebook_plan import MetricPlan, Plan
    from hubbub.codebook import Codebook

__all__ = ["Figures", "figures", "group", "near", "periods_of_a_year"]

YEAR = 365 * DAY
_LARGE = 700.0
"""Above this epsilon, e^epsilon overflows a float, and delta is 1."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A codebook at a number of devices, over a year."""

    plan: Plan

    @property
    def periods(self) -> int:
        return self.plan.periods

    @property
    def delta(self) -> float:
        return float(self.plan.codebook.collection.release_delta)

    @property
    def local_period(self) -> float:
        """What a device spends in a period. Metrics whose batches are discarded count too: their reports were sent."""
        return float(self.plan.codebook.spent)

    @property
    def local_year(self) -> float:
        return float(self.plan.codebook.spent * self.periods)

    @property
    def local_day(self) -> float:
        """What a device spends on a day on which a period begins."""
        seconds = self.plan.codebook.collection.calendar.seconds
        return float(self.plan.codebook.spent * max(1, DAY // seconds))

    def periods_within(self, lifetime: float) -> int:
        """Periods that a device can report in full within this lifetime limit."""
        spent = self.plan.codebook.spent
        return int(Fraction(repr(lifetime)) // spent) if spent else self.periods

    @property
    def kept_back(self) -> tuple[MetricPlan, ...]:
        """Metrics that would never be released with this few devices."""
        return tuple(one for one in self.plan.metrics if not one.released)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        made = self.plan
        return {
            "devices": made.devices,
            "periods": self.periods,
            "delta": self.delta,
            "device_period": {
                "epsilon": made.device_period.epsilon if made.device_period else None,
                "local_epsilon": self.local_period,
            },
            "device_year": {
                "epsilon": made.device_total.epsilon if made.device_total else None,
                "local_epsilon": self.local_year,
            },
            "metrics": {
                one.metric.name: {
                    "min_batch": one.min_batch,
                    "released": one.released,
                    "stderr": one.stderr if math.isfinite(one.stderr) else None,
                    "local_epsilon": float(one.metric.epsilon),
                    "period": asdict(one.guarantee) if one.guarantee else None,
                    "year": asdict(one.composed) if one.composed else None,
                }
                for one in made.metrics
            },
        }


def periods_of_a_year(codebook: Codebook) -> int:
    """The most periods that begin in 365 days."""
    return math.ceil(YEAR / codebook.collection.calendar.seconds)


def figures(codebook: Codebook, devices: int) -> Figures:
    """Work the figures out; takes seconds."""
    from hubbub.accounting.codebook_plan import plan

    return Figures(plan(codebook, devices, periods_of_a_year(codebook), floor=usual_floor()))


def group(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(epsilon, delta) for a group of `size` devices; a delta of 1 promises nothing."""
    if size == 1:
        return epsilon, delta
    if size * epsilon > _LARGE:
        return size * epsilon, 1.0
    steps = math.expm1(size * epsilon) / math.expm1(epsilon) if epsilon else size
    return size * epsilon, min(1.0, delta * steps)


def near(number: float) -> str:
    """An error in a few digits."""
    return f"{number:,.0f}" if 100 <= number < math.inf else f"{number:.3g}"
