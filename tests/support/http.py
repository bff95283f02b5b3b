"""HTTP requests to services under test, with the patience that a busy machine needs.

httpx2 gives up after five seconds where nothing else is said: too little for a service that computes a guarantee while
other tests run. No proxy of the environment is asked, as all services of tests are on loopback.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from tests.support.patience import PATIENCE

__all__ = ["TIMEOUT", "ask", "async_client", "client", "get", "post", "put"]

TIMEOUT = httpx2.Timeout(PATIENCE, connect=5.0)
"""Whether a service is there shows at once; its answer may take long."""


def client(**options: Any) -> httpx2.Client:
    return httpx2.Client(**{"timeout": TIMEOUT, "trust_env": False, **options})


def async_client(**options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(**{"timeout": TIMEOUT, "trust_env": False, **options})


def get(url: str, **options: Any) -> httpx2.Response:
    return _request("GET", url, options)


def post(url: str, **options: Any) -> httpx2.Response:
    return _request("POST", url, options)


def put(url: str, **options: Any) -> httpx2.Response:
    return _request("PUT", url, options)


def ask(app: Any, method: str, path: str, **options: Any) -> httpx2.Response:
    """One request to an application in this process, for tests that have no event loop."""
    return asyncio.run(_ask(app, method, path, options))


async def _ask(app: Any, method: str, path: str, options: dict[str, Any]) -> httpx2.Response:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://service.test") as asking:
        return await asking.request(method, path, **options)


def _request(method: str, url: str, options: dict[str, Any]) -> httpx2.Response:
    return httpx2.request(method, url, **{"timeout": TIMEOUT, "trust_env": False, **options})
