"""The process: one server for everybody, one for the operator, and an orderly end of both."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from hubbub.problems import InvalidParameter
from hubbub.signals import stopping

__all__ = ["serve"]


def serve(
    app: Callable[..., Any],
    *,
    host: str,
    port: int,
    admin: tuple[Callable[..., Any], str, int] | None,
    shutdown_timeout: int,
    ready: Callable[[str], None],
    tls: tuple[Path, Path] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the address once requests are answered. `tls`: files with
    certificate and key.

    At the signal no connection is taken any more, requests in work get some seconds, then the app's own work ends.
    """
    import uvloop

    def config(target: Callable[..., Any], where: str, at: int, *, public: bool) -> uvicorn.Config:
        certificate, key = tls if tls is not None and public else (None, None)
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
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )

    public = config(app, host, port, public=True)
    if tls is not None:
        try:
            public.load()
        except OSError as error:
            raise InvalidParameter(f"can't speak TLS with {tls[0]} and {tls[1]}: {error.strerror}") from None

    async def run() -> None:
        servers = [_Server(public, ready)]
        if admin is not None:
            servers.append(_Server(config(*admin, public=False), lambda _address: None))

        def stop() -> None:
            """The first signal asks all to end; the second does not wait for requests in work."""
            for server in servers:
                server.force_exit = server.should_exit
                server.should_exit = True

        with stopping(stop):
            await asyncio.gather(*(server.serve() for server in servers))

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
