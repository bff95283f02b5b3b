"""The transport: how requests leave the device. One small Protocol, and HTTP over the standard library.

A transport carries bytes and judges nothing. `hubbub_client._sending.upload` decides what an answer means.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from hubbub.bundle import LARGEST_BUNDLE
from hubbub.errors import InvalidParameter
from hubbub.loopback_host import is_loopback_host
from hubbub_client._http.connection import Connection, Endpoint, TimeLimit, authority, tls_context
from hubbub_client._http.dns import Lookup, system_lookup
from hubbub_client._http.proxy import Proxy, proxy_from, proxy_of
from hubbub_client._process.clock_and_entropy import monotonic

__all__ = ["Answer", "CannotReach", "HttpTransport", "NoConsent", "Transport", "check_address", "is_loopback"]

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers by lower-case name, body."""

_PIECE = 65_536
_LONGEST = 86_400.0
"""Seconds. The longest time limit: a socket cannot keep a longer one, such as infinity."""
_SAME_FOR_EVERYONE = {"Accept-Encoding": "identity", "User-Agent": "hubbub"}
"""Without version and platform, which together with an address would tell devices apart."""

_NO_USER = "the address of the shuffler has a user or a password in it: leave them out, the shuffler has no login"
"""Unlike the other messages, this one does not show the address."""

_HUNG_UP = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class CannotReach(Exception):
    """There was no usable answer: no network, no server, not in time, or not now."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NoConsent(CannotReach):
    """There is no consent to send, so no request was made."""


class Transport(Protocol):
    """Sends one request and returns the answer, whatever its status. Raises CannotReach if there is none."""

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request. Returns its answer: status, headers by lower-case name, body."""


def _parsed(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises if it is not a number
    except ValueError as error:
        if "@" in address:
            raise InvalidParameter(_NO_USER) from None
        raise InvalidParameter(f"{address!r} is not an address: {error}") from error
    if "@" in parts.netloc:
        raise InvalidParameter(_NO_USER)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not parts.path.isascii()
        or not address.isprintable()  # characters that urlsplit drops silently, or that a request could not carry
        or " " in address
    ):
        raise InvalidParameter(
            f"the address of the shuffler is written like https://telemetry.example.com, got {address!r}"
        )
    return parts


def is_loopback(address: str) -> bool:
    """Whether an address can only mean this machine. Raises InvalidParameter if it is not an address."""
    return is_loopback_host(_parsed(address).hostname or "")


def check_address(address: str) -> None:
    """Raise InvalidParameter for an address that no request is sent to: a malformed one, or plain http to another
    machine."""
    if _parsed(address).scheme == "http" and not is_loopback(address):
        raise InvalidParameter(
            f"{address} would carry reports in the clear, and anyone on the path could answer: use https. "
            "Plain http is only for an address on this machine"
        )


class HttpTransport:
    """HTTP/1.1 with one kept connection; verified TLS for https; plain http on this machine only.

    `timeout` bounds each request as a whole, from the name lookup to the last byte of the answer; `deadline`, by
    `monotonic`, bounds all of them together. It follows no redirect, keeps no cookie and compresses nothing. It is for
    one thread at a time; a forked child opens a connection of its own.

    `ca_file` names the authorities to trust instead of the system's. `proxy` is an http:// address to tunnel through,
    with user and password if needed, or "" for none. If it is not given, `environ` decides (HTTPS_PROXY, ALL_PROXY,
    NO_PROXY), except for an address on this machine.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 10.0,
        deadline: float | None = None,
        monotonic: Callable[[], float] = monotonic,
        ca_file: str | os.PathLike[str] | None = None,
        proxy: str | None = None,
        environ: Mapping[str, str] | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        check_address(address)
        parts = _parsed(address)
        self._tls = parts.scheme == "https"
        self._host, self._base = _ascii(parts.hostname or ""), parts.path.rstrip("/")
        self._port = parts.port or (443 if self._tls else 80)
        self._local = is_loopback(address)
        self._context = _read_authorities(ca_file) if ca_file is not None and self._tls else None
        self._proxy = proxy_from(proxy) if proxy else None
        if self._proxy is not None and not self._tls and not is_loopback_host(self._proxy.host):
            raise InvalidParameter(f"through a proxy, {address} would be an address on another machine: use https")
        self._environ = {} if proxy is not None else os.environ if environ is None else environ
        self._timeout, self._deadline, self._monotonic = min(timeout, _LONGEST), deadline, monotonic
        self._lookup = lookup
        self._connection: Connection | None = None
        self._owner = os.getpid()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request. If the server has closed the kept connection, it is opened again, once."""
        until = self._monotonic() + self._timeout
        until = until if self._deadline is None else min(until, self._deadline)
        limit = TimeLimit(until, self._monotonic)
        if self._owner != os.getpid():
            self.close()  # after a fork the connection and its answers are the parent's
        for kept in (self._connection is not None, False):
            try:
                return self._exchange(method, path, headers, body, limit)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.close()
                if not kept or isinstance(error, TimeoutError):
                    raise CannotReach(f"{type(error).__name__}: {error}") from error
        raise AssertionError("the second attempt returns or raises")

    def close(self) -> None:
        """Close the kept connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> HttpTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes, limit: TimeLimit) -> Answer:
        limit.left()
        connection = self._connection or Connection(self._endpoint(), limit)
        self._connection, self._owner = connection, os.getpid()
        connection.set_limit(limit)
        if connection.sock is not None and not connection.sock.is_quiet():
            connection.close()
        if connection.sock is None:
            connection.connect()
        everything = {"Host": authority(self._host, self._port), **_SAME_FOR_EVERYONE, **headers}
        cut_off = False
        try:
            connection.request(method, self._base + path, body or None, everything)
        except _HUNG_UP:  # a server may refuse a large body without reading it: its answer has still arrived
            cut_off = True
        socket = connection.sock
        response = connection.getresponse()
        with response:
            if socket.ended:  # http.client takes this for the end of the headers
                raise http.client.RemoteDisconnected("the answer was cut off in its head")
            if response.status < 200:
                raise http.client.HTTPException(f"{response.status} is not yet an answer")
            content = _read(response)
        if cut_off or response.will_close:
            self.close()
        # A value may be folded over several lines; unfold it, so that it can be sent back, as a tag is.
        return response.status, {name.lower(): " ".join(text.split()) for name, text in response.getheaders()}, content

    def _endpoint(self) -> Endpoint:
        if self._tls and self._context is None:
            self._context = tls_context(None)
        proxy = self._proxy
        if proxy is None and not self._local:
            proxy = self._proxy_of_environment()
        return Endpoint(self._host, self._port, self._context, proxy, self._lookup)

    def _proxy_of_environment(self) -> Proxy | None:
        try:
            return proxy_of(self._environ, self._host, self._port)
        except InvalidParameter as error:
            raise OSError(f"the environment's proxy cannot be used: {error}") from error


def _ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise InvalidParameter(f"{host!r} is not a host name: {error}") from error


def _read_authorities(ca_file: str | os.PathLike[str]) -> ssl.SSLContext:
    try:
        return tls_context(os.fspath(ca_file))
    except OSError as error:  # a missing file, or one without a certificate
        raise InvalidParameter(
            f"ca_file {os.fspath(ca_file)!r} cannot be used: {error}. It holds certificates in PEM"
        ) from error


def _read(response: http.client.HTTPResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_BUNDLE:
            raise http.client.HTTPException(f"the answer is longer than {LARGEST_BUNDLE} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)  # read1 does not report a body that was cut off
    return b"".join(pieces)
