"""/healthz and /readyz: whether the process answers, and whether it could do its work now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fastapi import FastAPI, Response

from hubbub_service_common.problem_documents import problem_answers

__all__ = ["AS_JSON", "AS_TEXT", "Form", "Health", "add_health"]


@dataclass(frozen=True, slots=True)
class Form:
    """How a service says that all is well: texts, and what they are."""

    media_type: str
    alive: str
    ready: str
    schema: dict[str, Any]

    def described(self, text: str) -> dict[int | str, dict[str, Any]]:
        """One of the texts, for the OpenAPI document."""
        return {200: {"description": "It is.", "content": {self.media_type: {"schema": self.schema, "example": text}}}}


_OK: dict[str, Any] = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
AS_JSON = Form("application/json", '{"ok":true}', '{"ok":true}', _OK)
AS_TEXT = Form("text/plain", "ok\n", "ready\n", {"type": "string"})


@dataclass(frozen=True, slots=True)
class Health:
    """What a service says of its health, the same on each of its listeners."""

    form: Form
    refuse_unless_ready: Callable[[], Awaitable[None]]
    """Raises Refused, with what is missing."""
    meaning: str
    """When it is ready, in words."""


def add_health(api: FastAPI, health: Health, *refusals: str, tags: list[str | Enum] | None = None) -> None:
    """Both routes. `refusals`: what else the listener that they are on refuses for."""
    form = health.form

    @api.get(
        "/healthz",
        response_class=Response,
        tags=tags,
        description="The process is alive.",
        responses={**form.described(form.alive), **problem_answers(*refusals)},
    )
    async def healthz() -> Response:
        return Response(form.alive, media_type=form.media_type)

    @api.get(
        "/readyz",
        response_class=Response,
        tags=tags,
        description=health.meaning,
        responses={**form.described(form.ready), **problem_answers("overloaded", "no-bundle", *refusals)},
    )
    async def readyz() -> Response:
        await health.refuse_unless_ready()
        return Response(form.ready, media_type=form.media_type)
