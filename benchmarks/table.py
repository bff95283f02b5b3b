"""Table of benchmark figures, one row each: figure, limit or peer measured in the same run, ratio, target, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from hubbub_cli.terminal.table import table

__all__ = ["HEAD", "Goal", "Row", "at_least", "at_most", "cells", "show"]

HEAD = ["figure", "measured", "limit or peer, same run", "its measure", "ratio", "target", "verdict"]


@dataclass(frozen=True, slots=True)
class Goal:
    """Target of a row: a bound on its ratio, or on the figure itself."""

    sense: Literal["at least", "at most"]
    value: float
    of: Literal["ratio", "figure"] = "ratio"

    def met(self, row: Row) -> bool:
        found = row.ratio if self.of == "ratio" else row.figure
        assert found is not None, f"{row.what}: a target for a ratio needs something to divide by"
        return found >= self.value if self.sense == "at least" else found <= self.value


def at_least(value: float, of: Literal["ratio", "figure"] = "ratio") -> Goal:
    return Goal("at least", value, of)


def at_most(value: float, of: Literal["ratio", "figure"] = "ratio") -> Goal:
    return Goal("at most", value, of)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `beside` names the limit or the peer; `other` is its value in the same unit.

    `ratio` is figure / other, unless it was measured in another way, such as the median of the ratios of all rounds.
    """

    what: str
    figure: float
    unit: str
    beside: str = ""
    other: float | None = None
    goal: Goal | None = None
    ratio: float | None = None
    part: str = ""

    def __post_init__(self) -> None:
        if self.ratio is None and self.other is not None:
            object.__setattr__(self, "ratio", self.figure / self.other)

    @property
    def verdict(self) -> str:
        """`pass` or `short`; a dash if there is no target."""
        return "-" if self.goal is None else "pass" if self.goal.met(self) else "short"

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        given = {key: value for key, value in document.items() if key != "verdict"}
        return cls(**{**given, "goal": Goal(**given["goal"]) if given["goal"] else None})


def cells(row: Row) -> list[str]:
    """The cells of a row, as shown."""
    goal = ""
    if row.goal is not None:
        unit = f" {row.unit}" if row.goal.of == "figure" and row.unit else ""
        goal = f"{row.goal.sense} {row.goal.value:,g}{unit}"
    return [
        row.what,
        f"{number(row.figure)} {row.unit}".strip(),
        row.beside or "-",
        "-" if row.other is None else f"{number(row.other)} {row.unit}".strip(),
        "-" if row.ratio is None else number(row.ratio),
        goal or "-",
        row.verdict,
    ]


def number(value: float) -> str:
    """Three significant digits, or a whole number with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show(rows: Sequence[Row]) -> str:
    """The table, aligned for a terminal."""
    return table(HEAD, [cells(row) for row in rows])
