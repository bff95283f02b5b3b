"""The shuffler's admin listener: metrics, health, and a status for the operator only."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from fastapi import FastAPI
from pydantic import Field

from hubbub_service_common.http.admin_listener import create_admin_api, for_operators
from hubbub_service_common.http.problem_documents import ProblemHandlers, problem_answers
from hubbub_shuffler.app import Status, health_of, status_of
from hubbub_shuffler.operations.limited_storage_questions import Asked
from hubbub_shuffler.operations.metrics import Sources, exposition
from hubbub_shuffler.storage import AsyncStorage, StorageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hubbub_service_common.http.tokens import Tokens

__all__ = ["AdminStatus", "admin_api", "create_admin"]

_LOG = logging.getLogger("hubbub_shuffler")


class AdminStatus(Status):
    """The public status, and what this process has refused."""

    refused: dict[str, int] = Field(description="Uploads and reports refused since the start, by reason.")
    connections_cut: dict[str, int] = Field(description="Connections cut since the start, by reason.")
    refused_bundles: dict[str, int] = Field(
        description="Bundles refused since the start, by reason; the log says more."
    )


def create_admin(sources: Sources, storage: AsyncStorage, tokens: Tokens) -> ASGIApp:
    """/metrics, /healthz, /readyz and a fuller /v1/status. If a token is set, callers must present it."""
    return for_operators(admin_api(sources, storage, *(["unauthorized"] if tokens else [])), tokens)


def admin_api(sources: Sources, storage: AsyncStorage, *refusals: str) -> FastAPI:
    """The routes of the admin listener. `refusals`: reasons for which it refuses a request before any route runs."""
    asked = Asked(storage)

    async def metrics() -> bytes:
        writable = await asked.writable()
        overview = None
        with suppress(StorageError):
            await asked.is_full(sources.ingest.high_water)
        with suppress(StorageError):  # separate: a storage that can't tell its room may still be readable
            overview = await asked.overview()
        if overview is not None:
            sources.lag.waiting(overview)
        return exposition(sources, overview, storage, writable=writable)

    api = create_admin_api(
        "hubbub shuffler, admin",
        ProblemHandlers(_LOG),
        health=health_of(sources.ingest, sources.bundles, asked),
        metrics=metrics,
        refusals=refusals,
    )

    @api.get("/v1/status", responses=problem_answers("overloaded", *refusals))
    async def status() -> AdminStatus:
        """What waits, what has left and what was refused."""
        public = await status_of(sources.ingest, sources.bundles, asked)
        cut = dict(+sources.connections.cut) if sources.connections else {}
        return AdminStatus(
            **public.model_dump(),
            refused=dict(+sources.ingest.refused),
            connections_cut=cut,
            refused_bundles=dict(+sources.bundles.refused),
        )

    return api
