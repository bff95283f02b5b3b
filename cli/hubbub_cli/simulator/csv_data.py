"""Data of a simulation from a CSV file: one row per device, columns named like the metrics."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, did_you_mean

if TYPE_CHECKING:
    from hubbub.codebook import Metric

__all__ = ["Data", "read"]

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Data:
    """The value of each metric in each row, as an app would record it; None where nothing was recorded."""

    values: Mapping[str, Sequence[object]]
    ignored: Sequence[str]
    """Columns that are not named like a metric."""


def read(path: Path, metrics: Sequence[Metric]) -> Data:
    """The columns of these metrics; InvalidParameter says what is wrong with the file, and where."""
    lines = _lines(path)
    _, header = next(lines, (1, []))
    if not header:
        raise InvalidParameter(f"{path} is empty: its first line must name the columns, one for each metric")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InvalidParameter(f"{path}: two columns are named {twice[0]!r}; rename one")
    _refuse_missing(path, header, [metric.name for metric in metrics])
    readers = [(header.index(metric.name), _Cells(path, metric), list[object]()) for metric in metrics]
    for number, row in lines:
        if len(row) != len(header):
            raise InvalidParameter(
                f"{path}, line {number}: {len(row)} cells where the header has {len(header)}; "
                "put cells that contain a comma into double quotes"
            )
        for place, cells, values in readers:
            values.append(cells.value(row[place], number))
    found = {metric.name: values for metric, (_, _, values) in zip(metrics, readers, strict=True)}
    if not any(found.values()):
        raise InvalidParameter(f"{path} has no rows under its header: write one row for each device")
    return Data(found, [name for name in header if name not in found])


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows with the number of the line on which each ends; blank lines are left out."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from error
    except (OSError, EOFError) as error:
        raise InvalidParameter(f"{path} can't be read: {error}") from error
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row
    except csv.Error as error:
        raise InvalidParameter(f"{path}, line {rows.line_num}: {error}; is it a CSV file?") from error


def _refuse_missing(path: Path, header: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in header]
    if not missing:
        return
    hints = [f"{name!r} ({near})" if (near := did_you_mean(name, header)) else repr(name) for name in missing]
    raise InvalidParameter(
        f"{path} has no column for {', '.join(hints)}: a column is named like its metric. It has: "
        f"{', '.join(map(repr, header))}. Rename a column, or set enabled = false on a metric to leave it out"
    )


class _Cells:
    """The cells of one column. Each distinct text is parsed once."""

    def __init__(self, path: Path, metric: Metric) -> None:
        self._path, self._metric = path, metric
        self._known: dict[str, object] = {"": None}

    def value(self, text: str, line: int) -> object:
        if text not in self._known:
            try:
                self._known[text] = self._metric.values.from_text(text)
            except ValueError:
                expected = self._metric.values.cell_in_words
                raise InvalidParameter(
                    f"{self._path}, line {line}: {text!r} in column {self._metric.name!r} is not {expected}; "
                    "correct it, or leave the cell empty where nothing was recorded"
                ) from None
        return self._known[text]
