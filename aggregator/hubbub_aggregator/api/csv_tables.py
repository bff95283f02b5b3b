"""Answers as CSV (RFC 4180).

A text cell that a spreadsheet would run as a formula, because it begins with = + - or @, gets an apostrophe in front.
So does one that begins with an apostrophe: removing one leading apostrophe gives the text back. Numbers stay as they
are; a missing value is an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hubbub_aggregator.api.tables import blocks, columns_of_empty

if TYPE_CHECKING:
    from hubbub_aggregator.models.base import ResponseModel

__all__ = ["CSV_TYPE", "to_csv"]

CSV_TYPE = "text/csv; charset=utf-8; header=present"
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
_NEEDS_QUOTES = re.compile(r'[",\r\n]')


def to_csv(answer: ResponseModel) -> bytes:
    """The rows of an answer under one header; only the header if there are no rows."""
    header: list[str] = []
    lines: list[str] = []
    for block in blocks(answer):
        header = header or block.columns
        before = "".join(f"{_cell(one)}," for one in block.left.values())
        after = _after(block.right.values())
        first = len(lines)
        lines += [f"{before}{','.join(map(_cell, cells))}{after}" for cells in block.rows]
        lines[first] += _after(block.prose.values())
        silent = "," * len(block.prose)
        lines[first + 1 :] = [line + silent for line in lines[first + 1 :]]
    return "\r\n".join([",".join(header or columns_of_empty(answer)), *lines, ""]).encode()


def _after(cells: Iterable[Any]) -> str:
    return "".join(f",{_cell(one)}" for one in cells)


def _cell(value: Any) -> str:
    if type(value) is float:
        return repr(value)
    if value is None:
        return ""
    if isinstance(value, str):
        safe = "'" + value if value.startswith(_RUN_BY_SPREADSHEETS) else value
        return '"' + safe.replace('"', '""') + '"' if _NEEDS_QUOTES.search(safe) else safe
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
