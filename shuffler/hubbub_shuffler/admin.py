"""The admin listener: what only the operator may see, on a port of its own."""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from pydantic import Field

from hubbub.refusals import Refused
from hubbub_shuffler.answers import create_api, problems
from hubbub_shuffler.app import Status, add_health, status_of
from hubbub_shuffler.asked import Asked
from hubbub_shuffler.ingest import send_problem
from hubbub_shuffler.metrics import Sources, exposition
from hubbub_shuffler.storage import AsyncStorage, StorageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["AdminStatus", "admin_api", "create_admin"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class AdminStatus(Status):
    """The public status, and what this process refused."""

    refused: dict[str, int] = Field(description="Uploads and reports refused since the start, by reason.")
    connections_cut: dict[str, int] = Field(description="Connections cut since the start, by reason.")
    refused_bundles: dict[str, int] = Field(
        description="Bundles refused since the start, by reason; the log says more."
    )


def create_admin(sources: Sources, storage: AsyncStorage, token: str | None) -> ASGIApp:
    """/metrics, /healthz, /readyz and a fuller /v1/status. With a token, for who has it only."""
    if token is None:
        return admin_api(sources, storage)
    return _with_token(admin_api(sources, storage, "unauthorized"), token)


def admin_api(sources: Sources, storage: AsyncStorage, *refusals: str) -> FastAPI:
    """Its routes. `refusals`: what the listener refuses for before it comes to them."""
    api, asked = create_api("hubbub shuffler, admin"), Asked(storage)
    add_health(api, sources.bundles, asked, *refusals)

    @api.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **problems(*refusals)}
    )
    async def metrics() -> Response:
        """Prometheus metrics."""
        try:
            overview = await asked.overview()
        except StorageError:
            return Response(exposition(sources, None, durable=storage.durable), media_type=METRICS_TYPE)
        if not any(overview.batches.values()):
            sources.lag.clear()
        return Response(exposition(sources, overview, durable=storage.durable), media_type=METRICS_TYPE)

    @api.get("/v1/status", responses=problems("overloaded", *refusals))
    async def status() -> AdminStatus:
        """What waits, what left and what was refused."""
        public = await status_of(sources.ingest, sources.bundles, asked)
        cut = dict(+sources.guard.cut) if sources.guard else {}
        return AdminStatus(
            **public.model_dump(),
            refused=dict(+sources.ingest.refused),
            connections_cut=cut,
            refused_bundles=dict(+sources.bundles.refused),
        )

    return api


def _with_token(api: ASGIApp, token: str) -> ASGIApp:
    expected = b"Bearer " + token.encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        given = b"".join(value for name, value in scope.get("headers", ()) if name == b"authorization")
        if not compare_digest(given, expected):
            await send_problem(send, Refused("unauthorized", "the admin listener needs its token"))
            return
        await api(scope, receive, send)

    return guarded
