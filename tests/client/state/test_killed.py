"""Killed devices: each metric and period is randomized once, and what was sent is sent again as it was."""

from __future__ import annotations

import random
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from hubbub.wire import decode_upload
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client.testing import MemoryTransport
from tests.client.state.killed_device import PERIODS
from tests.client.world import DAY, TOML, codebook, opened, served, signed
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE


class LossyTransport(MemoryTransport):
    """Every third answer to an upload is lost on its way to the device; what was uploaded is kept all the same."""

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = super().request(method, path, headers, body)
        if method == "POST" and sum(request.method == "POST" for request in self.requests) % 3 == 0:
            raise CannotReach("lost")
        return answer


def run_and_kill(address: str, directory: Path, seconds: float) -> bool:
    """Start a device, kill it after so long; whether it had finished."""
    device = subprocess.Popen(
        [sys.executable, "-m", "tests.client.state.killed_device", address, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert device.stdout is not None
    with device, device.stdout:
        assert device.stdout.readline() == "ready\n"
        timer = threading.Timer(seconds, device.kill)
        timer.start()
        finished = device.stdout.readline() == "done\n"
        timer.cancel()
        timer.join()
        device.kill()
        return finished


def check_what_a_killed_device_has_sent(tmp_path: Path, kills: int) -> None:
    """Each metric and period is randomized once and spelled once; all that was spent is in the ledger; and nothing
    that was queued is lost."""
    delays = random.Random(4)
    transport = LossyTransport(signed(TOML.replace('period = "1d"', 'period = "1d"\ngrace = "30d"')))
    with served(transport) as address:
        killed = [not run_and_kill(address, tmp_path, delays.uniform(0, 0.3)) for _ in range(kills)]
        assert any(killed)
        assert run_and_kill(address, tmp_path, 240)

    drawn = defaultdict(set)
    spelled = defaultdict(set)
    for report in [report for r in transport.requests if r.method == "POST" for report in decode_upload(r.body)]:
        header, plaintext = opened(report)
        drawn[header.metric, header.period].add((plaintext.nonce, plaintext.payload))
        spelled[header.metric, header.period].add(report)
    assert len(drawn) >= 2 * PERIODS - 1  # the mean of the last period is not due yet
    assert {len(found) for found in drawn.values()} == {1}
    assert {len(found) for found in spelled.values()} == {1}
    connection = sqlite3.connect(tmp_path / "hubbub.sqlite3")
    names = {metric.id: metric.name for metric in codebook().metrics}
    spent = set(connection.execute("SELECT metric, start FROM ledger WHERE decision = 'spent'"))
    assert {(names[metric], period * DAY) for metric, period in drawn} <= spent
    decided = connection.execute("SELECT metric, start, decision FROM ledger").fetchall()
    assert {decision for *_, decision in decided} <= {"charged", "spent"}
    pinned = [start for (start,) in connection.execute("SELECT start FROM pins")]
    assert sorted((metric, start) for metric, start, _ in decided) == sorted(
        (metric, start) for metric in names.values() for start in pinned
    )
    totals = connection.execute("SELECT sum(reports), sum(CAST(epsilon AS REAL)) FROM totals").fetchone()
    assert totals == (len(spent), sum(2 if metric == "theme" else 1 for metric, *_ in decided))
    # What was randomized and not sent yet is still there: no spend without a report.
    queued = {(names[id_], period * DAY) for id_, period in connection.execute("SELECT id, period FROM outbox")}
    assert spent <= {(names[metric], period * DAY) for metric, period in drawn} | queued
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_an_upload_that_a_kill_cut_short_reaches_nobody() -> None:
    transport = LossyTransport(signed(TOML))
    with served(transport) as address:
        host, port = address.removeprefix("http://").split(":")
        for sent in (b"", b"ten bytes!"):  # the head of a request leaves before its body
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as device:
                device.sendall(b"POST /v1/reports HTTP/1.1\r\ncontent-length: 100\r\n\r\n" + sent)
                device.shutdown(socket.SHUT_WR)
                assert device.recv(1) == b""  # it was read to its end, and not answered
    assert transport.requests == []


def test_a_device_that_is_killed_randomizes_each_metric_and_period_once(tmp_path: Path) -> None:
    check_what_a_killed_device_has_sent(tmp_path, kills=2)


@pytest.mark.full
def test_a_device_that_is_killed_a_hundred_times_randomizes_each_metric_and_period_once(tmp_path: Path) -> None:
    check_what_a_killed_device_has_sent(tmp_path, kills=100)
