"""The admin listener: metrics and health for the operator only, on a separate address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from hubbub.refusals import Refused
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.health import Health, add_health
from hubbub_service_common.http.problem_documents import ProblemHandlers, problem_answers, send_problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hubbub_service_common.http.tokens import Tokens

__all__ = ["create_admin_api", "for_operators"]


def create_admin_api(
    title: str,
    handlers: ProblemHandlers,
    *,
    health: Health,
    metrics: Callable[[], Awaitable[bytes]],
    refusals: tuple[str, ...] = (),
) -> FastAPI:
    """/metrics, /healthz and /readyz. `metrics` makes the text for Prometheus. `refusals`: reasons for which the
    listener refuses a request before any route runs."""
    api = create_api(title, handlers, FastAPI)
    add_health(api, health, *refusals)

    @api.get(
        "/metrics",
        response_class=Response,
        description="Prometheus metrics.",
        responses={200: {"content": {"text/plain": {}}}, **problem_answers(*refusals)},
    )
    async def exposition() -> Response:
        return Response(await metrics(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return api


def for_operators(api: ASGIApp, tokens: Tokens) -> ASGIApp:
    """Require one of the tokens for every request. With no token configured, every caller is let in."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        # all headers joined, so that two of them make a wrong one
        given = b"".join(value for name, value in scope["headers"] if name == b"authorization")
        try:
            tokens.require(given.decode("latin-1"))
        except Refused as refused:
            await send_problem(send, refused)
            return
        if scope["method"] == "HEAD":  # some probes use it; the server leaves the body out
            scope = {**scope, "method": "GET"}
        with suppress(Exception):  # by now it has been answered, and logged by its type and place
            await api(scope, receive, send)

    return guarded
