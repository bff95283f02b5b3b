"""Tables for a terminal: aligned rows that people can read and `cut` can split, or records where rows don't fit."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["table", "table_or_records"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their header, two spaces between columns; columns of numbers are right-aligned."""
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
    if max(map(len, made.splitlines())) <= shutil.get_terminal_size().columns:
        return made
    width = max(map(len, rows[0]))
    return "\n\n".join("\n".join(f"{name.ljust(width)}  {value}" for name, value in row.items()) for row in rows)


def _is_number(cell: str) -> bool:
    """Whether a cell lines up with numbers: a number, a percentage, or a dash for a missing one."""
    try:
        float(cell.removesuffix("%").replace(",", ""))
    except ValueError:
        return cell in {"", "-"}
    return True
