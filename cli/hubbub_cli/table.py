"""Aligned columns for a terminal: rows that a person reads and `cut` still splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["table"]


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


def _is_number(cell: str) -> bool:
    """Whether a cell should line up with numbers: one, a percentage, or a dash where one is missing."""
    try:
        float(cell.removesuffix("%").replace(",", ""))
    except ValueError:
        return cell in {"", "-"}
    return True
