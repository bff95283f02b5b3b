"""Forks: a child sends by a thread of its own, waits for no lock of its parent, and randomizes nothing again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub_client.testing import MemoryTransport
from tests.client.process.forking_app import CHILDREN, TOML
from tests.client.state.test_processes import check_one_randomization
from tests.client.world import forks, opened, served, signed
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE, within
from tests.support.ports import reserved_port

NAMES = {metric.id: metric.name for metric in Codebook.from_toml(TOML).metrics}

pytestmark = forks


def arrived(transport: MemoryTransport) -> list[str]:
    """The metric of each acknowledged report."""
    return sorted(NAMES[opened(report)[0].metric] for report in transport.reports)


EVERY_METRIC = sorted(NAMES.values())


def check_that_children_report(way: str, tmp_path: Path) -> None:
    transport = MemoryTransport(signed(TOML))
    with served(transport) as address:
        run = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore::DeprecationWarning",
                "-m",
                "tests.client.process.forking_app",
                way,
                address,
                tmp_path,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=3 * PATIENCE,
            check=True,
        )
    said = sorted(tuple(map(int, line.split())) for line in run.stdout.splitlines())
    assert [number for number, _, _ in said] == list(range(CHILDREN + 1))
    assert all(threads == 1 for _, _, threads in said), "each process has one thread of ours, not its parent's"
    if way != "in a crowd":  # where more is recorded all the time
        assert all(sent for _, sent, _ in said), "a process waits for another to send"
    check_one_randomization(transport)
    assert sorted(set(arrived(transport))) == EVERY_METRIC


FULL = pytest.mark.full


@pytest.mark.everyday("in use")
@pytest.mark.parametrize(
    "way", [pytest.param("before", marks=FULL), "in use", pytest.param("fork", marks=FULL), "spawn"]
)
def test_every_child_reports_by_itself(way: str, tmp_path: Path) -> None:
    """`before` and `in use` are os.fork, the other two are ways of multiprocessing."""
    check_that_children_report(way, tmp_path)


def test_every_child_reports_even_if_threads_of_its_parent_hold_every_lock(tmp_path: Path) -> None:
    check_that_children_report("in a crowd", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("again", range(10))
def test_every_child_reports_even_if_forked_at_the_worst_moment(again: int, tmp_path: Path) -> None:
    check_that_children_report("in a crowd", tmp_path / str(again))


@contextmanager
def gunicorn(address: str, state: Path, workers: int) -> Iterator[str]:
    """A real one with --preload; yields where it listens."""
    port = reserved_port()
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", str(workers), "--bind", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        [*command, "--log-level", "warning", "--no-control-socket", "tests.client.process.preloaded_wsgi_app:app"],
        cwd=ROOT,
        env={**os.environ, "TEST_ADDRESS": address, "TEST_STATE": str(state)},
        start_new_session=True,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            with within(10):
                server.wait(PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # whoever is left
            server.wait()


def get(address: str) -> str:
    """The answer, once there is a server."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  our own address
                return str(answer.read().decode())
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def test_workers_of_a_preloaded_gunicorn_report(tmp_path: Path) -> None:
    transport = MemoryTransport(signed(TOML))
    with served(transport) as address, gunicorn(address, tmp_path, workers=2) as site:
        answers = [get(f"{site}/{name}").split() for name in [name for name in EVERY_METRIC if name != "own0"] * 4]
        assert {outcome for _, outcome in answers} == {"recorded"}
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and sorted(set(arrived(transport))) != EVERY_METRIC:
            time.sleep(0.05)
    assert sorted(set(arrived(transport))) == EVERY_METRIC
    check_one_randomization(transport)
