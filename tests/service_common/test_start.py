"""The start of both services: it waits for a storage that is away, and says in one sentence what waiting can't mend."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_aggregator.storage import open_storage as open_releases
from hubbub_service_common.http import server as serving
from hubbub_service_common.http.server import listen
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageAway, StorageError
from hubbub_service_common.storage.wait_for_storage import open_when_reachable
from hubbub_shuffler.storage import open_storage as open_reports
from tests.aggregator.world import CODEBOOK, remember
from tests.shuffler.raw_connections import answer_to, get, problem
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for, within
from tests.support.ports import reserved_port
from tests.support.redis_server import RedisServer, one_server

SERVICES = ["shuffler", "aggregator"]


class Started:
    """`hubbub shuffler` or `hubbub aggregator` in a process of its own, from the moment that it is made."""

    def __init__(self, root: Path, service: str, **settings: object) -> None:
        self.address = f"http://127.0.0.1:{settings.setdefault('port', reserved_port())}"
        self.admin = f"http://127.0.0.1:{settings.setdefault('admin_port', reserved_port())}"
        settings["state_dir"] = root / "state"
        if service == "aggregator":
            write_compiled(root / "codebook.json", CODEBOOK)
            settings |= {"codebook": root / "codebook.json", "processes": 1}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
        environment |= {f"HUBBUB_{service.upper()}_{name.upper()}": str(value) for name, value in settings.items()}
        self._log = root / "log"
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "hubbub_cli", service]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def log(self) -> str:
        return self._log.read_text()

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return get(f"{self.address}/healthz")[0] == 200
        except OSError:
            return False

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        return self.process.wait(PATIENCE)


@contextmanager
def started(root: Path, service: str, **settings: object) -> Iterator[Started]:
    made = Started(root, service, **settings)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(PATIENCE)


def reasons(address: str) -> list[str]:
    try:
        status, content = get(f"{address}/readyz")
    except OSError:  # asked at the very moment in which the service itself takes over
        return ["no answer"]
    return [] if status == 200 else [reason["name"] for reason in json.loads(content)["reasons"]]


@pytest.mark.everyday("shuffler")
@pytest.mark.parametrize("service", SERVICES)
def test_a_start_waits_for_redis_and_answers_meanwhile(tmp_path: Path, service: str) -> None:
    server = RedisServer(tmp_path / "redis")
    if service == "aggregator":
        remember(AggregatorSettings(state_dir=tmp_path / "state"))
    with started(tmp_path, service, storage=server.url, log_format="json") as process:
        wait_for(process.answers)
        assert reasons(process.address) == reasons(process.admin) == ["storage"]
        status, headers, content = answer_to(process.address, b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, problem(content)) == (503, "overloaded")
        assert int(headers["retry-after"]) > 0
        try:
            server.start()
            # a shuffler without an aggregator has no bundle; its storage is there all the same
            wait_for(lambda: reasons(process.address) == (["bundle"] if service == "shuffler" else []))
            wait_for(lambda: reasons(process.admin) == reasons(process.address))
            assert process.stop() == 0
        finally:
            server.stop()
        lines = [json.loads(line) for line in process.log().splitlines()]  # every one of them is an object
    said = [
        (line["level"], line["message"])
        for line in lines
        if "storage" in line["message"] and "no known limit" not in line["message"]
    ]
    assert [level for level, _ in said] == ["warning", "info"]
    assert "127.0.0.1" in said[0][1] or "refused" in said[0][1]


@pytest.mark.parametrize("service", ["shuffler", pytest.param("aggregator", marks=pytest.mark.full)])
def test_a_signal_ends_a_start_that_waits_at_once(tmp_path: Path, service: str) -> None:
    """Also while an attempt is under way that takes its time: nobody answers on this port."""
    with listen("127.0.0.1", 0) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0?socket_timeout=3"
        with started(tmp_path, service, storage=url) as process:
            wait_for(process.answers)
            with within(5):
                assert process.stop() == 0
            assert "Traceback" not in process.log()


class Loading(socketserver.StreamRequestHandler):
    """A Redis that reads its file, and says so whatever it is asked."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            if line.startswith(b"*"):
                for _ in range(int(line[1:])):
                    self.rfile.read(int(self.rfile.readline()[1:]) + 2)
                self.wfile.write(b"-LOADING Redis is loading the dataset in memory\r\n")


def openings(url: str) -> list[Callable[[], Any]]:
    return [
        lambda: open_reports(url, clock=lambda: 0.0, entropy=os.urandom),
        lambda: open_releases(url, anchor="ed25519:x", secret=bytes(32)),
    ]


def test_a_redis_that_is_down_or_loads_is_away() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Loading) as loading:
        threading.Thread(target=loading.serve_forever, daemon=True).start()
        for port in (loading.server_address[1], reserved_port()):
            for opening in openings(f"redis://127.0.0.1:{port}"):
                with pytest.raises(StorageAway):
                    opening()
        loading.shutdown()


def test_a_cluster_that_is_not_formed_yet_is_away(tmp_path: Path) -> None:
    with one_server(tmp_path, "--cluster-enabled", "yes") as node:
        for opening in openings(f"redis+cluster://127.0.0.1:{node.port}"):
            with pytest.raises(StorageAway):
                opening()


def test_a_redis_that_takes_no_writes_is_not_said_to_be_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is there and its address is right: what is said is what to do about it."""
    monkeypatch.setattr(serving, "run", lambda work: work.close())  # as if a signal came at once
    log = logging.getLogger("a-service")

    def said(url: str) -> str:
        caplog.clear()
        assert open_when_reachable(openings(url)[1], lambda _opened: None, [], log) is None
        (record,) = caplog.records
        return record.getMessage()

    with one_server(tmp_path, "--maxmemory", "1") as server:
        full = said(server.url)
        assert "raise maxmemory" in full
        assert "address" not in full
    assert "Start it, or correct its address" in said(server.url)


def test_what_no_waiting_mends_is_not_waited_for(tmp_path: Path) -> None:
    with one_server(tmp_path, "--requirepass", "a-password") as server:
        for wrong in (f"redis://:another@127.0.0.1:{server.port}", server.url, f"{server.url}?no_such_option=1"):
            for opening in openings(wrong):
                with pytest.raises(StorageError) as caught:
                    opening()
                assert not isinstance(caught.value, StorageAway)
        RedisClient(f"redis://:a-password@127.0.0.1:{server.port}").close()


@pytest.mark.everyday("shuffler-*")
@pytest.mark.parametrize(
    ("service", "taken", "format_"),
    [
        ("shuffler", "admin_port", "json"),
        ("aggregator", "port", "text"),
        pytest.param("shuffler", "port", "text", marks=pytest.mark.full),
        pytest.param("aggregator", "admin_port", "json", marks=pytest.mark.full),
    ],
)
def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path, service: str, taken: str, format_: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = {taken: other.getsockname()[1], "log_format": format_}
        with started(tmp_path, service, **settings) as process:
            assert process.process.wait(PATIENCE) == 1
            (line,) = process.log().splitlines()
    said = json.loads(line)["message"] if format_ == "json" else line.removeprefix("Error: ")
    port = settings[taken]
    assert said == (
        f"can't listen on 127.0.0.1 port {port}: Address already in use: another process listens there; "
        f"end it, or set another {taken}"
    )


@pytest.mark.everyday("shuffler")
@pytest.mark.parametrize("service", SERVICES)
def test_settings_that_can_not_be_used_are_one_line_as_json_where_all_lines_are(tmp_path: Path, service: str) -> None:
    with started(tmp_path, service, log_format="json", head_timeout=-1, body_rate="fast") as process:
        assert process.process.wait(PATIENCE) == 1
        (line,) = process.log().splitlines()
    said = json.loads(line)
    assert (said["level"], said["logger"]) == ("critical", f"hubbub_{service}")
    assert said["message"].startswith(f"these settings of the {service} can't be used: ")
    assert "head_timeout" in said["message"]
    assert "body_rate" in said["message"]
