"""The snippet that `hubbub up` and its dashboard print, run against that very service."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from hubbub.sdk_snippet import Language
from tests.aggregator.dashboard.markup import Page
from tests.client.test_sdk_snippet import CASES, in_a_period_that_lasts
from tests.support import http
from tests.support.patience import PATIENCE
from tests.support.ports import reserved_port

QUIET = {name: text for name, text in os.environ.items() if not name.startswith(("HUBBUB", "DO_NOT_TRACK"))}


@contextmanager
def up(folder: Path, written: str, **environment: str) -> Iterator[tuple[str, str]]:
    """A running `hubbub up`: what it printed, and the address of its dashboard."""
    (folder / "metrics.toml").write_text(written)
    ports = [f"--shuffler-port={reserved_port()}", f"--aggregator-port={(port := reserved_port())}"]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [sys.executable, "-u", "-m", "hubbub_cli", "up", *ports],
            cwd=folder,
            env=QUIET | environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert running.stdout is not None
            printed = ""
            while "Ctrl-C" not in printed:
                line = running.stdout.readline()
                assert line, (folder / "log").read_text()
                printed += line
            yield printed, f"http://127.0.0.1:{port}"
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=PATIENCE)


def snippet_of(printed: str, language: Language = "Python") -> str:
    """The indented block of code in what was printed."""
    found = re.search(rf"^in {language}.*?:\n\n(    .*?)\n\n(?=\S)", printed, re.DOTALL | re.MULTILINE)
    assert found is not None, printed
    return dedent(found[1])


def typed(snippet: str, folder: Path) -> str:
    """What the snippet prints. It must say nothing on stderr."""
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", snippet], cwd=folder, env=QUIET, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.everyday("minutes")
@pytest.mark.parametrize("name", CASES)
def test_the_printed_snippets_record_every_metric(name: str, tmp_path: Path) -> None:
    metrics = re.findall(r"^\[metrics\.(\w+)\]", CASES[name], re.MULTILINE)
    with up(tmp_path, CASES[name]) as (printed, dashboard):
        with http.client() as browser:
            page = Page(browser.get(f"{dashboard}/").text)
        in_a_period_that_lasts(re.findall(r'period = "(\w+)"', CASES[name])[0])
        for place, snippet in (("terminal", snippet_of(printed)), ("dashboard", page.all("pre")[0].text)):
            shown = typed(snippet, tmp_path / place)
            for metric in metrics:
                assert re.search(rf"^  {metric}, \d", shown, re.MULTILINE), shown
