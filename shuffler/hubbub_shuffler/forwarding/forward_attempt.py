"""One attempt to hand a batch to the aggregator, and what the answer means.

Final answers settle the batch: accepted (also if the aggregator had it already), or refused for good, if that is
confirmed here (`refusal_confirmation`). Everything else is tried again: no network, a wrong token, an overloaded or
broken aggregator, any answer that is not the aggregator's own. The request is built from scratch here, so of what a
device sent it can contain only the sealed reports. A batch is sent while it is made, under an announced length: if
anything interrupts it, the aggregator never takes a part for the whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2

from hubbub.refusals import refusal_named, seconds_to_wait
from hubbub.wire import BATCH_TYPE
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.refusal_confirmation import REFUSED_FOR_GOOD
from hubbub_shuffler.storage import LONGEST_PAUSE

__all__ = ["Again", "Answer", "Final", "Forwarder", "Taken"]

_STUCK = {"too-large": "raise max_batch_bytes of the aggregator"}
"""Problems that a retry can cure only after the operator has done this."""

LARGEST_ANSWER = 2**16
"""Bytes: more than the aggregator ever says about a batch."""


@dataclass(frozen=True, slots=True)
class Final:
    """The aggregator's final answer: "accepted", or why it refuses the batch."""

    verdict: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The aggregator has the whole batch and owes a verdict."""


@dataclass(frozen=True, slots=True)
class Again:
    """No verdict on the batch yet.

    `after`: seconds that the aggregator asked us to wait. `lost`: it does not have the batch. `stuck`: an operator must
    help.
    """

    why: str
    after: float | None = None
    lost: bool = False
    stuck: bool = False


Answer = Final | Taken | Again


class Forwarder:
    """Speaks to one aggregator."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def put(self, batch_id: bytes, length: int, body: AsyncIterator[bytes]) -> Answer:
        """Hand over a batch, or the notice of a discard, under its id. `length` is in bytes.

        An exception from the body is passed on, and the connection is cut.
        """
        left = length

        async def counted() -> AsyncIterator[bytes]:
            nonlocal left
            async for piece in body:
                yield piece
                left -= len(piece)

        headers = {"Content-Type": BATCH_TYPE, "Content-Length": str(length)}
        answer = await self._ask("PUT", batch_id, counted(), headers)
        if left and answer == Final("malformed-batch"):
            return Again("cut off")  # the aggregator saw a part only; it may still accept the whole
        return answer

    async def verdict(self, batch_id: bytes) -> Answer:
        """Ask about a batch that the aggregator has taken."""
        return await self._ask("GET", batch_id, None, {})

    async def _ask(
        self, method: str, batch_id: bytes, body: AsyncIterator[bytes] | None, headers: dict[str, str]
    ) -> Answer:
        try:
            path = f"/v1/batches/{batch_id.hex()}"
            async with self._upstream.stream(method, path, headers, body) as response:
                return _meaning(method, response, await _document(response))
        except httpx2.HTTPError as error:
            return Again(type(error).__name__)


def _meaning(method: str, response: httpx2.Response, document: dict[str, object]) -> Answer:
    status = response.status_code
    if status == 200 and document.get("state") == "accepted":
        return Final("accepted")
    if status == 200 and document.get("state") == "refused":
        return Final(_name(document.get("reason")) or "refused")
    if status == 202 or (status == 200 and document.get("state") == "pending"):
        return Taken()
    name = _name(document.get("type"))
    if 400 <= status < 500 and name in REFUSED_FOR_GOOD:
        return Final(name)
    cure = _STUCK.get(name or "")
    why = " ".join(filter(None, (str(status), name, cure and f"({cure})")))
    lost = method == "GET" and name == "not-found"
    return Again(why, seconds_to_wait(response.headers.get("Retry-After"), LONGEST_PAUSE), lost, cure is not None)


async def _document(response: httpx2.Response) -> dict[str, object]:
    """The JSON object in an answer; empty for anything else, such as a proxy's page or an answer that is too long."""
    raw = bytearray()
    async for chunk in response.aiter_bytes():
        raw += chunk
        if len(raw) > LARGEST_ANSWER:
            return {}
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):  # ValueError: not JSON, not UTF-8, or a number of too many digits
        return {}
    return document if isinstance(document, dict) else {}


def _name(urn_or_name: object) -> str | None:
    """The name of a refusal, if this version knows it: no other text gets into counters or logs."""
    refusal = refusal_named(urn_or_name) if isinstance(urn_or_name, str) else None
    return refusal.name if refusal else None
