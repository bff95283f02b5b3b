"""Batches from the shuffler: spooled, acknowledged, and settled in the background."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Path, Request, Response
from starlette.requests import ClientDisconnect

from hubbub.errors import InvalidParameter, MalformedBatch
from hubbub.refusals import Refused
from hubbub.wire import BATCH_HEADER_BYTES, BATCH_TYPE, BatchHeader, sealed_bytes
from hubbub_aggregator.api.request_dependencies import PROBLEMS, Shuffler
from hubbub_aggregator.intake.discarded_bucket_reason import unwanted
from hubbub_aggregator.intake.spool import Upload
from hubbub_aggregator.models.batch_verdict import Verdict
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.storage import Batch, StorageError

__all__ = ["router"]

router = APIRouter(tags=["shuffler"], responses=PROBLEMS)
_BatchId: TypeAlias = Annotated[str, Path(description="The batch's id, drawn by the shuffler: 32 hexadecimal digits.")]

_ID = re.compile(r"[0-9a-f]{32}")
_RETRY = 60
"""Seconds after which a shuffler tries again if its clock and the aggregator's disagree."""
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {BATCH_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.put(
    "/v1/batches/{batch_id}",
    response_model=Verdict,
    responses={202: {"model": Verdict, "description": "Kept; ask for the verdict later."}},
    openapi_extra=_BODY,
)
async def take(batch_id: _BatchId, request: Request, response: Response, service: Shuffler) -> Verdict:
    """Take one shuffled batch, or the notice that one was discarded.

    202: kept, and the verdict is to come. 200: the verdict. Sending the same id again with the same content changes
    nothing; with other content it is a conflict. A body that is shorter or longer than its header says is never kept.
    """
    name = _id(batch_id, "malformed-batch")
    _refuse_media_type(request)
    _refuse_length(request, service)
    stream = request.stream()
    try:
        with service.storage_faults():
            batch = await _taken(service, name, stream)
    except ClientDisconnect as error:
        raise Refused("malformed-batch", "the body ended before its announced length") from error
    if batch.state == "pending":
        response.status_code = 202
    return _verdict(batch)


async def _taken(service: Aggregator, name: bytes, stream: AsyncIterator[bytes]) -> Batch:
    """Keep the batch, or find that it is known already."""
    header, rest = await _header(stream)
    batch = await asyncio.to_thread(service.storage.batch, name)
    if batch is None:
        return await _keep(service, name, header, rest, stream)
    _refuse_conflict(batch, header, batch.digest)  # first, so that another header can't ask for a longer read
    _refuse_conflict(batch, header, await _digest(header, rest, stream))
    return batch


@router.get("/v1/batches/{batch_id}", response_model=Verdict)
def verdict(batch_id: _BatchId, service: Shuffler) -> Verdict:
    """The verdict on a batch, or that it is pending."""
    with service.storage_faults():
        batch = service.storage.batch(_id(batch_id, "not-found"))
    if batch is None:
        raise Refused("not-found", "no batch with this id was kept here")
    return _verdict(batch)


def _verdict(batch: Batch) -> Verdict:
    return Verdict(
        id=batch.id.hex(),
        kind=batch.header.kind,
        state=batch.state,
        reason=batch.reason if batch.state == "refused" else None,
        metric_id=batch.header.metric.hex(),
        period=batch.header.period,
        count=batch.header.count,
        valid=batch.valid,
        invalid=dict(batch.invalid),
    )


def _id(text: str, otherwise: str) -> bytes:
    if not _ID.fullmatch(text):
        raise Refused(otherwise, "a batch id is 32 hexadecimal digits in lower case")
    return bytes.fromhex(text)


def _refuse_media_type(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != BATCH_TYPE:
        raise Refused("unsupported-media-type", f"send a batch as {BATCH_TYPE}")


def _refuse_length(request: Request, service: Aggregator) -> None:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > service.max_batch_bytes:
        raise Refused("too-large", f"a batch has at most {service.max_batch_bytes} bytes")


async def _header(stream: AsyncIterator[bytes]) -> tuple[BatchHeader, bytes]:
    """The header, and the bytes of the body that came with it."""
    start = b""
    async for chunk in stream:
        start += chunk
        if len(start) >= BATCH_HEADER_BYTES:
            break
    try:
        return BatchHeader.decode(start), start[BATCH_HEADER_BYTES:]
    except MalformedBatch as error:
        raise Refused("malformed-batch", str(error)) from error


async def _digest(
    header: BatchHeader, rest: bytes, stream: AsyncIterator[bytes], upload: Upload | None = None
) -> bytes:
    """Read exactly as much as the header says, and hash it. A longer or shorter body is refused."""
    whole, left = hashlib.sha256(header.encode()), header.body_bytes - len(rest)
    whole.update(rest)
    if upload is not None:
        upload.write(rest)
    while left >= 0:
        try:
            chunk = await anext(stream)
        except StopAsyncIteration:
            break
        left -= len(chunk)
        if left >= 0:
            whole.update(chunk)
            if upload is not None:
                upload.write(chunk)
    if left:
        kind = "longer" if left < 0 else f"{left} bytes shorter"
        raise Refused("malformed-batch", f"the body is {kind} than {header.count} reports of {header.size} bytes")
    return whole.digest()


async def _keep(
    service: Aggregator, name: bytes, header: BatchHeader, rest: bytes, stream: AsyncIterator[bytes]
) -> Batch:
    await asyncio.to_thread(_refuse_unfit, service, header)
    if header.kind == "discard":
        digest = await _digest(header, rest, stream)
        why = await asyncio.to_thread(unwanted, service.ring, service.codebooks, header, service.clock.now())
        return await asyncio.to_thread(_admit, service, Batch(name, header, digest, "accepted", reason=why))
    with service.disk_faults(), service.spool.upload(header.body_bytes) as upload:
        try:
            await asyncio.to_thread(service.spool.make_sure_of_room, upload)
            digest = await _digest(header, rest, stream, upload)
            batch = Batch(name, header, digest, "pending", upload.name)
            batch = await asyncio.to_thread(_admit, service, batch, upload)
        finally:
            await asyncio.to_thread(service.spool.withdraw, upload)
    service.wake()
    return batch


def _admit(service: Aggregator, batch: Batch, upload: Upload | None = None) -> Batch:
    """Keep the batch, unless another upload of the same id was faster. The body stays only if the batch names it."""
    if upload is not None:
        service.spool.keep(upload)
    try:
        kept = service.storage.admit(batch)
    except StorageError:
        if upload is not None:
            _remove_unless_named(service, batch.id, upload)
        raise
    if upload is not None:
        service.spool.settle_upload(upload, kept=kept.spool == upload.name)
    _refuse_conflict(kept, batch.header, batch.digest)
    return kept


def _remove_unless_named(service: Aggregator, name: bytes, upload: Upload) -> None:
    """Remove a body unless a batch names it, so that a full storage does not hold it for a day.

    A storage that failed may have kept the batch all the same.
    """
    with suppress(StorageError):
        known = service.storage.batch(name)
        if known is None or known.spool != upload.name:
            service.spool.settle_upload(upload, kept=False)


def _refuse_conflict(known: Batch, header: BatchHeader, digest: bytes) -> None:
    if known.header != header or known.digest != digest:
        raise Refused("batch-conflict", "a batch with this id was kept already, with other content")


def _refuse_unfit(service: Aggregator, header: BatchHeader) -> None:
    """Refuse a batch for everything that can be known before a report is opened."""
    if header.body_bytes + BATCH_HEADER_BYTES > service.max_batch_bytes:
        raise Refused("too-large", f"a batch has at most {service.max_batch_bytes} bytes")
    governed = service.codebooks.governing(header.metric, header.period)
    if governed is None:
        raise _final(service, "unknown-metric", f"no codebook in force in period {header.period} has this metric's id")
    collection, now = governed.collection, service.clock.now()
    try:
        period = collection.calendar.period(header.period)
    except InvalidParameter as error:
        raise Refused("period-in-future", str(error)) from error
    if period.start > now:
        raise Refused("period-in-future", f"the period {period.label} has not begun; check both clocks")
    horizon = period.horizon(collection.grace, collection.forward_horizon)
    if horizon <= service.past:
        raise _final(service, "batch-too-late", f"the period {period.label} is past its horizon")
    if header.kind == "discard":
        return
    if header.size != (size := sealed_bytes(governed.metric.mechanism.report_bytes)):
        raise Refused("wrong-length", f"a sealed report of {governed.metric.name} has {size} bytes, not {header.size}")
    key = service.ring.find(header.period, header.key)
    if key is None and horizon <= now:  # another process, which has run for longer, has erased it
        raise _final(service, "batch-too-late", f"the period {period.label} is past its horizon")
    if key is None:
        raise _final(service, "unknown-key", f"key {header.key} never sealed the period {period.label}")
    if key.revoked:
        raise Refused("revoked-key", f"key {header.key} was revoked")


def _final(service: Aggregator, name: str, detail: str) -> Refused:
    """A refusal that makes the shuffler drop the batch.

    It rests on a clock: this one, or the one under which keys and codebooks were made. While anything contradicts this
    clock, the shuffler is asked to try again later.
    """
    if not service.in_doubt:
        return Refused(name, detail)
    said = f"this would be {name}, but the aggregator's clock is in doubt: /readyz says why"
    return Refused("clock-in-doubt", said, retry_after=_RETRY)
