"""How requests leave the device: one small Protocol, and HTTP over the standard library.

A transport carries bytes and judges nothing; what an answer means is decided in `hubbub_client._upload`.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from hubbub.bundle import LARGEST_BUNDLE
from hubbub.problems import InvalidParameter

__all__ = ["Answer", "CannotReach", "HttpTransport", "Transport", "is_loopback"]

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers by lower-case name, body."""

_PIECE = 65_536


class CannotReach(Exception):
    """No answer that could be used came: no network, no server, not in time, or not now."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Transport(Protocol):
    """Sends one request and returns the answer, whatever its status. Raises CannotReach when there is none."""

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer: ...


def _parsed(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port  # refuses what is not a number
    except ValueError as error:
        raise InvalidParameter(f"{address!r} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidParameter(
            f"the address of the shuffler is written like https://telemetry.example.com, got {address!r}"
        )
    return parts


def is_loopback(address: str) -> bool:
    """Whether an address can only mean this machine; InvalidParameter when it is none."""
    host = _parsed(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class HttpTransport:
    """HTTP/1.1 with one kept connection; TLS with the system's authorities for https.

    `timeout` bounds each request as a whole; `deadline`, by `monotonic`, all of them together.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 10.0,
        deadline: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = _parsed(address)
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._timeout, self._deadline, self._monotonic = timeout, deadline, monotonic
        self._connection: http.client.HTTPConnection | None = None

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. A kept connection that the server closed meanwhile is opened once more."""
        until = self._monotonic() + self._timeout
        until = until if self._deadline is None else min(until, self._deadline)
        for kept in (self._connection is not None, False):
            try:
                return self._exchange(method, path, headers, body, until)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not kept or isinstance(error, TimeoutError):
                    raise CannotReach(f"{type(error).__name__}: {error}") from error
        raise AssertionError("the second attempt returns or raises")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> HttpTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes, until: float) -> Answer:
        connection = self._connection or self._connect()
        self._connection = connection
        connection.timeout = self._left(until)
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        connection.request(method, self._base + path, body or None, dict(headers))
        response = connection.getresponse()
        answer = response.status, {name.lower(): text for name, text in response.getheaders()}
        pieces: list[bytes] = []
        size = 0
        while piece := response.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BUNDLE:
                raise http.client.HTTPException(f"the answer is longer than {LARGEST_BUNDLE} bytes")
            if connection.sock is not None:
                connection.sock.settimeout(self._left(until))
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)  # read1 does not say that the body was cut off
        response.close()  # read1 leaves this open too, and the connection would not take another request
        if response.will_close:
            self.close()
        return *answer, b"".join(pieces)

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, context=self._context)
        return http.client.HTTPConnection(self._host, self._port)

    def _left(self, until: float) -> float:
        left = until - self._monotonic()
        if left <= 0:
            raise TimeoutError("not in time")
        return left
