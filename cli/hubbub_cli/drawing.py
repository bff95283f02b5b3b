"""Estimates as rows with bars, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub_cli.table import table

WIDTH = 40


def bar(low: float, estimate: float, high: float) -> str:
    """Filled up to the lower limit, darker to the estimate, lighter to the upper one; WIDTH blocks are 100 %."""
    at = [round(WIDTH * min(max(share, 0.0), 1.0)) for share in (low, estimate, high)]
    return "█" * at[0] + "▓" * (at[1] - at[0]) + "░" * (at[2] - at[1])


def number(value: float | None, *, share: bool) -> str:
    """A share as a percentage, a mean as it is, a dash for what is not there."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if share else f"{value:.4g}"


def estimates(values: Sequence[Mapping[str, Any]], *, share: bool, truth: bool = False) -> str:
    """A row for each value: estimate, interval and, where it is known, the truth."""
    columns = (["truth"] if truth else []) + ["estimate", "low", "high"]
    rows = [
        [
            _name(row["value"]),
            *(number(row[column], share=share) for column in columns),
            _bar_of(row) if share else "",
        ]
        for row in values
    ]
    return table(["value", *columns, ""], rows)


def _name(value: object) -> str:
    return "mean" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _bar_of(row: Mapping[str, Any]) -> str:
    low = row["estimate"] if row["low"] is None else row["low"]
    high = row["estimate"] if row["high"] is None else row["high"]
    return bar(low, row["estimate"], high)


def promise(privacy: Mapping[str, Any]) -> str:
    """The two guarantees in one line."""
    return (
        f"eps {privacy['epsilon']:.3g} at delta {privacy['delta']:g} ({privacy['method']}); "
        f"if shuffler and aggregator collude: eps {privacy['local_epsilon']:g}"
    )
