"""A bad network: a TCP proxy that knows where a request ends, and loses, repeats, delays, cuts and forges."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Self

from tests.support.patience import PATIENCE

__all__ = ["Proxy"]

SHARE = 0.5
"""Of all requests that are mistreated."""
LONGEST_DELAY, LATEST_REPLAY = 7.0, 20.0
FATES = (
    *("lose the answer", "twice", "race", "delay", "reset before", "reset in the middle"),
    *("cut the request", "cut the answer", "odd answer", "replay later"),
)
PAGE = b"<html><body>Please log in to use this network.</body></html>"
ODD = (
    b"HTTP/1.1 302 Found\r\nLocation: http://portal.invalid/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(PAGE) + PAGE,
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(PAGE)
    + PAGE,
    b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00 this is no HTTP at all\r\n\r\n",
)
"""Captive portals, misconfigured proxies, nonsense. None of them comes from a service."""


class Proxy:
    """On a port of its own, in a thread, from entering to leaving. Takes its targets in turn; one that is down is left
    out. Good unless `bad`."""

    def __init__(self, targets: Sequence[int], *, seed: int, bad: bool, longest_delay: float = LONGEST_DELAY) -> None:
        self._targets, self._turn, self._bad, self._longest_delay = list(targets), 0, bad, longest_delay
        self._rng = random.Random(f"proxy {seed}")
        self.did: Counter[str] = Counter()
        self.coming: deque[str] = deque()
        """What is to become of the next requests: fates, which come before chance."""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._later: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def mistreated(self) -> int:
        return sum(self.did.values()) - self.did["pass"]

    def behave(self) -> None:
        """From now on it only carries."""
        self._bad = False
        self.coming.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request for each connection: it is closed after the answer."""
        try:
            request = await _request(reader)
            if request:
                await self._treat(request, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, TimeoutError):
            _reset(writer)
        finally:
            writer.close()

    async def _treat(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        rng = self._rng
        fate = rng.choice(FATES) if self._bad and rng.random() < SHARE else "pass"
        if self.coming:
            fate = self.coming.popleft()
        part, late, odd = rng.random(), rng.random(), rng.choice(ODD)
        self.did[fate] += 1
        match fate:
            case "reset before":
                _reset(writer)
                return
            case "reset in the middle" | "cut the request":
                await self._send_part(request, part, reset=fate == "reset in the middle")
                _reset(writer)
                return
            case "odd answer":
                writer.write(odd)
                await writer.drain()
                return
            case "delay":
                await asyncio.sleep(late * self._longest_delay)
            case "replay later":
                self._soon(self._replay(request, late * LATEST_REPLAY))
        copies = {"twice": 1, "race": 3}.get(fate, 1)
        answers = await asyncio.gather(*(self._forward(request) for _ in range(copies)), return_exceptions=True)
        if fate == "twice":
            answers += await asyncio.gather(self._forward(request), return_exceptions=True)
        good = [answer for answer in answers if isinstance(answer, bytes)]
        # of several copies the one that was taken is told about: a refusal is to prove that nothing was kept
        answer = next((each for each in good if each.startswith(b"HTTP/1.1 20")), good[0] if good else b"")
        if fate == "lose the answer" or not answer:
            return
        writer.write(answer[: int(part * len(answer))] if fate == "cut the answer" else answer)
        await writer.drain()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _replay(self, request: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(OSError, TimeoutError):
            await self._forward(request)

    async def _forward(self, request: bytes) -> bytes:
        """The whole answer to a request; empty where the service hung up."""
        reader, writer = await self._connect()
        try:
            writer.write(request)
            await writer.drain()
            return await asyncio.wait_for(reader.read(-1), PATIENCE)
        finally:
            writer.close()

    async def _send_part(self, request: bytes, share: float, *, reset: bool) -> None:
        _, writer = await self._connect()
        writer.write(request[: int(share * len(request))])
        await writer.drain()
        if reset:
            await asyncio.sleep(0.01)
            _reset(writer)
        else:
            writer.write_eof()
            await asyncio.sleep(0.2)
        writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To the next target that is up."""
        self._turn += 1
        for step in range(len(self._targets)):
            try:
                port = self._targets[(self._turn + step) % len(self._targets)]
                return await asyncio.open_connection("127.0.0.1", port, limit=2**24)
            except OSError:
                continue
        raise ConnectionRefusedError("no target is up")


async def _request(reader: asyncio.StreamReader) -> bytes:
    """One whole request, changed so that its connection ends with the answer; empty if there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith((b"connection:", b"expect:"))]
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    if b"transfer-encoding" in fields:
        raise ValueError("a request without a length is not carried")
    body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST, as a router does that has forgotten it."""
    held = writer.get_extra_info("socket")
    if held is not None and held.fileno() >= 0:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
