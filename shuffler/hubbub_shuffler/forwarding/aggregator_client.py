"""HTTP client for the aggregator: sends the forward token and our Date, and notes the aggregator's Date."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

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
        async with self._client.stream(method, self._address + path, content=content, headers=sent) as response:
            if "Age" not in response.headers:  # an Age means that a cache answered, with an old Date
                self._clock.hear(response.headers.get("Date"))
            yield response
