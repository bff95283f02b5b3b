"""What a metric may hold, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.codebook import decimal_text

if TYPE_CHECKING:
    from hubbub.codebook import Metric

__all__ = ["domain_of"]

_SHOWN = 8
"""Values of a category that are listed in full."""


def domain_of(metric: Metric) -> str:
    """What a metric may hold, in words."""
    if metric.type == "boolean":
        return "true or false"
    if metric.type == "category":
        labels = list(metric.values.labels())
        rest = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
        return f"{len(labels):,} values: {', '.join(labels[:_SHOWN])}{rest}"
    low, high = (decimal_text(bound) for bound in (metric.mechanism.domain.lower, metric.mechanism.domain.upper))  # type: ignore[union-attr]  # a mean has bounds
    return f"a number from {low} to {high}; what is outside is clamped"
