"""FastAPI as the services use it: every error is a problem document, and requests leave no traces or logs."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import FastAPI

from hubbub_service_common.http.problem_documents import ProblemHandlers

__all__ = ["create_api"]

A = TypeVar("A", bound=FastAPI)


def create_api(title: str, handlers: ProblemHandlers, made: type[A], **options: Any) -> A:
    """An API of this title and class. `options` are the framework's own."""
    api = made(
        title=title,
        docs_url=None,  # those pages would load scripts from other sites; /openapi.json is served
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans would carry addresses and headers
        **options,
    )
    handlers.attach(api)
    return api
