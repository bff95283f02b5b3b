"""Peers that leave early: not an error of the service, so neither logged nor counted, at any byte and in any way."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hubbub.wire import BATCH_TYPE
from hubbub_aggregator.settings import Settings
from hubbub_service_common.http.server import Server, listen, server_config
from tests.aggregator.process import Served
from tests.aggregator.world import CODEBOOK, remember
from tests.service_common.early_disconnects import WAYS, leave_often
from tests.shuffler.raw_connections import body, refused, request, running
from tests.support import http
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PIECE = bytes(2**20)


class Slow:
    """An application that answers when it is told to, and keeps what was raised in it."""

    def __init__(self, pieces: int = 1) -> None:
        self.pieces, self.errors = pieces, list[BaseException]()
        self.asked, self.go_on, self.done = asyncio.Event(), asyncio.Event(), 0

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        try:
            await receive()  # reads on, where requests that were sent ahead had stopped that
            self.asked.set()
            await self.go_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for number in range(self.pieces):
                more = number + 1 < self.pieces
                await send({"type": "http.response.body", "body": PIECE, "more_body": more})
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            self.done += 1


def served(scenario: Callable[[Slow, Server], Any], app: Slow) -> None:
    async def go() -> None:
        with listen("127.0.0.1", 0) as listener:
            server = Server(server_config(app, shutdown_timeout=1), listener)
            serving = asyncio.create_task(server.run_here())
            try:
                async with asyncio.timeout(PATIENCE):
                    await scenario(app, server)
            finally:
                server.stop()
                await serving

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(go())


@pytest.mark.parametrize("pieces", [1, 20], ids=["one piece", "many"])
@pytest.mark.parametrize("requests", [1, 2, 5])
@pytest.mark.parametrize("way", range(3), ids=["close", "reset", "half-close"])
def test_an_answer_to_a_peer_that_has_left_goes_nowhere(
    caplog: pytest.LogCaptureFixture, way: int, requests: int, pieces: int
) -> None:
    """With requests sent ahead, it is not the newest of them that is in work when the connection is lost."""

    async def scenario(app: Slow, server: Server) -> None:
        host, port = server.address.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), 60)
        connection.sendall(ASK * requests)
        await app.asked.wait()
        await asyncio.to_thread(WAYS[way], connection)
        while server.server_state.connections:  # until the loss is noticed
            await asyncio.sleep(0.01)
        app.go_on.set()
        while server.server_state.tasks:
            await asyncio.sleep(0.01)
        assert app.done >= 1
        assert app.errors == []

    with caplog.at_level(logging.INFO):
        served(scenario, Slow(pieces))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_peer_that_leaves_while_it_is_answered_is_no_error_either(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(app: Slow, server: Server) -> None:
        host, port = server.address.removeprefix("http://").split(":")
        app.go_on.set()
        for way in WAYS * 5:
            connection = socket.create_connection((host, int(port)), 60)
            connection.sendall(ASK * 3)
            threading.Thread(target=way, args=[connection]).start()
        while app.done < 5 * len(WAYS) or server.server_state.tasks:
            await asyncio.sleep(0.01)
        assert app.errors == []

    with caplog.at_level(logging.INFO):
        served(scenario, Slow(3))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_fault_of_ours_is_still_one_whoever_has_left(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Slow):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await super().__call__(scope, receive, send)
            raise RuntimeError("a bug")

    async def scenario(app: Slow, server: Server) -> None:
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(ASK * 2)
            await app.asked.wait()
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        app.go_on.set()
        while server.server_state.tasks:
            await asyncio.sleep(0.01)

    served(scenario, Faulty())
    assert [record.getMessage().strip() for record in caplog.records] == ["Exception in ASGI application"]


def asking(*paths: str) -> list[bytes]:
    return [f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths]


ROUNDS = [pytest.param(60), pytest.param(3_000, marks=pytest.mark.full)]


def complaints(log: str) -> list[str]:
    return [line for line in log.splitlines() if "internal error" in line or "Exception" in line]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nobody_can_raise_the_internal_errors_of_a_shuffler(tmp_path: Path, rounds: int) -> None:
    with running(tmp_path) as shuffler:
        uploads = [request(body(count)) for count in (1, 1, 1, 50)] + [request(body()).replace(b"vnd.", b"vnd-")]
        paths = asking("/v1/bundle", "/v1/status", "/readyz", "/healthz", "/openapi.json", "/nowhere")
        leave_often(shuffler.address, [*uploads, *uploads, *paths], rounds, seed=1)
        leave_often(shuffler.admin, asking("/metrics", "/v1/status", "/readyz"), rounds // 4, seed=2)
        assert refused(shuffler, "internal-error") == 0
        assert complaints(shuffler.log.read_text()) == []


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nor_those_of_an_aggregator(tmp_path: Path, rounds: int) -> None:
    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    settings = {"codebook": tmp_path / "codebook.json", "state_dir": tmp_path / "state", "port": 0, "processes": 1}
    remember(Settings(state_dir=tmp_path / "state"))
    put = (
        f"PUT /v1/batches/{'ab' * 16} HTTP/1.1\r\nHost: x\r\nContent-Type: {BATCH_TYPE}\r\nContent-Length: 400\r\n\r\n"
    )
    paths = asking("/v1/bundle", "/v1/status", "/v1/metrics", "/readyz", "/openapi.json", "/", "/privacy", "/nowhere")
    with Served(tmp_path / "log", **settings) as aggregator:
        leave_often(aggregator.address, [put.encode() + bytes(400), *paths], rounds, seed=3)
        counted = http.get(f"{aggregator.address}/v1/status").json()["refused_requests"]
        assert counted.get("internal-error", 0) == 0
        assert complaints(aggregator.log()) == []
