"""Dependencies of all routes: the service, an authorized caller, and a query without unknown parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from hubbub.errors import did_you_mean
from hubbub.refusals import Refused
from hubbub_aggregator.models.problem import Problem
from hubbub_aggregator.service import Aggregator

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

__all__ = ["OWN_QUESTION", "PROBLEMS", "Analyst", "Anyone", "Service", "Shuffler", "only_known_parameters"]

OWN_QUESTION = {"hubbub_aggregator.own_question": object()}
"""Member of an ASGI scope that marks a question of this process to itself: it needs no token. No request can have it,
because servers make a scope from what HTTP says, and the value is an object of this process."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem (RFC 9457).", "model": Problem, "content": {"application/problem+json": {}}}
}


def _service(request: Request) -> Aggregator:
    service: Aggregator = request.app.state.service
    return service


def _shuffler(request: Request) -> Aggregator:
    service = _service(request)
    service.shufflers.require(request.headers.get("authorization"))
    service.clock.hear(request.headers.get("date"))
    return service


def _anyone(request: Request) -> Aggregator:
    """Anyone may ask. Only a caller that may send batches is trusted about the time."""
    with suppress(Refused):
        return _shuffler(request)
    return _service(request)


def _analyst(request: Request) -> Aggregator:
    service = _service(request)
    ((name, secret),) = OWN_QUESTION.items()
    if request.scope.get(name) is not secret:
        service.analysts.require(request.headers.get("authorization"), basic=True)
    return service


Service = Annotated[Aggregator, Depends(_service)]
Anyone = Annotated[Aggregator, Depends(_anyone)]
"""The service, for a caller with or without a shuffler's token."""
Shuffler = Annotated[Aggregator, Depends(_shuffler)]
"""The service, for a caller with a shuffler's token."""
Analyst = Annotated[Aggregator, Depends(_analyst)]
"""The service, for a caller with an analyst's token."""


def only_known_parameters(request: Request, _caller: Analyst) -> None:
    """Refuse parameters that would be ignored: a misspelt `from` would silently answer another question.

    It depends on the caller, so that a caller who may not ask at all is refused first.
    """
    allowed = set(_parameters(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in allowed:
            hint = did_you_mean(name[:50], sorted(allowed)) or f"known: {', '.join(sorted(allowed)) or 'none'}"
            raise Refused("invalid-query", f"{name[:50]!r} is not a parameter here: {hint}")
        if len(request.query_params.getlist(name)) > 1:
            raise Refused("invalid-query", f"{name}: give it once")


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)
