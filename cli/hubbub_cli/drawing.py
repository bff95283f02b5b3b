"""Estimates as rows with bars, for a terminal of eighty columns or more; plain ASCII where it knows nothing else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from hubbub_cli.rounding import above
from hubbub_cli.table import table

COLUMNS = 80
_NARROWEST, _WIDEST = 10, 40
_LONGEST_NAME = 24


@dataclass(frozen=True, slots=True)
class Signs:
    """What bars are drawn with: sure, up to the estimate, up to the upper limit; then whiskers, zero, and a cut."""

    sure: str
    likely: str
    possible: str
    left: str
    line: str
    right: str
    middle: str
    zero: str
    cut: str


BLOCKS = Signs("█", "▓", "░", "├", "─", "┤", "●", "┊", "…")
PLAIN = Signs("#", "=", "-", "[", "-", "]", "o", ":", "~")


def signs(encoding: str | None = None) -> Signs:
    """Blocks, unless the terminal's encoding lacks them."""
    try:
        "█▓░├─┤●┊…→".encode(encoding or getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def columns() -> int:
    """How wide a line may be: the terminal, or eighty columns for a pipe."""
    return max(COLUMNS, shutil.get_terminal_size((COLUMNS, 24)).columns) if sys.stdout.isatty() else COLUMNS


def echo(text: str) -> None:
    """Print to stdout; colours are left out unless it is a terminal, and where NO_COLOR is set."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def bar(low: float, estimate: float, high: float, width: int, most: float = 1.0, drawn: Signs = BLOCKS) -> str:
    """Filled up to the lower limit, darker to the estimate, lighter to the upper one; `width` signs are `most`."""
    at = [round(width * min(max(share / most, 0.0), 1.0)) for share in (low, estimate, high)]
    at = [at[0], max(at[0], at[1]), max(at)]
    return drawn.sure * at[0] + drawn.likely * (at[1] - at[0]) + drawn.possible * (at[2] - at[1])


def whisker(low: float, middle: float, high: float, ends: tuple[float, float], width: int, drawn: Signs) -> str:
    """An interval between two ends of a scale, with a mark where zero lies."""
    span = (ends[1] - ends[0]) or 1.0

    def place(number: float) -> int:
        return min(max(round((number - ends[0]) / span * (width - 1)), 0), width - 1)

    line = [" "] * width
    line[place(low) : place(high) + 1] = drawn.line * (place(high) - place(low) + 1)
    line[place(low)], line[place(high)] = drawn.left, drawn.right
    if ends[0] < 0 < ends[1] and line[place(0.0)] in {" ", drawn.line}:
        line[place(0.0)] = drawn.zero
    line[place(middle)] = drawn.middle
    return "".join(line).rstrip()


def number(value: float | None, *, share: bool) -> str:
    """A share as a percentage, a mean as it is, a dash for what is not there."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if share else f"{value:.4g}"


def estimates(
    values: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    *,
    share: bool,
    truth: bool = False,
    first: str = "value",
) -> str:
    """A row for each value: estimate, interval and, where it is known, the truth; bars fill what is left of a line."""
    drawn = signs()
    shown = ["estimate", "low", "high"]
    head = [first, *(["truth"] if truth else []), *shown]
    rows = [
        [short(name, drawn), *(number(row.get(column), share=share) for column in head[1:])]
        for name, row in zip(names, values, strict=True)
    ]
    limits = [(_or(row, "low"), row.get("estimate"), _or(row, "high")) for row in values]
    found = [limit for limit in limits if limit[1] is not None]
    if not found or (not share and len(found) < 2):
        return table(head, rows)
    width = room(head, rows)
    most = min(1.0, max(high for _, _, high in found)) if share else 0.0
    ends = (min(low for low, _, _ in found), max(high for _, _, high in found))

    def draw(limit: tuple[Any, Any, Any]) -> str:
        if limit[1] is None:
            return ""
        return bar(*limit, width, most or 1.0, drawn) if share else whisker(*limit, ends, width, drawn)

    return table([*head, ""], [[*row, draw(limit)] for row, limit in zip(rows, limits, strict=True)])


def grid(values: Sequence[Mapping[str, Any]], rows: Mapping[str, Any], columns: Mapping[str, Any]) -> str:
    """Cells as a table: each estimate with half the width of its interval."""
    drawn, wide = signs(), len(columns["labels"])
    cells = [f"{number(cell['estimate'], share=True)} ±{_half(cell)}" for cell in values]
    head = [short(f"{rows['name']} / {columns['name']}", drawn), *(short(name, drawn) for name in columns["labels"])]
    return table(
        head, [[short(name, drawn), *cells[place * wide :][:wide]] for place, name in enumerate(rows["labels"])]
    )


def _half(cell: Mapping[str, Any]) -> str:
    if cell["low"] is None or cell["high"] is None:
        return "?"
    return f"{50 * (cell['high'] - cell['low']):.1f}"


def room(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """What a line has left for a bar beside these columns."""
    taken = sum(max(map(len, column)) + 2 for column in zip(head, *rows, strict=True))
    return min(max(columns() - taken, _NARROWEST), _WIDEST)


def short(name: str, drawn: Signs) -> str:
    """A name that leaves room for its numbers, in letters that the terminal has."""
    name = name if drawn is BLOCKS else name.encode("ascii", "replace").decode()
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + drawn.cut


def promise(privacy: Mapping[str, Any]) -> str:
    """The two guarantees in one line."""
    return (
        f"eps {above(privacy['epsilon'])} at delta {privacy['delta']:g} ({privacy['method']}); "
        f"if shuffler and aggregator collude: eps {privacy['local_epsilon']:g}"
    )


def _or(row: Mapping[str, Any], name: str) -> Any:
    """A limit, or the estimate where there is none."""
    return row.get("estimate") if row.get(name) is None else row[name]
