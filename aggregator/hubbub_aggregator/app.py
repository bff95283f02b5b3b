"""The HTTP app: routes over one service object. Every error leaves as an RFC 9457 problem."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import hubbub
from hubbub.errors import InvalidParameter
from hubbub.refusals import Refused
from hubbub_aggregator.analysis.precompute_guarantees import warming
from hubbub_aggregator.api import batches, bundle, distribution, operations, query, releases_and_ledger
from hubbub_aggregator.api.openapi import DocumentedAPI
from hubbub_aggregator.api.request_dependencies import OWN_QUESTION
from hubbub_aggregator.dashboard import routes as dashboard
from hubbub_aggregator.storage import StorageError
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.health import add_health
from hubbub_service_common.http.problem_documents import BEARER, ProblemHandlers

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from hubbub_aggregator.service import Aggregator

__all__ = ["create_app"]

_LOG = logging.getLogger("hubbub_aggregator")
_CHALLENGE = f'{BEARER}, Basic realm="hubbub"'
"""Basic is for browsers."""


def create_app(service: Aggregator) -> FastAPI:
    """The app of a service. While its lifespan runs, it also does the service's background work."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with service.running(), warming(service, pages.draw_ahead):
            yield

    def count(refused: Refused) -> None:
        service.refused[refused.refusal.name] += 1

    handlers = ProblemHandlers(_LOG, challenge=_CHALLENGE, refused=count, missing=dashboard.missing)

    async def on_parameter(_request: Request, error: Exception) -> Response:
        return handlers.answer(Refused("invalid-query", str(error)))

    async def on_storage(_request: Request, error: Exception) -> Response:
        try:
            with service.storage_faults():
                raise error
        except Refused as refused:
            return handlers.answer(refused)

    app = create_api("hubbub aggregator", handlers, DocumentedAPI, version=hubbub.__version__, lifespan=lifespan)
    app.add_exception_handler(InvalidParameter, on_parameter)
    app.add_exception_handler(StorageError, on_storage)
    app.state.service = service
    for part in (batches, bundle, distribution, operations, query, releases_and_ledger):
        app.include_router(part.router)
    add_health(app, operations.health_of(service), tags=["operators"])
    pages = dashboard.attach(app, OWN_QUESTION, lambda: service.public_frames)
    return app
