"""The shuffler as one ASGI application: uploads in front, all other routes behind them in FastAPI."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from hubbub.refusals import Refused
from hubbub.wire import REPORTS_TYPE
from hubbub_service_common.http.entity_tags import is_known
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.health import Health, add_health
from hubbub_service_common.http.problem_documents import ProblemHandlers, problem_answers, send_problem
from hubbub_shuffler.ingest.upload import PATH, Ingest
from hubbub_shuffler.operations.limited_storage_questions import Asked
from hubbub_shuffler.operations.metrics import hundreds
from hubbub_shuffler.storage import AsyncStorage, StorageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hubbub_shuffler.bundle.relay import Bundles
    from hubbub_shuffler.ingest.rate_limit import Limits

__all__ = ["Failures", "Status", "create_app", "health_of", "public_api", "status_of"]

BUNDLE_TYPE = "application/vnd.hubbub.bundle"
_LOG = logging.getLogger("hubbub_shuffler")
_RETRY_SECONDS = 2


class Waiting(BaseModel):
    """A waiting bucket, without its number of reports: a sender could add some of its own and count the others'."""

    metric: str
    state: str


class Status(BaseModel):
    """The public status: anyone who can send reports can read it.

    Nothing in it depends on how many reports wait, were discarded or were refused, not even rounded: by adding reports
    to a rounded number, a sender learns the exact one. Exact counts are for the operator.
    """

    accepted: int = Field(
        description="Reports that the aggregator accepted, in hundreds. The aggregator knows their number."
    )
    buckets: list[Waiting]
    batches: dict[str, int] = Field(description="Batches not settled yet, by state.")
    held: dict[str, int] = Field(description="Batches that the aggregator refused and that are held, by reason.")
    settled: dict[str, dict[str, int]] = Field(description="Batches settled, by metric and verdict.")
    discarded: dict[str, int] = Field(description="Buckets discarded as too small, or for a revoked key, by metric.")
    min_batch_floor: int = Field(
        description="Fewest reports that ever leave together, as set by this shuffler's operator."
    )
    minimum: dict[str, int] = Field(
        description="Fewest reports that leave together, by metric: the floor, or the codebook's minimum if that is "
        "higher."
    )
    bundle: int | None = Field(description="Sequence of the bundle in use.")
    codebooks: list[str] = Field(description="Ids of the codebooks in it; a device or shuffler can pin them.")


class Failure(BaseModel):
    """One report that was refused."""

    index: int = Field(ge=0, description="Its place in the upload, from 0.")
    reason: str


class Failures(BaseModel):
    """The reports of an upload that were refused; the others are durable."""

    failures: list[Failure]


def create_app(*, ingest: Ingest, bundles: Bundles, storage: AsyncStorage, limits: Limits | None = None) -> ASGIApp:
    """The whole application. Uploads never pass through the framework: that would halve their rate."""
    api = _limited(public_api(ingest, bundles, storage), limits, ingest)

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["path"] == PATH:
            return ingest(scope, receive, send)
        return api(scope, receive, send)

    return app


def _limited(api: ASGIApp, limits: Limits | None, ingest: Ingest) -> ASGIApp:
    """Every request takes a token of its address. Errors end here: uvicorn's log of one could tell who asked."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        source = limits.source(scope) if limits is not None and scope["type"] == "http" else None
        if source is not None and limits is not None and (wait := limits.take(source)):
            ingest.refused["rate-limited"] += 1
            await send_problem(send, Refused("rate-limited", "too much came from this address", retry_after=wait))
            return
        with suppress(Exception):  # by now it has been answered, and logged by its type and place
            await api(scope, receive, send)

    return limited


def public_api(ingest: Ingest, bundles: Bundles, storage: AsyncStorage) -> FastAPI:
    """All routes of the public listener except the upload, which is only described."""
    api, asked = create_api("hubbub shuffler", ProblemHandlers(_LOG), FastAPI), Asked(storage)

    @api.get(
        "/v1/bundle",
        response_class=Response,
        responses={
            200: {
                "description": "The bundle.",
                "content": {BUNDLE_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            },
            304: {"description": "The bundle is the one that If-None-Match names."},
            **problem_answers("rate-limited", "no-bundle"),
        },
    )
    async def bundle(request: Request) -> Response:
        """The aggregator's signed bundle, byte for byte."""
        relayed = bundles.current
        if relayed is None:
            raise Refused("no-bundle", "the shuffler has no valid bundle yet", retry_after=_RETRY_SECONDS)
        headers = {"ETag": relayed.etag, "Cache-Control": f"max-age={relayed.bundle.body.max_age}"}
        if is_known(relayed.etag, request.headers.get("if-none-match")):
            return Response(status_code=304, headers=headers)
        return Response(relayed.raw, media_type=BUNDLE_TYPE, headers=headers)

    @api.get("/v1/status", responses=problem_answers("rate-limited", "overloaded"))
    async def status() -> Status:
        """What waits and what has left, in numbers that single out no waiting report."""
        return await status_of(ingest, bundles, asked)

    add_health(api, health_of(ingest, bundles, asked), "rate-limited")
    _describe_upload(api)
    return api


def health_of(ingest: Ingest, bundles: Bundles, storage: Asked) -> Health:
    """The health checks: the shuffler is ready when it would take reports."""

    async def writable() -> str | None:
        try:
            await storage.check()
            full = await storage.is_full(ingest.high_water)
        except StorageError:
            return "the storage can't be written: the shuffler's log says why"
        return "the storage has no room until reports have left" if full else None

    async def bundle() -> str | None:
        return "the shuffler has no valid bundle yet" if bundles.current is None else None

    def clock() -> str | None:
        return bundles.clock.warning()

    return Health(
        "Reports would be taken: the storage can be written and has room, a valid bundle is at hand.",
        {"storage": writable, "bundle": bundle},
        warnings={"clock": clock},
    )


def _describe_upload(api: FastAPI) -> None:
    """Add the upload to the OpenAPI document; the framework itself never sees an upload."""
    made = api.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document["paths"][PATH] = {
            "post": {
                "summary": "Reports",
                "description": "One or many sealed reports, each after its length (two bytes, big-endian).",
                "operationId": "reports",
                "requestBody": {
                    "required": True,
                    "content": {REPORTS_TYPE: {"schema": {"type": "string", "format": "binary"}}},
                },
                "responses": {
                    "202": {"description": "All reports are durable."},
                    "200": {
                        "description": "All reports are durable except those listed.",
                        "content": {"application/json": {"schema": Failures.model_json_schema()}},
                    },
                    **{
                        str(status): answer
                        for status, answer in problem_answers(
                            "malformed-upload",
                            "too-large",
                            "unsupported-media-type",
                            "rate-limited",
                            "overloaded",
                            "storage-full",
                            "no-bundle",
                        ).items()
                    },
                },
            }
        }
        return document

    api.openapi = openapi  # type: ignore[method-assign]  # the framework's own way to extend the document


async def status_of(ingest: Ingest, bundles: Bundles, storage: Asked) -> Status:
    """The status, read now."""
    try:
        overview = await storage.overview()
    except StorageError as error:
        raise Refused("overloaded", "the storage can't be read", retry_after=_RETRY_SECONDS) from error
    accepted = 0
    settled: dict[str, dict[str, int]] = {}
    discarded: dict[str, int] = {}
    for (name, what), count in overview.counts.items():
        if what in {"ingested", "duplicate", "halved", "damaged", "lost"}:
            continue
        if what == "discarded":
            discarded[name] = count.batches
        else:
            settled.setdefault(name, {})[what] = count.batches
        if what == "accepted":
            accepted += count.reports
    admission, relayed = ingest.admission, bundles.current
    return Status(
        accepted=hundreds(accepted),
        buckets=[Waiting(metric=b.name, state=b.state) for b in overview.waiting],
        batches=overview.batches,
        held={why: count.batches for why, count in overview.held.items()},
        settled=settled,
        discarded=discarded,
        min_batch_floor=ingest.floor,
        minimum=admission.minimums() if admission else {},
        bundle=relayed.bundle.body.sequence if relayed else None,
        codebooks=list(relayed.codebooks) if relayed else [],
    )
