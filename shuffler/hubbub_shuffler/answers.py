"""What all routes but the upload share: problems for errors, and how they are described in the OpenAPI document."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from hubbub.refusals import PROBLEM_TYPE, REFUSALS, Refused
from hubbub_service_common.logs import where

__all__ = ["create_api", "problems"]

_LOG = logging.getLogger("hubbub_shuffler")
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def create_api(title: str) -> FastAPI:
    """A framework that answers every error with a problem document and tells nobody about requests."""
    api = FastAPI(
        title=title,
        docs_url=None,  # the pages would load their scripts from elsewhere; /openapi.json is served
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans would carry addresses and headers
    )
    api.add_exception_handler(Refused, _problem)
    api.add_exception_handler(HTTPException, _http_problem)
    api.add_exception_handler(Exception, _our_fault)
    return api


def problems(*names: str) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that refuses under these names, for its OpenAPI description."""
    found: dict[int | str, dict[str, Any]] = {}
    for refusal in (REFUSALS[name] for name in names):
        text = found.get(refusal.status, {}).get("description", "")
        found[refusal.status] = {
            "description": f"{text} {refusal.name}: {refusal.title}".strip(),
            "content": {PROBLEM_TYPE: {"schema": _PROBLEM}},
        }
    return found


async def _problem(_request: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)  # noqa: S101  registered for no other
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    return JSONResponse(refused.document(), refused.refusal.status, headers, PROBLEM_TYPE)


async def _http_problem(request: Request, error: Exception) -> Response:
    """The framework's own refusals under our names; nothing of the request is repeated."""
    method = isinstance(error, HTTPException) and error.status_code == 405
    name, detail = (
        ("method-not-allowed", "see Allow for what this address takes")
        if method
        else ("not-found", "there is nothing at this address")
    )
    response = await _problem(request, Refused(name, detail))
    response.headers.update((isinstance(error, HTTPException) and error.headers) or {})
    return response


async def _our_fault(request: Request, error: Exception) -> Response:
    _LOG.error("internal error: %s", where(error))
    return await _problem(request, Refused("internal-error", "the shuffler failed here; try again later"))
