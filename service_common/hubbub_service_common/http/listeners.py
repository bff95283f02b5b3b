"""Listeners: the sockets that a service listens on. They open first, so that a taken port ends the start at once."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from hubbub_service_common.http.certificate import Certificate
from hubbub_service_common.http.connection_limits import ConnectionLimits
from hubbub_service_common.http.cross_origin import CrossOrigin
from hubbub_service_common.http.server import listen, server_config
from hubbub_service_common.http.tokens import Tokens
from hubbub_service_common.process.clock_and_entropy import monotonic
from hubbub_service_common.process.open_files import connections_within_limit

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from hubbub_service_common.settings import ServiceSettings

__all__ = ["Listener", "listening"]

_ADMIN_CONNECTIONS = 40


class Listener(NamedTuple):
    """A listening socket, and how it is served."""

    socket: socket.socket
    limits: ConnectionLimits
    certificate: Certificate | None = None
    tokens: Tokens | None = None
    """Callers need one of these; None: every caller is let in."""

    def config(self, app: ASGIApp, *, shutdown_timeout: int, lifespan: Literal["on", "off"] = "off") -> uvicorn.Config:
        """uvicorn's configuration for an application here."""
        cross_origin = self.limits.cross_origin
        return server_config(
            app if cross_origin is None else cross_origin.around(app),
            http=self.limits.protocol(),
            lifespan=lifespan,
            shutdown_timeout=shutdown_timeout,
            certificate=self.certificate,
        )


@contextmanager
def listening(
    settings: ServiceSettings,
    *,
    max_body: int,
    other_files: int,
    log: logging.Logger,
    max_per_address: int | None = None,
    reuse_port: bool = False,
    cross_origin: CrossOrigin | None = None,
) -> Iterator[list[Listener]]:
    """The public listener and, if it is set, the admin listener, until the block ends.

    InvalidParameter if one can't be opened. `max_body`: bytes of the largest body. `other_files`: descriptors for
    everything but connections to the public listener. `cross_origin`: the pages that may read what the public listener
    answers.
    """

    def limits(most: int, per_address: int | None, pages: CrossOrigin | None = None) -> ConnectionLimits:
        return ConnectionLimits(
            head_timeout=settings.head_timeout,
            body_timeout=settings.body_timeout,
            body_rate=settings.body_rate,
            max_body=max_body,
            max_connections=most,
            max_per_address=per_address,
            clock=monotonic,
            log=log,
            cross_origin=pages,
        )

    with ExitStack() as open_:
        public = open_.enter_context(listen(settings.host, settings.port, reuse_port=reuse_port))
        most = connections_within_limit(settings.max_connections, other_files, log)
        certificate = None if settings.tls is None else Certificate(*settings.tls, log)
        found = [Listener(public, limits(most, max_per_address, cross_origin), certificate)]
        if settings.admin_port is not None:
            admin = open_.enter_context(listen(settings.admin_host, settings.admin_port, setting="admin_port"))
            tokens = Tokens.of(settings.admin_token, settings.admin_token_next)
            found.append(Listener(admin, limits(_ADMIN_CONNECTIONS, None), tokens=tokens))
        yield found
