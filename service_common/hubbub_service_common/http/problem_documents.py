"""Problem documents (RFC 9457): the one place where a refusal becomes an HTTP answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hubbub.refusals import PROBLEM_TYPE, REFUSALS, Refused
from hubbub_service_common.process.clock_and_entropy import wall
from hubbub_service_common.process.logs import where

if TYPE_CHECKING:
    from starlette.types import Send

__all__ = ["BEARER", "NOT_HTTP", "ProblemDocument", "ProblemHandlers", "problem_answers", "send_problem"]

BEARER = "Bearer"
"""The challenge to a caller without a valid token."""
_BY_STATUS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}
_DETAILS = {
    404: "there is nothing at this address: see /openapi.json for what is here",
    405: "see the Allow header for the methods that this address takes",
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


class ProblemDocument:
    """A refusal as an HTTP answer: status, headers and body. No cache may keep it."""

    def __init__(self, status: int, document: Mapping[str, object], headers: Mapping[str, str]) -> None:
        self.status, self.body = status, json.dumps(document).encode()
        self.headers = {
            "content-type": PROBLEM_TYPE,
            "content-length": str(len(self.body)),
            "cache-control": "no-store",
            **headers,
        }

    @classmethod
    def of(cls, refused: Refused, *, challenge: str = BEARER, allow: str | None = None) -> ProblemDocument:
        """`challenge`: for an unauthorized caller. `allow`: the methods that the address takes."""
        refusal, headers = refused.refusal, dict[str, str]()
        if refused.retry_after is not None:
            headers["retry-after"] = str(refused.retry_after)
        if refusal.name == "unauthorized":
            headers["www-authenticate"] = challenge
        if refusal.name == "method-not-allowed" and allow is not None:
            headers["allow"] = allow
        return cls(refusal.status, refused.document(), headers)

    def response(self) -> Response:
        """For the framework."""
        return Response(self.body, self.status, self.headers)

    async def send(self, send: Send, *, close: bool = False) -> None:
        """Send it as ASGI messages. `close`: end the connection, since a body may follow that is not read."""
        headers = [(name.encode(), value.encode()) for name, value in self._headers(close)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    def raw(self, besides: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
        """The bytes of an HTTP/1.1 answer that ends the connection. It has a Date, like every answer.

        `besides`: headers that depend on the request.
        """
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", f"date: {formatdate(wall(), usegmt=True)}"]
        lines += [f"{name}: {value}" for name, value in self._headers(close=True)]
        lines += [f"{name.decode()}: {value.decode()}" for name, value in besides]
        return "\r\n".join([*lines, "", ""]).encode() + self.body

    def _headers(self, close: bool) -> list[tuple[str, str]]:
        return [*self.headers.items(), *([("connection", "close")] if close else [])]


NOT_HTTP = ProblemDocument(
    400,
    {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": "this is not an HTTP/1.1 request"},
    {},
)
"""For bytes that are not a request."""


async def send_problem(send: Send, refused: Refused, *, close: bool = True, allow: str | None = None) -> None:
    """Answer without the framework. `close` and `allow`: see `ProblemDocument`."""
    await ProblemDocument.of(refused, allow=allow).send(send, close=close)


class ProblemHandlers:
    """Makes the framework answer every error with a problem document, and log nothing of a request.

    `challenge`: for an unauthorized caller. `refused`: called with each refusal. `missing`: may return a page for
    people who look for something that does not exist.
    """

    def __init__(
        self,
        log: logging.Logger,
        *,
        challenge: str = BEARER,
        refused: Callable[[Refused], None] = lambda _refused: None,
        missing: Callable[[Request], Response | None] = lambda _request: None,
    ) -> None:
        self._log, self._challenge, self._refused, self._missing = log, challenge, refused, missing

    def attach(self, api: FastAPI) -> None:
        """Handle everything that can be raised behind the framework."""
        api.add_exception_handler(Refused, self._on_refused)
        api.add_exception_handler(RequestValidationError, self._on_validation)
        api.add_exception_handler(HTTPException, self._on_framework)
        api.add_exception_handler(Exception, self._on_bug)

    def answer(self, refused: Refused, allow: str | None = None) -> Response:
        """Count a refusal, and answer it."""
        self._refused(refused)
        return ProblemDocument.of(refused, challenge=self._challenge, allow=allow).response()

    async def _on_refused(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)  # noqa: S101  registered for no other
        return self.answer(error)

    async def _on_validation(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101  registered for no other
        # the field and the reason, never the value that was sent
        found = "; ".join(f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors())
        return self.answer(Refused("invalid-query", found))

    async def _on_framework(self, request: Request, error: Exception) -> Response:
        """Answer the framework's own refusals under our names. Nothing of the request is repeated."""
        assert isinstance(error, HTTPException)  # noqa: S101  registered for no other
        status = error.status_code
        if status == 404 and (page := self._missing(request)) is not None:
            return page
        name = _BY_STATUS.get(status, "invalid-query" if status < 500 else "internal-error")
        detail = _DETAILS.get(status, "see /openapi.json for what is here")
        return self.answer(Refused(name, detail), allow=(error.headers or {}).get("Allow"))

    async def _on_bug(self, _request: Request, error: Exception) -> Response:
        self._log.error("internal error: %s", where(error))
        return self.answer(Refused("internal-error", "the fault is here, not in the request; try again later"))


def problem_answers(*names: str, schema: Mapping[str, Any] = _SCHEMA) -> dict[int | str, dict[str, Any]]:
    """By status: the OpenAPI description of a route's refusals under these names."""
    found: dict[int | str, dict[str, Any]] = {}
    for refusal in (REFUSALS[name] for name in names):
        answer = found.setdefault(
            refusal.status, {"description": "", "content": {PROBLEM_TYPE: {"schema": schema, "examples": {}}}}
        )
        answer["description"] = f"{answer['description']} {refusal.name}: {refusal.title}".strip()
        example = Refused(refusal.name, "What exactly is wrong, and what to do.").document()
        answer["content"][PROBLEM_TYPE]["examples"][refusal.name] = {"value": example}
    return found
