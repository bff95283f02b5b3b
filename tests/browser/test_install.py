"""A missing browser: no failure, and the summary says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def _prepare(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "scripts/chromium.sh"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_browser_that_is_there_is_taken_in_silence() -> None:
    done = _prepare(HUBBUB_CHROMIUM="/bin/true", PATH="/nonexistent")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("environment", [{"HUBBUB_CHROMIUM": "/nonexistent"}, {"PATH": "/nonexistent"}])
def test_where_none_can_be_had_the_build_goes_on_and_says_so(environment: dict[str, str]) -> None:
    done = _prepare(**environment)
    assert done.returncode == 0
    assert "the browser tests will NOT run" in done.stderr


@pytest.mark.full
def test_a_run_without_a_browser_ends_with_a_loud_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/browser/test_detectors.py"],
        cwd=ROOT,
        env={**os.environ, "HUBBUB_CHROMIUM": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "BROWSER TESTS DID NOT RUN" in "\n".join(done.stdout.splitlines()[-3:])
