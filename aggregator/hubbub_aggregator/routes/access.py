"""What every route needs: the service, and a caller who may call."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from hubbub_aggregator.models import Problem
from hubbub_aggregator.service import Aggregator

__all__ = ["PROBLEMS", "Analyst", "Service", "Shuffler"]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem (RFC 9457).", "model": Problem, "content": {"application/problem+json": {}}}
}


def _service(request: Request) -> Aggregator:
    service: Aggregator = request.app.state.service
    return service


def _shuffler(request: Request) -> Aggregator:
    service = _service(request)
    service.shufflers.require(request.headers.get("authorization"))
    return service


def _analyst(request: Request) -> Aggregator:
    service = _service(request)
    service.analysts.require(request.headers.get("authorization"), basic=True)
    return service


Service = Annotated[Aggregator, Depends(_service)]
Shuffler = Annotated[Aggregator, Depends(_shuffler)]
"""The service, for a caller with a shuffler's token."""
Analyst = Annotated[Aggregator, Depends(_analyst)]
"""The service, for a caller with an analyst's token."""
