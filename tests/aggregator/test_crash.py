"""kill -9 at any point: a verdict, its counts, its nonces and its record are all stored, or none of them is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub_aggregator.intake.open_reports import Pool
from tests.aggregator.backends import counted
from tests.aggregator.crashing_process import POINTS
from tests.aggregator.world import Site
from tests.support.patience import PATIENCE


def prepared(root: Path, pool: Pool) -> bytes:
    """A state directory in which one batch is acknowledged and waits."""
    site = Site.open(root, pool)
    name = os.urandom(16)
    assert site.put(site.batch("dark_mode", [True] * 150), name).status_code == 202
    site.close()
    return name


def all_or_nothing(root: Path, pool: Pool, name: bytes) -> str:
    """Check the state that a crash left, finish the work, and say how far it had come."""
    site = Site.open(root, pool)
    batch, release = site.service.storage.batch(name), site.service.storage.release(name)
    assert batch is not None
    found = batch.state
    pair = site.service.storage, batch.header.metric, batch.header.period
    marks, nonces = site.service.storage.accepted(*pair[1:]), counted(*pair)
    if found == "pending":
        assert (release, marks, nonces) == (None, [], [])
    else:
        assert release is not None
        assert (marks, [len(each) for each in nonces]) == ([name], [150 * 16])
    site.work()
    verdict = site.json(f"/v1/batches/{name.hex()}")
    assert (verdict["state"], verdict["valid"]) == ("accepted", 150)
    (segment,) = site.json("/v1/metrics/dark_mode/estimate")["segments"]
    assert segment["reports"] == 150
    assert list((site.state_dir / "spool").iterdir()) == []
    site.close()
    return found


def killed_at(root: Path, pool: Pool, point: str) -> str:
    name = prepared(root, pool)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.aggregator.crashing_process", str(root), point],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return all_or_nothing(root, pool, name)


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=[] if point == "counted" else [pytest.mark.full]) for point in POINTS],
)
def test_killed_while_it_commits_a_batch_is_whole_and_counted_once(tmp_path: Path, pool: Pool, point: str) -> None:
    assert killed_at(tmp_path, pool, point) == ("accepted" if point == "committed" else "pending")


def test_what_was_cut_off_before_it_was_acknowledged_leaves_nothing(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool)
    stray = site.state_dir / "spool" / "cut-off"
    stray.write_bytes(b"half a batch")
    name = os.urandom(16)
    site.put(site.batch("dark_mode", [True] * 150), name)
    site.reopen()
    assert not stray.exists()
    site.work()
    assert site.json(f"/v1/batches/{name.hex()}")["state"] == "accepted"
    site.close()
