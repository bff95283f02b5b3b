"""uvicorn as the services run it: it logs nothing about requests, and the service decides when it stops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hubbub.errors import InvalidParameter
from hubbub_service_common.http.problem_documents import NOT_HTTP
from hubbub_service_common.process.signals import stopping

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hubbub_service_common.http.certificate import Certificate
    from hubbub_service_common.http.cross_origin import Headers

__all__ = ["HttpProtocol", "Server", "listen", "run", "serve_together", "server_config"]

_BACKLOG = 2_048
_ONLY_TLS = ("strict-transport-security", "max-age=31536000")
"""An analyst's browser sends a password: for a year after each visit it uses only TLS for this name."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do this work in a new event loop."""
    import uvloop  # here, since tests load this module under another loop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, except that bytes that are not HTTP also get a problem document, and a peer may leave at any
    time."""

    _in_work: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._in_work = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request in progress that the peer has left. uvicorn tells only the newest one: if that was sent
        ahead, the one in progress would write to a closed connection, and the error would look like a bug here."""
        cycle = self._in_work
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  it may repeat what was sent
        self.transport.write(NOT_HTTP.raw(self.answer_headers()))
        self.transport.close()

    def answer_headers(self) -> Headers:
        """What an answer has besides its own headers if it is written here, past the application."""
        return ()


def server_config(
    app: ASGIApp,
    *,
    http: type[asyncio.Protocol] | None = None,
    lifespan: Literal["on", "off"] = "off",
    shutdown_timeout: int = 10,
    certificate: Certificate | None = None,
) -> uvicorn.Config:
    """The options of every server here. The benchmark also uses them, for an application that does nothing."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=http or HttpProtocol,
        ws="none",
        lifespan=lifespan,
        interface="asgi3",
        # Who asked for what must not be logged.
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        # This would let anyone on this machine claim another address.
        proxy_headers=False,
        timeout_graceful_shutdown=shutdown_timeout,
        ssl_certfile=certificate.chain if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
        headers=[_ONLY_TLS] if certificate else None,
    )
    if certificate is not None:
        certificate.prepare(config)
    return config


def listen(host: str, port: int, *, reuse_port: bool = False, setting: str = "port") -> socket.socket:
    """A listening socket; InvalidParameter if the address can't be used. `setting`: the setting of the port.

    For a name with several addresses, such as localhost, the first IPv4 address is used.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=reuse_port)
    except OSError as error:
        own = error.errno is None or isinstance(error, socket.gaierror)
        reason = error.strerror if own else os.strerror(error.errno or 0)  # Python's own text repeats the address
        advice = f"set another {setting}"
        if error.errno == errno.EADDRINUSE:
            advice = f"another process listens there; end it, or {advice}"
        elif error.errno != errno.EACCES:
            advice = f"set {setting.replace('port', 'host')} to an address of this machine"
        raise InvalidParameter(f"can't listen on {host} port {port}: {reason}: {advice}") from None


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, which would end the process before the storage is closed."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, ready: Callable[[str], None] = lambda _address: None
    ) -> None:
        """`ready` is called with the address once requests are answered."""
        super().__init__(config)
        self._listener, self._ready = listener, ready

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{'https' if self.config.is_ssl else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    async def run_here(self) -> None:
        """Serve in the running event loop until told to stop."""
        await self.serve([self._listener])

    def stop(self) -> None:
        """Finish requests in progress, then stop. On a second call, do not wait for them."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn has a generator
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        address = self.address
        await super().startup(sockets)
        if self.started:
            self._ready(address)


async def serve_together(servers: Sequence[Server], *jobs: Coroutine[None, None, None]) -> None:
    """Serve until SIGTERM or SIGINT, and run the jobs meanwhile. If any server or job ends, all end, so that a
    supervisor notices."""

    def stop() -> None:
        for server in servers:
            server.stop()

    def end_all(_ended: object) -> None:
        """End all servers, but cut nothing short: only a second signal does."""
        for server in servers:
            server.should_exit = True

    tasks = [asyncio.ensure_future(job) for job in jobs]
    serving = [asyncio.ensure_future(server.run_here()) for server in servers]
    for task in [*tasks, *serving]:
        task.add_done_callback(end_all)
    try:
        with stopping(stop):  # a second signal does not wait for requests in progress
            ended: list[BaseException | None] = await asyncio.gather(*serving, return_exceptions=True)
    finally:
        for task in tasks:
            task.cancel()
        ended_jobs = await asyncio.gather(*tasks, return_exceptions=True)
    for end in [*ended, *ended_jobs]:
        if isinstance(end, Exception):
            raise end
