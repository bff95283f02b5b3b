"""Network of a world: requests between processes, and what may happen to one on its way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import httpx2

from tests.world.event_loop import PROCESS
from tests.world.process import Killed, Process

if TYPE_CHECKING:
    from tests.world.event_loop import WorldLoop
    from tests.world.operations import Kind

__all__ = ["Answer", "Faults", "Forwards", "Lost", "Request", "ask"]

_PATIENCE = 60.0
"""Seconds that a sender waits for an answer."""


class Lost(Exception):
    """No answer came: the request may have been carried out, or not."""


@dataclass(frozen=True)
class Request:
    """One request, as it is sent."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


ODD = (
    Answer(200, {"content-type": "text/html"}, b"<html>Please log in</html>"),
    Answer(302, {"location": "https://portal.invalid/"}, b""),
    Answer(404, {"content-type": "text/html"}, b"not here"),
    Answer(413, {}, b""),
    Answer(200, {"content-type": "application/json"}, b"{}"),
    Answer(503, {"retry-after": "30"}, b""),
    Answer(502, {}, b"bad gateway"),
)


@dataclass
class Faults:
    """What is to happen to the next requests of one sender on one hop."""

    coming: deque[Kind] = field(default_factory=deque)

    def next(self) -> Kind | None:
        return self.coming.popleft() if self.coming else None


Served = Callable[[], tuple[Process, Any] | None]
"""The process that would answer now, and its application; None if nothing listens."""


async def ask(loop: WorldLoop, served: Served, request: Request, *, cut: bool = False) -> Answer:
    """One request carried out by whoever listens. Lost if there is no answer. `cut`: the body ends too early."""
    found = served()
    if found is None:
        raise Lost
    process, app = found
    if process.dead:
        raise Lost
    done: asyncio.Future[Answer] = loop.create_future()

    def died() -> None:
        if not done.done():
            done.set_exception(Lost())
            done.exception()

    process.when_dead.append(died)
    context = copy_context()
    context.run(PROCESS.set, process)
    task = loop.create_task(_serve(process, app, request, done, cut=cut), context=context)
    process.tasks.append(task)
    try:
        async with asyncio.timeout(_PATIENCE):
            return await asyncio.shield(done)
    except TimeoutError as error:
        raise Lost from error


async def _serve(process: Process, app: Any, request: Request, done: asyncio.Future[Answer], *, cut: bool) -> None:
    whole = request.body[: len(request.body) // 2] if cut else request.body
    pieces = deque([whole[: len(whole) // 2], whole[len(whole) // 2 :]] if len(whole) > 400 else [whole])
    path, _, query = request.path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), text.encode("latin-1")) for name, text in request.headers],
        "client": ("127.0.0.1", 1),
        "server": ("world", 80),
    }
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if pieces:
            piece = pieces.popleft()
            return {"type": "http.request", "body": piece, "more_body": bool(pieces) or cut}
        if cut:
            return {"type": "http.disconnect"}
        await ended.wait()
        return {"type": "http.disconnect"}

    status, headers, body = 0, dict[str, str](), bytearray()

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.update({name.decode().lower(): text.decode("latin-1") for name, text in message["headers"]})
            headers.setdefault("date", formatdate(process.machine.wall(), usegmt=True))
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))
            if not message.get("more_body") and not done.done() and not cut:
                done.set_result(Answer(status, headers, bytes(body)))

    try:
        await app(scope, receive, send)
    finally:
        ended.set()
        if not done.done():
            done.set_exception(Lost())
            done.exception()


class Forwards(httpx2.AsyncBaseTransport):
    """The way from one shuffler to its aggregator: in place of the HTTP client's connections."""

    def __init__(self, send: Callable[[Request], Any]) -> None:
        self._send = send

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = bytearray()
        stream: Any = request.stream
        if isinstance(stream, AsyncIterator) or hasattr(stream, "__aiter__"):
            async for piece in stream:
                body += piece
        headers = tuple((name.decode("latin-1"), text.decode("latin-1")) for name, text in request.headers.raw)
        try:
            answer = await self._send(Request(request.method, request.url.raw_path.decode(), headers, bytes(body)))
        except Lost as error:
            raise httpx2.ReadError("no answer") from error
        process = PROCESS.get()
        if process is not None and process.dead:
            raise Killed
        return httpx2.Response(answer.status, headers=list(answer.headers.items()), content=answer.body)
