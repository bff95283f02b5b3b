"""Tables for a terminal: aligned rows that people can read and `cut` can split, or records where rows don't fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_cli.terminal.wrapped_text import columns, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["table", "table_or_records"]

_NARROWEST = 20
"""Fewest columns for a text that is wrapped: in fewer, it would be a column of single words."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: bool = False) -> str:
    """The rows under their header, two spaces between columns; columns of numbers are right-aligned.

    `wrap`: the last column is text. Where a line is too long, it goes on below itself.
    """
    if wrap:
        header, rows = _wrapped(header, rows)
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [len(column) > 1 and all(map(_is_number, column[1:])) for column in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in (header, *rows)
    )


def table_or_records(rows: Sequence[Mapping[str, object]]) -> str:
    """The rows as a table or, if the terminal is too narrow, one below the other with each value next to its name.

    For rows with ids that a person copies: no id is cut.
    """
    made = table(list(rows[0]), [[str(value) for value in row.values()] for row in rows])
    if max(map(len, made.splitlines())) <= columns():
        return made
    width = max(map(len, rows[0]))
    return "\n\n".join("\n".join(f"{name.ljust(width)}  {value}" for name, value in row.items()) for row in rows)


def _wrapped(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The same table, in which a long text of the last column takes several rows."""
    width = columns() - sum(max(map(len, column)) + 2 for column in list(zip(header, *rows, strict=True))[:-1])
    broken: list[Sequence[str]] = []
    for row in rows:
        first, *rest = wrapped(row[-1], width=max(width, _NARROWEST)).split("\n")
        broken += [[*row[:-1], first], *([*[""] * (len(row) - 1), line] for line in rest)]
    return header, broken


def _is_number(cell: str) -> bool:
    """Whether a cell lines up with numbers: a number, a percentage, or a dash for a missing one."""
    try:
        float(cell.removesuffix("%").replace(",", ""))
    except ValueError:
        return cell in {"", "-"}
    return True
