"""Data frames: the columns of the CSV with its cells, in each library."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import narwhals
import pytest

from hubbub_aggregator.api.tables import COLUMNS
from hubbub_query import FrameLibraryMissing, Query
from hubbub_query.columns import COUNTS, FLAGS, TEXTS, TIME
from hubbub_query.frame import Library, Tabular
from tests.aggregator.api.test_csv import PROSE as OF_VALUES

PROSE = OF_VALUES | {"adjacency"}
SIDES = (("2027-01-15", "2027-01-16"), ("2027-01-17", "2027-01-18"))
TABLES: dict[str, tuple[Callable[[Query], Tabular], str]] = {
    "metrics": (Query.metrics, "/v1/metrics"),
    "estimate": (lambda query: query.estimate("theme"), "/v1/metrics/theme/estimate"),
    "series": (lambda query: query.series("theme"), "/v1/metrics/theme/series"),
    "mean": (lambda query: query.series("startup_ms"), "/v1/metrics/startup_ms/series"),
    "compare": (
        lambda query: query.compare("theme", *SIDES),
        "/v1/metrics/theme/compare?a_from=2027-01-15&a_to=2027-01-16&b_from=2027-01-17&b_to=2027-01-18",
    ),
    "releases": (Query.releases, "/v1/releases"),
    "privacy": (Query.privacy, "/v1/privacy"),
}
LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


def as_text(name: str, cell: Any) -> str:
    """A cell as the CSV writes it."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):  # pandas has no number as NaN
        return ""
    match cell:
        case datetime():
            return f"{cell:%Y-%m-%d}"
        case bool():
            return str(cell).lower()
        case str():
            return cell
    return str(int(cell)) if name in COUNTS else repr(float(cell))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", TABLES)
def test_a_frame_has_the_cells_of_the_csv_without_its_prose(query: Query, kind: str, library: Library) -> None:
    made, path = TABLES[kind]
    frame = narwhals.from_native(made(query).frame(library))
    header, *rows = csv.reader(io.StringIO(query.get(path, accept="text/csv").decode(), newline=""))
    kept = [place for place, name in enumerate(header) if name not in PROSE]
    assert frame.columns == [header[place] for place in kept]
    assert rows
    assert [[as_text(name, cell) for name, cell in row.items()] for row in frame.rows(named=True)] == [
        [row[place] for place in kept] for row in rows
    ]


def test_columns_hold_what_the_aggregator_says_that_they_hold() -> None:
    assert {name for name, kind in COLUMNS.items() if kind == "count"} == set(COUNTS)
    assert {name for name, kind in COLUMNS.items() if kind == "flag"} == set(FLAGS)
    assert {name for name, kind in COLUMNS.items() if kind == "text"} - PROSE - {"method"} == {*TEXTS, TIME}


def test_a_period_is_a_time_and_a_gap_has_no_numbers(query: Query) -> None:
    frame = query.series("theme", start="2027-01-15", end="2027-01-18").frame("pandas")
    assert frame["period"].iloc[0] == datetime(2027, 1, 15, tzinfo=UTC)
    gap = frame[frame["state"] == "open"]
    assert len(gap) == 1
    assert gap[["shown", "estimate", "reports", "value", "simultaneous"]].isna().all().all()


def test_an_empty_table_has_its_types(query: Query) -> None:
    frame = query.series("dark_mode", start="2027-01-15", end="2027-01-16").frame("polars")
    assert str(frame.schema["shown"]) == "Float64"
    assert str(frame.schema["value"]) == "String"


def test_the_library_is_the_one_that_is_imported_or_installed(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = query.metrics()
    monkeypatch.setattr("hubbub_query.frame._frame", lambda _columns, library: library)
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert metrics.frame() == "pandas"  # the first of those that are installed
    monkeypatch.setitem(sys.modules, "polars", ModuleType("polars"))
    assert metrics.frame() == "polars"  # the one that is imported


def test_without_a_library_it_says_what_to_install(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = query.metrics()
    with pytest.raises(FrameLibraryMissing, match="choose one of pandas, polars, pyarrow"):
        metrics.frame("spark")  # type: ignore[arg-type]
    monkeypatch.setattr("hubbub_query.frame.find_spec", lambda _name: None)
    with pytest.raises(FrameLibraryMissing, match="polars is not installed: `pip install polars`"):
        metrics.frame("polars")
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(FrameLibraryMissing, match="pip install pandas"):
        metrics.frame()
