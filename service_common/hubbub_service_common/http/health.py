"""/healthz and /readyz: whether the process answers, and whether it can do its work now. The same for both services.

A service is ready when each of its named checks finds nothing wrong. To add a check, name it in the service's
`health_of`; the answer, its status and the documentation follow from that. A warning is in the same answer and leaves
the service ready: otherwise all of its processes would be taken out of service at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from fastapi import FastAPI

from hubbub.refusals import Refused
from hubbub_service_common.http.problem_documents import problem_answers
from hubbub_service_common.process.single_flight import PATIENCE, OneQuestion, TookTooLong
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["READY", "Check", "Health", "Reason", "Warn", "add_health"]

Check: TypeAlias = Callable[[], Coroutine[Any, Any, str | None]]
"""Returns what is wrong, in words that anyone may read, or None. It runs once at a time, with a limit of seconds."""
Warn: TypeAlias = Callable[[], str | None]
"""Returns what is wrong but does not stop the service from working, or None. It waits for nothing."""
READY: dict[str, Any] = {"ok": True}
"""The answer when all is well. When it is not, the problem document has `ok` false, and `reasons`."""
_RETRY_SECONDS = 2
_TEXT = {"type": "string"}
_REASONS = {
    "type": "array",
    "items": {"type": "object", "required": ["name", "detail"], "properties": {"name": _TEXT, "detail": _TEXT}},
}
_SCHEMA = {
    "type": "object",
    "required": ["ok"],
    "properties": {"ok": {"type": "boolean"}, "warnings": _REASONS},
}


class Reason(NamedTuple):
    """What is wrong: the name of the check or warning, and what it found."""

    name: str
    detail: str


class Health:
    """The health of a service. `meaning`: what being ready means, in words."""

    def __init__(
        self,
        meaning: str,
        checks: Mapping[str, Check],
        *,
        warnings: Mapping[str, Warn] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.meaning, self._checks, self._warnings = meaning, dict(checks), dict(warnings or {})
        self._asked: dict[str, OneQuestion[str | None]] = {name: OneQuestion(patience) for name in checks}

    async def reasons(self) -> list[Reason]:
        """What is wrong now, in the order of the checks; empty if the service is ready."""
        found = await asyncio.gather(*(self._ask(name) for name in self._checks))
        return [Reason(name, detail) for name, detail in zip(self._checks, found, strict=True) if detail]

    async def ready(self) -> dict[str, Any]:
        """The answer, with all warnings; Refused with all reasons if the service is not ready."""
        told: dict[str, Any] = {}
        if warnings := [Reason(name, detail) for name, warn in self._warnings.items() if (detail := warn())]:
            told["warnings"] = [warning._asdict() for warning in warnings]
        if reasons := await self.reasons():
            raise Refused(
                "not-ready",
                "; ".join(reason.detail for reason in reasons),
                retry_after=_RETRY_SECONDS,
                ok=False,
                reasons=[reason._asdict() for reason in reasons],
                **told,
            )
        return READY | told

    async def _ask(self, name: str) -> str | None:
        try:
            return await self._asked[name].answer(self._checks[name])
        except TookTooLong:
            return f"the check of the {name} takes too long"
        except StorageError:  # its text is only for the log, where the service has written it
            return "the storage can't be read or written now"


def add_health(api: FastAPI, health: Health, *refusals: str, tags: list[str | Enum] | None = None) -> None:
    """Add both routes. `refusals`: other reasons for which their listener refuses requests."""
    fine: dict[int | str, dict[str, Any]] = {
        200: {"description": "All is well.", "content": {"application/json": {"schema": _SCHEMA, "example": READY}}}
    }

    @api.get(
        "/healthz", tags=tags, description="The process is alive.", responses={**fine, **problem_answers(*refusals)}
    )
    async def healthz() -> dict[str, Any]:
        return READY

    @api.get(
        "/readyz",
        tags=tags,
        description=f"{health.meaning} If not, `reasons` in the problem document lists the name and detail of each "
        "check that failed. `warnings` lists what is wrong but does not stop the service from working, ready or not.",
        responses={**fine, **problem_answers("not-ready", *refusals)},
    )
    async def readyz() -> dict[str, Any]:
        return await health.ready()
