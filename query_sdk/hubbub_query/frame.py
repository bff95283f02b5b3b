"""Results as data frames of pandas, Polars or pyarrow, whichever is there.

A frame has the columns of the aggregator's CSV, without its columns of prose, which the result has as attributes.
`period` is a time in UTC; other dates are text, as the aggregator writes them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from hubbub_query.columns import COUNTS, FLAGS, TEXTS, TIME, Columns
from hubbub_query.errors import FrameLibraryMissing

__all__ = ["Library", "Tabular"]

Library: TypeAlias = Literal["pandas", "polars", "pyarrow"]
_LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


class Tabular(ABC):
    """A result that is a table."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> Columns:
        """The table as lists, by column."""

    def frame(self, library: Library | None = None) -> Any:
        """The table as a data frame: of `library`, else of the one that is imported, else of one that is installed."""
        return _frame(self.columns(), library or _chosen())


def _chosen() -> Library:
    for name in _LIBRARIES:
        if name in sys.modules:
            return name
    for name in _LIBRARIES:
        if find_spec(name):
            return name
    raise FrameLibraryMissing("a data frame needs pandas, Polars or pyarrow: install one, such as `pip install pandas`")


def _frame(columns: Columns, library: Library) -> Any:
    if library not in _LIBRARIES:
        raise FrameLibraryMissing(f"{library!r} makes no data frames here: choose one of {', '.join(_LIBRARIES)}")
    if find_spec(library) is None:
        raise FrameLibraryMissing(f"{library} is not installed: `pip install {library}`, or choose another library")
    try:
        import narwhals
    except ImportError as error:
        raise FrameLibraryMissing("data frames need narwhals: `pip install narwhals`, or the extra `query`") from error

    told = {name: list(map(_time, cells)) if name == TIME else cells for name, cells in columns.items()}
    exact = {
        **dict.fromkeys(TEXTS, narwhals.String),
        **dict.fromkeys(COUNTS, narwhals.Int64),
        **dict.fromkeys(FLAGS, narwhals.Boolean),
        TIME: narwhals.Datetime("us", "UTC"),
    }
    kinds = {name: exact.get(name, narwhals.Float64) for name in told}
    if library == "pandas":  # NumPy's integers, booleans and texts have no missing value
        gaps = [name for name, cells in told.items() if name in exact and any(cell is None for cell in cells)]
        kinds |= {name: narwhals.Float64 if name in COUNTS else narwhals.Object for name in gaps}
    return narwhals.from_dict(told, kinds, backend=library).to_native()


def _time(label: str) -> datetime:
    """The start of a period: its label is a date or a time in UTC."""
    found = datetime.fromisoformat(label)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
