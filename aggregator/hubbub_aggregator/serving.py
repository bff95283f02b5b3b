"""The process: one server for everybody, one for the operator, and an orderly end of both."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from hubbub_service_common.signals import stopping

if TYPE_CHECKING:
    from hubbub_service_common.certificate import Certificate

__all__ = ["serve"]


def serve(
    app: Callable[..., Any],
    *,
    host: str,
    port: int,
    admin: tuple[Callable[..., Any], str, int] | None,
    shutdown_timeout: int,
    ready: Callable[[str], None],
    certificate: Certificate | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the address once requests are answered. `certificate`: for TLS.

    At the signal no connection is taken any more, requests in work get some seconds, then the app's own work ends.
    """
    import uvloop

    def config(target: Callable[..., Any], where: str, at: int, *, public: bool) -> uvicorn.Config:
        tls = certificate if public else None
        return uvicorn.Config(
            target,
            host=where,
            port=at,
            loop="none",
            http="httptools",
            ws="none",
            lifespan="on" if public else "off",
            access_log=False,  # it would write addresses
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=shutdown_timeout,
            ssl_certfile=tls.chain if tls else None,
            ssl_keyfile=tls.key if tls else None,
        )

    public = config(app, host, port, public=True)
    if certificate is not None:
        certificate.prepare(public)

    async def run() -> None:
        servers = [_Server(public, ready)]
        if admin is not None:
            servers.append(_Server(config(*admin, public=False), lambda _address: None))

        def stop() -> None:
            """The first signal asks all to end; the second does not wait for requests in work."""
            for server in servers:
                server.force_exit = server.should_exit
                server.should_exit = True

        watching = None if certificate is None else asyncio.create_task(certificate.renewal.watch())
        try:
            with stopping(stop):
                await asyncio.gather(*(server.serve() for server in servers))
        finally:
            if watching is not None:
                watching.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the storage is closed."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
