"""Estimates as rows with bars, for a terminal of eighty columns or more; plain ASCII where it can show nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import click

from hubbub import number_format
from hubbub.number_format import ascii_minus
from hubbub.result_shapes import cell_label
from hubbub.shortening import shortened, shortened_all
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import columns
from hubbub_query import Axis

_NARROWEST, _WIDEST = 10, 40
_LONGEST_NAME = 24
LONGEST_PART = 14
"""Longest form of each of the two names of a grid cell."""
LONGEST_CELL = 2 * LONGEST_PART + 10


@dataclass(frozen=True, slots=True)
class Signs:
    """Characters of bars: up to the lower limit, the estimate and the upper limit; then whiskers, zero, and a cut."""

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
    """Block characters, unless the terminal's encoding lacks them."""
    try:
        "█▓░├─┤●┊…→".encode(encoding or getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def echo(text: str) -> None:
    """Print to stdout, in colour only if it is a terminal and NO_COLOR is not set."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def bar(low: float, estimate: float, high: float, width: int, most: float = 1.0, drawn: Signs = BLOCKS) -> str:
    """Solid up to the lower limit, lighter to the estimate, lightest to the upper limit; `width` signs are `most`."""
    at = [round(width * min(max(share / most, 0.0), 1.0)) for share in (low, estimate, high)]
    at = [at[0], max(at[0], at[1]), max(at)]
    return drawn.sure * at[0] + drawn.likely * (at[1] - at[0]) + drawn.possible * (at[2] - at[1])


def whisker(low: float, middle: float, high: float, ends: tuple[float, float], width: int, drawn: Signs) -> str:
    """An interval on a scale between two ends, with a mark at zero; empty if there is no room."""
    if not width:
        return ""
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
    """A share as a percentage, a mean as it is, a dash for None."""
    if value is not None and not share and value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.3g}"  # a power of ten, in letters that every terminal has
    return ascii_minus(number_format.value(value, is_share=share))


def change(value: float | None, *, share: bool) -> str:
    """A difference with its sign: of shares in percentage points, whose name stands below the table."""
    if not share and value is not None and value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:+.3g}"
    return ascii_minus(number_format.change(value, is_share=share)).removesuffix("pp").rstrip()


def estimates(
    values: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    *,
    share: bool,
    truth: bool = False,
    first: str = "value",
    longest: int = _LONGEST_NAME,
    notes: Sequence[str] = (),
) -> str:
    """A row for each value as it is shown: estimate, interval and, if known, the truth. Bars fill the rest of the line.

    A row without a value, such as that of a period without a release, has dashes, and its note in place of a bar.
    """
    drawn = signs()
    head = [first, *(["truth"] if truth else []), "estimate", "low", "high"]
    limits = [_limits(row) for row in values]
    rows = [
        [
            name,
            *([number(row["truth"], share=share)] if truth else []),
            *(number(n, share=share) for n in (mid, low, up)),
        ]
        for name, row, (low, mid, up) in zip(shorts(names, drawn, longest), values, limits, strict=True)
    ]
    found = [limit for limit in limits if limit[1] is not None]
    noted = list(notes) or [""] * len(rows)
    if not found or (not share and len(found) < 2):
        return table([*head, ""], [[*row, note] for row, note in zip(rows, noted, strict=True)])
    width = room(head, rows)
    most = min(1.0, max(high for _, _, high in found)) if share else 0.0
    ends = (min(low for low, _, _ in found), max(high for _, _, high in found))

    def draw(limit: tuple[Any, Any, Any]) -> str:
        if limit[1] is None or not width:
            return ""
        return bar(*limit, width, most or 1.0, drawn) if share else whisker(*limit, ends, width, drawn)

    drawings = [note or draw(limit) for note, limit in zip(noted, limits, strict=True)]
    return table([*head, ""], [[*row, drawing] for row, drawing in zip(rows, drawings, strict=True)])


def grid(values: Sequence[Mapping[str, Any]], down: Axis, across: Axis) -> str:
    """Cells as a table, each estimate with half the width of its interval. Columns that do not fit get another table.

    Values are placed by label, since an answer may list the largest first.
    """
    drawn, found = signs(), {cell["label"]: cell for cell in values}
    title = spelled(f"{along(down)} / {along(across)}", drawn)
    head = title if len(title) <= _LONGEST_NAME else ""
    side = [head, *shorts(down.labels, drawn)]
    blocks: list[list[list[str]]] = []
    taken = columns()
    for name, column in zip(shorts(across.labels, drawn, LONGEST_PART), across.labels, strict=True):
        told = [name, *(_cell(found.get(cell_label(row, column)), drawn) for row in down.labels)]
        wide = 2 + max(map(len, told))
        if taken + wide > columns():
            blocks.append([side])
            taken = max(map(len, side))
        blocks[-1].append(told)
        taken += wide
    tables = [table(*_turned(block)) for block in blocks]
    return "\n\n".join(tables if head else [f"{title}\n{tables[0]}", *tables[1:]])


def _turned(block: Sequence[Sequence[str]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Columns as a header and rows."""
    header, *rows = zip(*block, strict=True)
    return header, list(rows)


def _cell(cell: Mapping[str, Any] | None, drawn: Signs) -> str:
    if cell is None:
        return "-"
    low, middle, high = _limits(cell)
    return f"{number(middle, share=True)} {'±' if drawn is BLOCKS else '+-'}{50 * (high - low):.1f}"


def cells(down: Axis, across: Axis) -> dict[str, str]:
    """The cells of a grid by label, each of the two names shortened by itself."""
    drawn = signs()
    cross = "×" if drawn is BLOCKS else "x"
    rows, names = (zip(axis.labels, shorts(axis.labels, drawn, LONGEST_PART), strict=True) for axis in (down, across))
    return {cell_label(row, column): f"{r} {cross} {c}" for (row, r), (column, c) in product(rows, names)}


def along(axis: Axis, most: int = _LONGEST_NAME) -> str:
    """Name and unit of an axis."""
    name = shortened(axis.name, most, signs().cut)
    return f"{name} ({axis.unit})" if axis.unit else name


def spread(count: int, most: int, keep: Iterable[int] = ()) -> list[int]:
    """About `most` evenly spaced indexes of a list, with the first and the last, and those in `keep`; in order.

    All of them where fewer than a quarter would be left out: gaps would cost more than the few rows.
    """
    if 3 * count < 4 * most or count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / (most - 1)) for place in range(most)} | set(keep))


def room(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns left in a line for a bar beside these cells; 0 if too few."""
    left = columns() - sum(max(map(len, column)) + 2 for column in zip(head, *rows, strict=True))
    return min(left, _WIDEST) if left >= _NARROWEST else 0


def short(name: str, drawn: Signs, most: int = _LONGEST_NAME) -> str:
    """A name cut so that its numbers fit too, in letters that the terminal has."""
    return shortened(spelled(name, drawn), most, drawn.cut)


def shorts(names: Sequence[str], drawn: Signs, most: int = _LONGEST_NAME) -> list[str]:
    """The same for a list of names, which stay distinct."""
    return shortened_all([spelled(name, drawn) for name in names], most, drawn.cut)


def spelled(name: str, drawn: Signs) -> str:
    """The name in letters that the terminal has."""
    return name if drawn is BLOCKS else name.encode("ascii", "replace").decode()


def promise(privacy: Mapping[str, Any]) -> str:
    """The two guarantees in one line."""
    return (
        f"eps {above(privacy['epsilon'])} at delta {privacy['delta']:g} ({privacy['method']}); "
        f"if shuffler and aggregator collude: eps {privacy['local_epsilon']:g}"
    )


def _limits(row: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Lower limit, value and upper limit as people are shown them: all None for a row without a value."""
    shown = row.get("shown", {})
    return shown.get("low"), shown.get("value"), shown.get("high")
