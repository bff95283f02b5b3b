"""Tables in a terminal: one that is wide enough, and one that is not."""

from __future__ import annotations

import pytest

from hubbub_cli.terminal.table import table_or_records

HELD = {
    "id": "ab" * 16,
    "metric": "dark_mode",
    "period": "2027-01-15T08:24:20Z",
    "reports": 200,
    "why": "batch-too-late",
    "since": "2027-01-15T08:00Z",
    "until": "2027-01-22T08:00Z",
}


def test_rows_that_do_not_fit_stand_one_below_the_other_with_whole_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = table_or_records([HELD, HELD])
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.splitlines()[0] == f"id       {HELD['id']}"
    assert shown.count("why      batch-too-late") == 2


def test_rows_that_fit_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert len(table_or_records([HELD, HELD]).splitlines()) == 3
