"""The aggregator's admin listener: metrics and health. Background work belongs to the public app."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hubbub_aggregator.api.operations import health_of
from hubbub_aggregator.operations.metrics import Stored, exposition, stored_now
from hubbub_aggregator.storage import StorageError
from hubbub_service_common.http.admin_listener import create_admin_api, for_operators
from hubbub_service_common.http.problem_documents import ProblemHandlers
from hubbub_service_common.process.single_flight import OneQuestion

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from hubbub_aggregator.service import Aggregator
    from hubbub_service_common.http.tokens import Tokens

__all__ = ["admin_api", "create_admin"]

_LOG = logging.getLogger("hubbub_aggregator")


def create_admin(service: Aggregator, tokens: Tokens) -> ASGIApp:
    """/metrics, /healthz and /readyz. If a token is set, callers must present it."""
    return for_operators(admin_api(service, *(["unauthorized"] if tokens else [])), tokens)


def admin_api(service: Aggregator, *refusals: str) -> FastAPI:
    """The routes. `refusals`: problems that the listener answers before a route is reached."""
    asked: OneQuestion[Stored | None] = OneQuestion()

    async def metrics() -> bytes:
        try:
            stored = await asked.answer(lambda: asyncio.to_thread(stored_now, service))
        except StorageError:  # it took too long
            service.storage_errors += 1
            stored = None
        return exposition(service, stored)

    return create_admin_api(
        "hubbub aggregator, admin",
        ProblemHandlers(_LOG),
        health=health_of(service),
        metrics=metrics,
        refusals=refusals,
    )
