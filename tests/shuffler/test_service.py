"""The shuffler as a real process on the real clock: it forgets who asked, and survives being killed."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from hubbub.wire import REPORTS_TYPE, sealed_bytes
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import AggregatorServer, ShufflerProcess
from tests.shuffler.raw_connections import get
from tests.shuffler.world import StubAggregator, codebook, files_of, key, signed, unique, upload
from tests.support import http
from tests.support.patience import wait_for

SECONDS = 2
BOOK = codebook(min_batch=2, period=f"{SECONDS}s", grace=f"{2 * SECONDS}s")
METRIC = BOOK.metric("dark_mode")
SIZE = sealed_bytes(METRIC.mechanism.report_bytes)
TYPE = {"Content-Type": REPORTS_TYPE}
CANARY = "canary-5f1d"


def aggregator() -> StubAggregator:
    now = time.time()
    period = METRIC.calendar.index_at(now)
    return StubAggregator(signed(now, book=BOOK, keys=(key(1, period - 1_000, period + 1_000),), max_age=2))


def for_now(sealed: list[bytes]) -> bytes:
    return upload(sealed, metric=METRIC.id, period=METRIC.calendar.index_at(time.time()))


def ready(shuffler: ShufflerProcess) -> bool:
    return get(f"{shuffler.address}/readyz")[0] == 200


def raw(address: str, head: str, body: bytes) -> bytes:
    """Send these bytes, no more, hang up, and take what comes back."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), 10) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(65_536)


def test_a_run_with_a_kill_and_a_sigterm_delivers_all_and_leaves_no_trace_of_who_reported(tmp_path: Path) -> None:
    state, log, stub = tmp_path / "state", tmp_path / "log", aggregator()
    sealed, cut_off = unique(20, SIZE), unique(1, SIZE)
    headers = {**TYPE, "User-Agent": CANARY, "X-Device": CANARY, "Cookie": f"id={CANARY}"}
    head = f"POST /v1/reports HTTP/1.1\nHost: {CANARY}\nContent-Type: {REPORTS_TYPE}\nContent-Length: "
    with AggregatorServer(stub) as address:
        with ShufflerProcess(state, address, log, min_batch_floor="2", tick="0.1") as shuffler:
            wait_for(lambda: ready(shuffler))
            url = f"{shuffler.address}/v1/reports"
            # again where the period is over before the upload is there
            wait_for(lambda: http.post(url, content=for_now(sealed), headers=headers).status_code == 202)
            shuffler.kill()
        assert sealed[0] in files_of(state)
        with ForkedProcess(state, address, log, min_batch_floor="2", tick="0.1") as shuffler:
            assert http.get(f"{shuffler.address}/v1/{CANARY}?{CANARY}", headers=headers).status_code == 404
            body = for_now(cut_off)
            raw(shuffler.address, f"{head}{len(body)}\n\n", body[:-1])
            assert b" 413 " in raw(shuffler.address, f"{head}{2**30}\n\n", b"")
            raw(shuffler.address, f"{CANARY} not HTTP at all\n\n", b"\0\xff")
            assert cut_off[0] not in files_of(state)
            wait_for(lambda: stub.delivered() and not any(each in files_of(state) for each in sealed))
            assert Counter(stub.delivered()) == Counter(sealed)
            assert stub.delivered() != sealed
            assert shuffler.stop() == 0
    assert CANARY.encode() not in files_of(tmp_path) + str(stub.requests).encode()
    assert b"127.0.0.1" not in files_of(state)


def test_a_state_directory_that_anyone_could_read_is_made_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    with AggregatorServer(aggregator()) as address, ForkedProcess(state, address, tmp_path / "log") as shuffler:
        wait_for(lambda: ready(shuffler))
        modes = {path.name: path.stat().st_mode & 0o777 for path in state.iterdir()}
        assert state.stat().st_mode & 0o777 == 0o700
        assert {"reports.sqlite", "reports.sqlite-wal", "bundle"} <= set(modes)
        assert set(modes.values()) == {0o600}, modes


def report_until_it_dies(address: str, until: float, acknowledged: list[bytes], unsure: list[bytes]) -> None:
    """One device after the other; each sends the same bytes twice, as after a lost answer."""
    with http.client(base_url=address, headers=TYPE) as client:
        while time.monotonic() < until:
            sealed = unique(5, SIZE)
            body, taken = for_now(sealed), False
            try:
                for _ in range(2):
                    taken = client.post("/v1/reports", content=body).status_code == 202 or taken
            except httpx2.TransportError:
                until = 0
            (acknowledged if taken else unsure).extend(sealed)


def left_in(kept: bytes, sealed: list[bytes]) -> list[bytes]:
    """Those of these that are still there."""
    return [each for each in sealed if each in kept]


@pytest.mark.full
@pytest.mark.parametrize("kills", [20])
def test_killed_again_and_again_it_delivers_each_acknowledged_report_once(tmp_path: Path, kills: int) -> None:
    state, log, stub = tmp_path / "state", tmp_path / "log", aggregator()
    acknowledged: list[bytes] = []
    unsure: list[bytes] = []
    settings = {"min_batch_floor": "2", "tick": "0.05", "lease": "2", "longest_backoff": "1"}
    with AggregatorServer(stub) as address:
        for life in range(kills):
            with ForkedProcess(state, address, log, **settings) as shuffler:
                wait_for(partial(ready, shuffler))
                killer = threading.Timer(0.2 + 0.37 * (life % 7), shuffler.kill)
                killer.start()
                report_until_it_dies(shuffler.address, time.monotonic() + 10, acknowledged, unsure)
                killer.join()
        with ForkedProcess(state, address, log, **settings) as shuffler:
            wait_for(lambda: set(acknowledged) <= set(stub.delivered()))
            sample = (
                acknowledged[:: len(acknowledged) // 50 + 1] + acknowledged[-5:]
            )  # looking for each would take minutes
            wait_for(lambda: not left_in(files_of(state), sample))
            assert shuffler.stop() == 0
    assert len(acknowledged) > 100
    delivered = Counter(stub.delivered())
    assert set(delivered.values()) == {1}
    assert set(delivered) <= set(acknowledged) | set(unsure)
    assert all(stub.batches[batch_id] == body for batch_id, body in stub.puts)
