"""Whole load runs, small: real services, Locust, and the check. They take long, since periods have to close."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 900


def run(out: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, what was printed and the JSON of a run with few users."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.load.run",
        "--users",
        "12",
        "--rate",
        "150",
        "--out",
        str(out),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    document = next(out.glob("*.json"), None)
    assert document is not None, done.stderr
    assert document.with_suffix(".html").stat().st_size > 10_000
    return done.returncode, done.stdout, json.loads(document.read_text())


@pytest.mark.full
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(
    ("storage", "shape"), [("sqlite", "steady"), ("redis", "steady"), ("sqlite", "spike"), ("redis", "outage")]
)
def test_every_acknowledged_report_is_counted_once_under_load(tmp_path: Path, storage: str, shape: str) -> None:
    code, said, figures = run(tmp_path, "--minutes", "0.4", "--storage", storage, "--shape", shape)
    assert code == 0, said
    assert figures["reckoning"]["acknowledged"] > 500
    assert figures["reckoning"]["counted"] == figures["reckoning"]["acknowledged"] - figures["reckoning"]["discarded"]
    assert figures["junk"], "nobody sent nonsense"
    assert len(figures["outages"]) == 2 * (shape == "outage")


@pytest.mark.full
@pytest.mark.timeout(PATIENCE)
def test_a_lost_and_a_doubled_report_in_a_real_run_fail_it(tmp_path: Path) -> None:
    code, said, figures = run(tmp_path, "--minutes", "0.2", "--plant", "lost", "--plant", "doubled")
    assert code == 1
    assert (figures["reckoning"]["lost"], figures["reckoning"]["doubled"]) == (1, 1)
    assert figures["reckoning"]["uncalled_for"] == 0
    assert "FAILED" in said
