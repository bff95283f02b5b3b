"""The HTTP face: routes over one service object; every error leaves as an RFC 9457 problem."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import hubbub
from hubbub.problems import InvalidParameter
from hubbub.refusals import PROBLEM_TYPE, Refused
from hubbub_aggregator.dashboard import routes as dashboard
from hubbub_aggregator.openapi import DocumentedAPI
from hubbub_aggregator.routes import batches, bundle, operate, query, records
from hubbub_aggregator.storage import StorageError
from hubbub_aggregator.warming import warming

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from hubbub_aggregator.service import Aggregator

__all__ = ["create_app"]

log = logging.getLogger("hubbub.aggregator")

_BY_STATUS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}


def create_app(service: Aggregator) -> FastAPI:
    """The app of a service. With a lifespan it also does the service's background work."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with service.running(), warming(service):
            yield

    app = DocumentedAPI(
        title="hubbub aggregator",
        version=hubbub.__version__,
        docs_url=None,  # the pages would load their scripts from elsewhere; /openapi.json is served
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans would carry addresses and headers
        lifespan=lifespan,
    )
    app.state.service = service
    for part in (batches, bundle, operate, query, records):
        app.include_router(part.router)
    dashboard.attach(app)

    def answer(refused: Refused, headers: dict[str, str] | None = None) -> JSONResponse:
        service.refused[refused.refusal.name] += 1
        sent = {"Cache-Control": "no-store", **(headers or {})}
        if refused.retry_after is not None:
            sent["Retry-After"] = str(refused.retry_after)
        if refused.refusal.name == "unauthorized":
            sent["WWW-Authenticate"] = 'Bearer, Basic realm="hubbub"'
        return JSONResponse(refused.document(), refused.refusal.status, sent, media_type=PROBLEM_TYPE)

    async def on_refused(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)  # noqa: S101  registered for nothing else
        return answer(error)

    async def on_parameter(_request: Request, error: Exception) -> JSONResponse:
        return answer(Refused("invalid-query", str(error)))

    async def on_validation(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101  as above
        # where and why, never the value that was sent
        found = "; ".join(f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors())
        return answer(Refused("invalid-query", found))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  as above
        if error.status_code == 404 and (page := dashboard.missing(request)) is not None:
            return page
        name = _BY_STATUS.get(error.status_code, "invalid-query" if error.status_code < 500 else "internal-error")
        return answer(Refused(name, f"{error.detail}: see /openapi.json for what is here"), dict(error.headers or {}))

    async def on_storage(_request: Request, error: Exception) -> JSONResponse:
        try:
            with service.storage_faults():
                raise error
        except Refused as refused:
            return answer(refused)

    async def on_bug(_request: Request, error: Exception) -> JSONResponse:
        log.error("a request failed: %s", type(error).__name__)
        return answer(Refused("internal-error", "the fault is here, not in the request; the log names it"))

    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(InvalidParameter, on_parameter)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(StorageError, on_storage)
    app.add_exception_handler(Exception, on_bug)
    return app
