"""HTTP client for the aggregator: sends the forward token and our Date, and notes the aggregator's Date."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from hubbub_service_common.clock.trusted_clock import TrustedClock

__all__ = ["Upstream"]


class Upstream:
    """One aggregator, as this process speaks to it."""

    def __init__(self, client: httpx2.AsyncClient, *, address: str, token: str | None, clock: TrustedClock) -> None:
        self._client, self._address, self._clock = client, address, clock
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], content: AsyncIterator[bytes] | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """One request. Connection trouble is raised as httpx2.HTTPError."""
        sent = {**self._headers, "Date": formatdate(self._clock.now(), usegmt=True), **headers}
        response = await self._send(method, path, sent, content)
        try:
            if "Age" not in response.headers:  # an Age means that a cache answered, with an old Date
                self._clock.hear(response.headers.get("Date"))
            yield response
        finally:
            await response.aclose()

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], content: AsyncIterator[bytes] | None
    ) -> httpx2.Response:
        begun = False

        async def watched(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            nonlocal begun
            begun = True
            async for piece in pieces:
                yield piece

        body = None if content is None else watched(content)
        request = self._client.build_request(method, self._address + path, content=body, headers=headers)
        try:
            return await self._client.send(request, stream=True)
        except AttributeError as error:
            # anyio asks uvloop's socket for its peer. It has none if the aggregator ended between accepting and that.
            if begun:  # then it comes from the body
                raise
            raise httpx2.ConnectError("the connection broke as it was made", request=request) from error
