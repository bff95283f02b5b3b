"""An HTTP connection with one time limit for every step: name, connect, tunnel, handshake, each byte in or out."""

from __future__ import annotations

import http.client
import io
import selectors
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hubbub_client._http.dns import Lookup, addresses_of
from hubbub_client._http.happy_eyeballs import dial
from hubbub_client._process.fork import no_fork

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from hubbub_client._http.proxy import Proxy

_T = TypeVar("_T")

__all__ = ["Connection", "Endpoint", "TimeLimit", "authority", "tls_context"]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A moment by which something must be over."""

    until: float
    monotonic: Callable[[], float]

    def left(self) -> float:
        """Seconds left, more than 0. Raises TimeoutError when the time is over."""
        left = self.until - self.monotonic()
        if left <= 0:
            raise TimeoutError("not in time")
        return left


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a server."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: Proxy | None
    lookup: Lookup

    def open(self, limit: TimeLimit) -> BoundedSocket:
        """Connect, through the proxy if there is one. TLS is with the server itself, which must prove its name."""
        near = self.proxy or self
        addresses = addresses_of(near.host, near.port, limit.left(), self.lookup)
        bounded = BoundedSocket(dial(addresses, limit), limit)
        try:
            if self.proxy is not None:
                _tunnel(bounded, authority(self.host, self.port), self.proxy.authorization)
            if self.tls is not None:
                bounded.secure(self.tls, self.host)
        except BaseException:
            bounded.close()
            raise
        return bounded


class Connection(http.client.HTTPConnection):
    """HTTP/1.1 over a bounded socket. `limit` is set for each request."""

    def __init__(self, endpoint: Endpoint, limit: TimeLimit) -> None:
        super().__init__(endpoint.host, endpoint.port)
        self.limit, self._endpoint = limit, endpoint

    def connect(self) -> None:
        self.sock: BoundedSocket = self._endpoint.open(self.limit)

    def set_limit(self, limit: TimeLimit) -> None:
        """Set the time limit of the next request."""
        self.limit = limit
        if self.sock is not None:
            self.sock.limit = limit


class BoundedSocket:
    """What `http.client` needs of a socket, with one time limit for all of it.

    A plain socket's timeout applies to each operation: a server that sends a byte now and then could hold a device for
    ever.
    """

    def __init__(self, plain: socket.socket, limit: TimeLimit) -> None:
        self.limit, self._socket = limit, plain
        self.ended = False
        """Whether the other side was seen to end the connection."""

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Begin TLS."""
        self._socket.setblocking(False)
        # An end that TLS did not announce is an error: anyone on the path could have cut the answer off.
        with no_fork():
            self._socket = secured = context.wrap_socket(
                self._socket, server_hostname=host, suppress_ragged_eofs=False, do_handshake_on_connect=False
            )
        self.in_time(secured.do_handshake)

    def in_time(self, step: Callable[[], _T]) -> _T:
        """Run a step that may have to wait for the other side. OpenSSL has locks of its own, so with TLS a fork is only
        possible during the wait."""
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(self.limit.left())
            return step()
        while True:
            left = self.limit.left()
            try:
                with no_fork():
                    return step()
            except ssl.SSLWantReadError:
                event = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                event = selectors.EVENT_WRITE
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, event)
                selector.select(left)

    def is_quiet(self) -> bool:
        """Whether nothing came in unasked. It could be the end of the connection, or an extra answer, which would be
        taken for the answer to the next request. If anything came in, the connection must not be used again."""
        self._socket.settimeout(0)
        try:
            with no_fork():
                self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def sendall(self, data: ReadableBuffer) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.in_time(partial(self._socket.send, rest)) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self, self._socket))

    def close(self) -> None:
        self._socket.close()


class _Received(io.RawIOBase):
    """The incoming bytes. Holds the socket open until it is closed itself, as `http.client` expects of a file."""

    def __init__(self, bounded: BoundedSocket, plain: socket.socket) -> None:
        super().__init__()
        self._bounded, self._socket = bounded, plain
        self._file = plain.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        count = self._bounded.in_time(partial(self._socket.recv_into, buffer))
        self._bounded.ended |= not count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """A TLS context: always TLS 1.2 or later, with a verified host name. It trusts the authorities in this file, or
    without one the system's, to which OpenSSL adds those that SSL_CERT_FILE names."""
    with no_fork():
        context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def authority(host: str, port: int) -> str:
    """Host and port as a request writes them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tunnel(bounded: BoundedSocket, target: str, authorization: str | None) -> None:
    """Ask the proxy for a tunnel. Raises OSError with its status if it refuses."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if authorization is not None:
        lines.append(f"Proxy-Authorization: {authorization}")
    bounded.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii"))
    response = http.client.HTTPResponse(bounded, method="CONNECT")  # type: ignore[arg-type]  # it has all that is used
    try:
        response.begin()
        if not 200 <= response.status < 300:
            raise OSError(f"the proxy answered {response.status}")
    finally:
        response.close()
