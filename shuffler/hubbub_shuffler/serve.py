"""uvicorn as this service runs it: nothing about requests is logged, and it stops when we say so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import uvicorn

from hubbub.problems import InvalidParameter

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hubbub_service_common.certificate import Certificate

__all__ = ["Server", "listen", "server_config"]

_BACKLOG = 2_048


def server_config(
    app: ASGIApp,
    *,
    http: type[asyncio.Protocol] | str = "httptools",
    shutdown_timeout: int = 10,
    certificate: Certificate | None = None,
) -> uvicorn.Config:
    """The options of every server here; the benchmark uses them for the application that does nothing, too."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=http,
        ws="none",
        lifespan="off",
        interface="asgi3",
        # Who asked for what is exactly what must not be written down.
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        # It would let anyone on this machine say from where he comes; what we believe of a proxy is in limits.py.
        proxy_headers=False,
        timeout_graceful_shutdown=shutdown_timeout,
        ssl_certfile=certificate.chain if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
    )
    if certificate is not None:
        certificate.prepare(config)
    return config


def listen(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A socket that listens; InvalidParameter when the address can't be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=reuse_port)
    except OSError as error:
        raise InvalidParameter(f"can't listen on {host} port {port}: {error.strerror}") from None


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, which end the process before the storage is closed."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, ready: Callable[[str], None]) -> None:
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
        """Finish what is in work. Asked a second time: do not wait for that."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn has a generator
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        address = self.address
        await super().startup(sockets)
        if self.started:
            self._ready(address)
