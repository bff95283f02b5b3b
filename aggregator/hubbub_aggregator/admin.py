"""The admin listener: /metrics, /healthz and /readyz on an address of their own, never where others ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST

from hubbub.refusals import Refused
from hubbub_aggregator.metrics import exposition
from hubbub_aggregator.routes.operate import refuse_unless_ready

if TYPE_CHECKING:
    from starlette.responses import Response

    from hubbub_aggregator.service import Aggregator
    from hubbub_aggregator.tokens import Tokens

__all__ = ["create_admin"]

_Message: TypeAlias = MutableMapping[str, Any]
ASGIApp: TypeAlias = Callable[
    [_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]
]


def create_admin(service: Aggregator, tokens: Tokens) -> ASGIApp:
    """An ASGI application without background work: that is the main one's."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response

    from hubbub.refusals import PROBLEM_TYPE

    def metrics() -> Response:
        return Response(exposition(service), media_type=CONTENT_TYPE_LATEST)

    def healthz() -> Response:
        return PlainTextResponse("ok\n")

    def readyz() -> Response:
        refuse_unless_ready(service)
        return PlainTextResponse("ready\n")

    pages: dict[str, Callable[[], Response]] = {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}

    async def answer(request: Request) -> Response:
        tokens.require(request.headers.get("authorization"))
        page = pages.get(request.url.path)
        if page is None:
            raise Refused("not-found", f"here are {', '.join(pages)}")
        if request.method not in ("GET", "HEAD"):
            raise Refused("method-not-allowed", "this listener is for reading")
        return await asyncio.to_thread(page)

    async def app(
        scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await answer(Request(scope, receive))
        except Refused as refused:
            headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
            if refused.refusal.name == "unauthorized":
                headers["WWW-Authenticate"] = "Bearer"
            response = JSONResponse(refused.document(), refused.refusal.status, headers, media_type=PROBLEM_TYPE)
        await response(scope, receive, send)

    return app
