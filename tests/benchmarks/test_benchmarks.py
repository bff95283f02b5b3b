"""The table of `make bench`: a figure that misses its target says so, and every benchmark is in it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import PARTS, main, page_part
from benchmarks.pages import PAGE, renew
from benchmarks.table import Goal, Row, at_least, at_most, cells, show
from tests.support.paths import ROOT

FOLDER = ROOT / "benchmarks"
SUPPORT = {"__init__", "__main__", "machine", "pages", "redis_server", "table", "distribution_error"}
"""Files without rows for the table. `distribution_error` measures errors on columns that it is given, not time."""


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (None, "-"),
        (at_least(0.5), "pass"),
        (at_least(0.51), "short"),
        (at_most(0.5), "pass"),
        (at_most(0.49), "short"),
        (at_least(11, "figure"), "short"),
        (at_most(10, "figure"), "pass"),
    ],
)
def test_a_row_passes_or_is_short_by_its_ratio_or_its_figure(goal: Goal | None, verdict: str) -> None:
    row = Row("something", 10.0, "us", "a peer", 20.0, goal)
    assert (row.ratio, row.verdict, cells(row)[-1]) == (0.5, verdict, verdict)


def test_a_ratio_that_was_measured_round_by_round_is_kept() -> None:
    assert Row("something", 10.0, "us", "a peer", 20.0, at_least(0.6), ratio=0.7).verdict == "pass"


def test_a_row_is_the_same_after_it_was_written_down() -> None:
    row = Row("something", 10.0, "us", "a peer", 20.0, at_least(0.6), part="ingest")
    assert Row.read(json.loads(json.dumps(row.document()))) == row


def test_every_benchmark_is_part_of_make_bench() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")} - SUPPORT
    assert names == set(PARTS) - {"mechanisms.ours"}
    for name in ("randomize", "table"):  # the others take seconds to load
        assert hasattr(importlib.import_module(f"benchmarks.{name}"), "rows") is (name in PARTS)


def document(*rows: Row, failed: tuple[str, ...] = ()) -> dict[str, object]:
    machine = {"processor": "P", "cores": 2, "memory_gib": 24, "python": "3.11", "system": "Linux"}
    found = [row.document() for row in rows]
    return {
        "when": "2026-11-16",
        "machine": machine,
        "form": "short",
        "seconds": 1,
        "failed": list(failed),
        "rows": found,
    }


SHORT = Row("slow thing", 3.0, "s", "limit", 1.0, at_most(1), part="estimate")
FINE = Row("fast thing", 0.5, "s", "limit", 1.0, at_most(1), part="estimate")


@pytest.mark.parametrize(
    ("rows", "failed", "options", "code"),
    [
        ([FINE, SHORT], (), [], 0),
        ([FINE, SHORT], (), ["--strict"], 1),
        ([FINE], (), ["--strict"], 0),
        ([FINE], ("ingest",), [], 1),
    ],
)
def test_what_is_short_fails_the_run_only_if_asked_to_and_a_broken_part_always(
    tmp_path: Path, rows: list[Row], failed: tuple[str, ...], options: list[str], code: int
) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(document(*rows, failed=failed)))
    said = CliRunner().invoke(main, ["--use", str(file), *options])
    assert said.exit_code == code, said.output
    assert "bench-mechanisms" in said.output
    assert ("short" in show(rows)) is (SHORT in rows)


def test_a_part_of_the_page_is_renewed_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    around = "before\n<!-- bench: begin -->\n{}\n<!-- bench: end -->\nafter <!-- load: begin --><!-- load: end -->\n"
    page.write_text(around.format("old"))
    renew("bench", lambda old: f"{old} and new", page)
    assert page.read_text() == around.format("old and new")
    with pytest.raises(ValueError, match="no part"):
        renew("nothing", lambda old: old, page)


def test_the_page_has_a_place_for_every_table() -> None:
    for part in ("bench", "load", "cpu", "size"):
        assert PAGE.read_text().count(f"<!-- {part}: begin -->") == PAGE.read_text().count(f"<!-- {part}: end -->") == 1
    assert "| slow thing | 3 s | limit | 1 s | 3 | at most 1 | short |" in page_part(document(SHORT))
