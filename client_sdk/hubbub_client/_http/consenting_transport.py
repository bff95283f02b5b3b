"""A transport that asks for consent before each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hubbub_client._http.transport import Answer, CannotReach, Transport

__all__ = ["ConsentingTransport"]


class ConsentingTransport:
    """A transport that asks before each request. Without consent nothing leaves, however long the flush has been."""

    def __init__(self, transport: Transport, may_send: Callable[[], bool]) -> None:
        self._transport, self._may_send = transport, may_send

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if not self._may_send():
            raise CannotReach("consent was withdrawn")
        return self._transport.request(method, path, headers, body)
