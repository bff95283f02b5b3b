"""The client for the aggregator: whatever breaks on the way is an httpx2.HTTPError, which callers expect."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator

import httpx2
import pytest
import uvloop

from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import Again, Forwarder
from tests.support.patience import PATIENCE

HEADER = {"Content-Type": "text/plain"}


def upstream(client: httpx2.AsyncClient, address: str = "http://aggregator") -> Upstream:
    return Upstream(client, address=address, token=None, clock=TrustedClock(peer="its", says="nothing happens"))


class BreaksAsItIsMade(httpx2.AsyncBaseTransport):
    """As anyio under uvloop: the peer is gone when it is asked for its name."""

    async def handle_async_request(self, _request: httpx2.Request) -> httpx2.Response:
        raise AttributeError("'NoneType' object has no attribute 'getpeername'")


class ReadsTheBody(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return httpx2.Response(200)


async def test_a_connection_that_breaks_as_it_is_made_is_tried_again() -> None:
    async with httpx2.AsyncClient(transport=BreaksAsItIsMade()) as client:
        forwarder = Forwarder(upstream(client))
        assert await forwarder.verdict(bytes(16)) == Again("ConnectError")
        assert await forwarder.put(bytes(16), 4, pieces()) == Again("ConnectError")


async def pieces() -> AsyncIterator[bytes]:
    yield b"body"


async def test_a_fault_of_ours_while_the_body_is_read_is_not_taken_for_trouble_on_the_way() -> None:
    async def faulty() -> AsyncIterator[bytes]:
        yield b"bo"
        raise AttributeError("a bug")

    async with httpx2.AsyncClient(transport=ReadsTheBody()) as client:
        with pytest.raises(AttributeError, match="a bug"):
            await Forwarder(upstream(client)).put(bytes(16), 4, faulty())


def test_an_aggregator_that_resets_each_connection_raises_nothing_else() -> None:
    """Real sockets, under the event loop of the services. Up to 3 in 100 connections broke as they were made."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        threading.Thread(target=reset, daemon=True).start()

        async def ask() -> None:
            async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
                here = upstream(client, f"http://127.0.0.1:{listener.getsockname()[1]}")
                for _ in range(200):
                    with pytest.raises(httpx2.HTTPError):
                        async with here.stream("GET", "/v1/bundle", HEADER):
                            pass

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(ask())
        listener.shutdown(socket.SHUT_RDWR)
