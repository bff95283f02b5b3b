"""Servers and jobs: they start and end together. No header decides where a request comes from."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hubbub.errors import InvalidParameter
from hubbub_service_common.http.server import Server, listen, serve_together, server_config
from tests.support import http
from tests.support.patience import PATIENCE


async def who(scope: Any, _receive: Any, send: Any) -> None:
    """Answers with the address that the request is said to come from, and by which scheme."""
    body = f"{scope['client'][0]} {scope['scheme']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def for_ever() -> None:
    await asyncio.Event().wait()


async def served(test: Callable[[str], Awaitable[None]], *jobs: Callable[[], Any]) -> None:
    """Serve, with the test as one of the jobs: its end is the end of all."""
    with listen("127.0.0.1", 0) as listener:
        server = Server(server_config(who, shutdown_timeout=1), listener)

        async def testing() -> None:
            await test(server.address)

        async with asyncio.timeout(PATIENCE):
            await serve_together([server], testing(), *(job() for job in jobs))


async def test_what_a_proxy_says_is_not_believed_and_the_server_does_not_name_itself() -> None:
    async def test(address: str) -> None:
        headers = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        async with http.async_client() as client:
            answer = await client.get(address, headers=headers)
        assert answer.text == "127.0.0.1 http"
        assert "server" not in answer.headers
        assert answer.headers["date"].endswith(" GMT")  # by which the other service knows this clock
        assert "strict-transport-security" not in answer.headers  # it is for TLS alone

    await served(test)


async def test_a_job_that_fails_ends_the_servers_and_is_told() -> None:
    async def test(_address: str) -> None:
        raise LookupError("a job failed")

    with pytest.raises(LookupError, match="a job failed"):
        await served(test, for_ever)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_servers_and_jobs(number: signal.Signals) -> None:
    async def test(_address: str) -> None:
        os.kill(os.getpid(), number)
        await for_ever()

    await served(test, for_ever)


def test_an_address_that_cannot_be_had_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidParameter, match=f"can't listen on 127.0.0.1 port {port}: "):
            listen("127.0.0.1", port)
    with pytest.raises(InvalidParameter, match=r"can't listen on 192\.0\.2\.1 port 0: "):
        listen("192.0.2.1", 0)


def test_localhost_is_where_everybody_looks_first() -> None:
    with listen("localhost", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


async def test_a_signal_lets_requests_end_though_another_server_has_none() -> None:
    """The one without requests ends at once; that must not cut short what the other has in work."""
    said: list[str] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = (await receive())["type"]
                said.append(kind)
                await send({"type": f"{kind}.complete"})
            return
        os.kill(os.getpid(), signal.SIGTERM)
        while running:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # the other one has ended, and whoever listens for that has heard of it
        await who(scope, receive, send)

    running: set[Server] = set()

    class Noted(Server):
        async def run_here(self) -> None:
            running.add(self)
            await super().run_here()
            running.discard(self)

    with listen("127.0.0.1", 0) as one, listen("127.0.0.1", 0) as two:
        busy = Server(server_config(slow, lifespan="on", shutdown_timeout=60), one)
        idle = Noted(server_config(who), two)

        async def ask() -> str:
            while not (busy.started and idle.started):
                await asyncio.sleep(0.01)
            async with http.async_client() as client:
                return (await client.get(busy.address)).text

        asking = asyncio.create_task(ask())
        async with asyncio.timeout(PATIENCE):
            await serve_together([busy, idle])
            assert await asking == "127.0.0.1 http"
    assert said == ["lifespan.startup", "lifespan.shutdown"]


async def test_what_is_not_http_is_answered_with_a_problem_document() -> None:
    async def test(address: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(b"canary is no request\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in answer
        assert b"canary" not in answer

    await served(test)
