"""A transport that asks for consent before each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hubbub_client._http.transport import Answer, NoConsent, Transport

if TYPE_CHECKING:
    from hubbub_client._consent.gate import ConsentGate

__all__ = ["ConsentingTransport"]


class ConsentingTransport:
    """Sends nothing without consent, even if there was consent when a flush began."""

    def __init__(self, transport: Transport, gate: ConsentGate) -> None:
        self._transport, self._gate = transport, gate

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if not self._gate.may_send():
            raise NoConsent("consent was withdrawn")
        return self._transport.request(method, path, headers, body)
