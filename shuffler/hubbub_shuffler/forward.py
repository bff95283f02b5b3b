"""One attempt to hand a batch to the aggregator, and what the answer means.

Final answers settle the batch: accepted (also when it was there already), or refused for good. Everything else is
tried again: no network, a wrong token, an overloaded or broken aggregator, anything that is not its own word.
A request is made afresh here; nothing that a device sent but its sealed reports can be in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import httpx

from hubbub.refusals import refusal_named
from hubbub.wire import BATCH_TYPE

__all__ = ["Again", "Answer", "Final", "Forwarder", "Taken"]

REFUSED_FOR_GOOD = frozenset(
    {"batch-too-small", "batch-conflict", "batch-too-late", "unknown-metric", "malformed-batch", "revoked-key"}
)
"""Problems that no retry can cure."""

_LONGEST_WAIT = 3_600.0


@dataclass(frozen=True, slots=True)
class Final:
    """The aggregator's last word: "accepted", or why it refuses."""

    verdict: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The aggregator has the whole batch and owes a verdict."""


@dataclass(frozen=True, slots=True)
class Again:
    """No word on the batch yet. `after`: seconds that the aggregator asked for; `lost`: it does not have the batch."""

    why: str
    after: float | None = None
    lost: bool = False


Answer = Final | Taken | Again


class Forwarder:
    """Speaks to one aggregator."""

    def __init__(self, client: httpx.AsyncClient, *, address: str, token: str | None) -> None:
        self._client, self._address = client, address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def put(self, batch_id: bytes, body: bytes) -> Answer:
        """Hand over a batch, or a notice of a discard, under its id."""
        return await self._ask("PUT", batch_id, body, {"Content-Type": BATCH_TYPE})

    async def verdict(self, batch_id: bytes) -> Answer:
        """Ask about a batch that was taken before."""
        return await self._ask("GET", batch_id, None, {})

    async def _ask(self, method: str, batch_id: bytes, body: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            response = await self._client.request(
                method,
                f"{self._address}/v1/batches/{batch_id.hex()}",
                content=body,
                headers={**self._headers, **headers},
            )
        except httpx.HTTPError as error:
            return Again(type(error).__name__)
        return _meaning(method, response)


def _meaning(method: str, response: httpx.Response) -> Answer:
    status = response.status_code
    document = _document(response)
    if status == 200 and document.get("state") == "accepted":
        return Final("accepted")
    if status == 200 and document.get("state") == "refused":
        return Final(_name(document.get("reason")) or "refused")
    if status == 202 or (status == 200 and document.get("state") == "pending"):
        return Taken()
    name = _name(document.get("type"))
    if 400 <= status < 500 and name in REFUSED_FOR_GOOD:
        return Final(name)
    lost = method == "GET" and name == "not-found"
    return Again(f"{status} {name or ''}".strip(), _retry_after(response), lost)


def _document(response: httpx.Response) -> dict[str, object]:
    """The JSON object in an answer; empty for anything else, such as a proxy's page."""
    try:
        document = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _name(urn_or_name: object) -> str | None:
    """The name of a refusal that this version knows: no other text gets into counters or logs."""
    refusal = refusal_named(urn_or_name) if isinstance(urn_or_name, str) else None
    return refusal.name if refusal else None


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() else None
