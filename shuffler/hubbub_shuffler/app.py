"""The shuffler as one ASGI application: ingest in front, everything else behind it in FastAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from hubbub.refusals import PROBLEM_TYPE, Refused
from hubbub_shuffler.ingest import PATH, Ingest
from hubbub_shuffler.storage import Storage, StorageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hubbub_shuffler.bundles import Bundles

__all__ = ["Status", "create_app"]

_RETRY_SECONDS = 2


class Waiting(BaseModel):
    """A bucket that waits. Not how many reports: who adds some of their own could count the others'."""

    metric: str
    state: str


class Status(BaseModel):
    """What anyone may know, since anyone who can report can read it.

    Nothing in it depends on how many reports wait or were discarded, not even rounded: a rounded number that one can
    add to is an exact one. What the storage counts exactly is for the operator.
    """

    accepted: int = Field(description="Reports that the aggregator accepted, which knows their number. In hundreds.")
    refused: dict[str, int] = Field(description="Uploads and reports refused since the start, by reason. In hundreds.")
    buckets: list[Waiting]
    batches: dict[str, int] = Field(description="Batches not settled yet, by state.")
    settled: dict[str, dict[str, int]] = Field(description="Batches settled, by metric and verdict.")
    discarded: dict[str, int] = Field(description="Buckets discarded as too small, or for a revoked key, by metric.")
    minimum: dict[str, int] = Field(description="Fewest reports that leave together, by metric.")
    bundle: int | None = Field(description="Sequence of the bundle in use.")


def create_app(*, ingest: Ingest, bundles: Bundles, storage: Storage) -> ASGIApp:
    """The whole application. Uploads never pass through the framework: that would halve their rate."""
    api = _create_api(ingest, bundles, storage)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH:
            await ingest(scope, receive, send)
        else:
            await api(scope, receive, send)

    return app


def _create_api(ingest: Ingest, bundles: Bundles, storage: Storage) -> FastAPI:
    api = FastAPI(
        title="hubbub shuffler",
        docs_url=None,  # the pages would load their scripts from elsewhere; /openapi.json is served
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans would carry addresses and headers
    )
    api.add_exception_handler(Refused, _problem)
    api.add_exception_handler(HTTPException, _http_problem)
    api.add_exception_handler(Exception, _our_fault)

    @api.get("/v1/bundle")
    async def bundle(request: Request) -> Response:
        """The aggregator's signed bundle, byte for byte."""
        relayed = bundles.current
        if relayed is None:
            raise Refused("no-bundle", "the shuffler has no valid bundle yet", retry_after=_RETRY_SECONDS)
        headers = {"ETag": relayed.etag, "Cache-Control": f"max-age={relayed.bundle.body.max_age}"}
        if _matches(request.headers.get("if-none-match", ""), relayed.etag):
            return Response(status_code=304, headers=headers)
        return Response(relayed.raw, media_type="application/vnd.hubbub.bundle", headers=headers)

    @api.get("/v1/status")
    async def status() -> Status:
        """What waits, what left and what was refused, in numbers that single out nobody who waits."""
        return await _status(ingest, storage)

    @api.get("/healthz")
    async def healthz() -> dict[str, bool]:
        """The process is alive."""
        return {"ok": True}

    @api.get("/readyz")
    async def readyz() -> dict[str, bool]:
        """Reports would be taken: the storage can be written, a valid bundle is at hand."""
        try:
            await storage.check()
        except StorageError as error:
            raise Refused("overloaded", "the storage can't be written", retry_after=_RETRY_SECONDS) from error
        if bundles.current is None:
            raise Refused("no-bundle", "the shuffler has no valid bundle yet", retry_after=_RETRY_SECONDS)
        return {"ok": True}

    return api


async def _status(ingest: Ingest, storage: Storage) -> Status:
    try:
        overview = await storage.overview()
    except StorageError as error:
        raise Refused("overloaded", "the storage can't be read", retry_after=_RETRY_SECONDS) from error
    accepted = 0
    settled: dict[str, dict[str, int]] = {}
    discarded: dict[str, int] = {}
    for (name, what), count in overview.counts.items():
        if what in {"ingested", "duplicate"}:
            continue
        if what == "discarded":
            discarded[name] = count.batches
        else:
            settled.setdefault(name, {})[what] = count.batches
        if what == "accepted":
            accepted += count.reports
    admission = ingest.admission
    return Status(
        accepted=_hundreds(accepted),
        refused={reason: _hundreds(count) for reason, count in ingest.refused.items() if _hundreds(count)},
        buckets=[Waiting(metric=b.name, state=b.state) for b in overview.waiting],
        batches=overview.batches,
        settled=settled,
        discarded=discarded,
        minimum={m.name: admission.minimum_of(m) for c in admission.bundle.body.codebooks for m in c.metrics}
        if admission
        else {},
        bundle=admission.bundle.body.sequence if admission else None,
    )


def _hundreds(count: int) -> int:
    return count // 100 * 100


def _matches(if_none_match: str, etag: str) -> bool:
    return if_none_match.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))


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


async def _our_fault(request: Request, _error: Exception) -> Response:
    return await _problem(request, Refused("internal-error", "the shuffler failed here; try again later"))
