"""Many processes on one state directory: one device, which randomizes each metric and period once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hubbub.wire import decode_upload
from hubbub_client import Outcome
from hubbub_client.testing import MemoryTransport
from tests.client.state.app_process import DAYS, SECONDS_A_DAY
from tests.client.state.test_killed import LossyTransport
from tests.client.world import DAY, TOML, World, codebook, opened, served, signed
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

PATIENT = TOML.replace('period = "1d"', 'period = "1d"\ngrace = "60d"')


def crew(address: str, directory: Path, members: int, stack: ExitStack) -> list[subprocess.Popen[str]]:
    """So many processes that have their bundle and wait for the word."""
    command = [sys.executable, "-m", "tests.client.state.app_process", address, str(directory)]
    started = [
        stack.enter_context(
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        for _ in range(members)
    ]
    for member in started:
        stack.callback(member.kill)
        assert member.stdout is not None
        assert member.stdout.readline() == "ready\n"
    return started


def report_together(
    transport: MemoryTransport, directory: Path, *, members: int, kills: int, seed: int
) -> list[dict[str, Any]]:
    """Let them record and send at the same time, kill some meanwhile; the counters of those that finished."""
    rng = random.Random(seed)
    with served(transport) as address, ExitStack() as stack:
        started = crew(address, directory, members, stack)
        began = time.time()
        for member in started:
            print(began, file=member.stdin, flush=True)
        for victim in started[:kills]:
            time.sleep(rng.random() * SECONDS_A_DAY * DAYS / (kills + 1))
            victim.kill()
        return [json.loads(member.communicate(timeout=240)[0]) for member in started[kills:]]


def check_one_randomization(transport: MemoryTransport) -> set[tuple[bytes, int]]:
    """Whatever was uploaded for a metric and period is one report in one spelling. For which ones there is one."""
    drawn, spelled = defaultdict(set), defaultdict(set)
    posted = [request.body for request in transport.requests if request.method == "POST"]
    for report in [report for body in posted for report in decode_upload(body)]:
        header, plaintext = opened(report)
        drawn[header.metric, header.period].add((plaintext.nonce, plaintext.payload))
        spelled[header.metric, header.period].add(report)
    assert {len(found) for found in drawn.values()} == {1}
    assert {len(found) for found in spelled.values()} == {1}
    return set(drawn)


def check_together(tmp_path: Path, transport: MemoryTransport, *, members: int, kills: int, seed: int) -> None:
    finished = report_together(transport, tmp_path, members=members, kills=kills, seed=seed)
    for said in finished:
        assert [name for name in said["counters"] if name.startswith(("error:", "no_durable", "dropped:"))] == []
    recorded = {period for said in finished for period in said["recorded"]}
    assert len(recorded) >= DAYS
    theme = codebook(PATIENT).metric("theme").id
    assert recorded <= {period for metric, period in check_one_randomization(transport) if metric == theme}


@pytest.mark.full  # four interpreters, five seconds
def test_four_processes_that_record_and_send_at_once_randomize_each_metric_and_period_once(tmp_path: Path) -> None:
    check_together(tmp_path, MemoryTransport(signed(PATIENT, lifetime=1_000 * DAY)), members=4, kills=0, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_also_when_some_of_them_are_killed_and_every_third_answer_is_lost(tmp_path: Path, seed: int) -> None:
    check_together(tmp_path, LossyTransport(signed(PATIENT, lifetime=1_000 * DAY)), members=8, kills=4, seed=seed)


def test_what_one_client_wrote_is_not_undone_by_another_process_that_comes_and_goes(tmp_path: Path) -> None:
    """POSIX gives up all locks of a process on a file when any handle of it is closed. A second client here must not
    do that to the first one, or a process that closes the file believes to be the last one, and deletes the log."""
    world = World(tmp_path / "state")
    passing_by = [sys.executable, "-m", "tests.client.state.passing_process", str(world.directory)]
    first = world.ready()
    with world.ready():
        subprocess.run(passing_by, cwd=ROOT, check=True, timeout=PATIENCE)
        assert first.record("theme", "dark") is Outcome.RECORDED
        assert first.flush(0)  # settles: the spend is on disk, and the report waits for its time
        seen = subprocess.run(passing_by, cwd=ROOT, check=True, timeout=PATIENCE, capture_output=True, text=True)
    first.close()
    assert seen.stdout == "spent\n"


def test_two_clients_in_one_process_are_one_device(tmp_path: Path) -> None:
    world = World(tmp_path / "state")
    first, second = world.ready(), world.ready()
    for client in (first, second):
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
        client.close()
    assert len(world.transport.reports) == 1
