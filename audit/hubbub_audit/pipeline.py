"""A real shuffler in this process, and what its aggregator receives: ingest, storage, batcher, forwarding as shipped.

Only time and the network are ours: uploads arrive through its own application, wave by wave, so that each batch has a
known order of arrival; what it forwards is kept as received and opened with the aggregator's code.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.sealing import Sealer, new_private_key, public_key_of
from hubbub.trust import anchor_of
from hubbub.wire import BATCH_HEADER_BYTES, REPORTS_TYPE, BatchHeader, ReportHeader, encode_upload
from hubbub_aggregator.opening import Opened, open_slice, slices
from hubbub_audit.device import fast_folder
from hubbub_client._draw import Draw, seal
from hubbub_shuffler.app import create_app
from hubbub_shuffler.batcher import Batcher
from hubbub_shuffler.bundles import Bundles
from hubbub_shuffler.forward import Forwarder
from hubbub_shuffler.ingest import Ingest
from hubbub_shuffler.storage.sqlite import SqliteStorage

__all__ = ["MOST_BATCHES", "Received", "through_the_shuffler"]

MOST_BATCHES = 4_000
"""At a time: each is a period of its own, and all of them must be open together."""
_KEY = 1
_AGGREGATOR = "http://aggregator.invalid"
_TOKEN = "within one process"  # noqa: S105  it opens nothing
_FORWARDS = 16
_ROUNDS = 50


@dataclass
class _Aggregator:
    """Takes every batch and keeps it; hands out the bundle."""

    bundle: bytes
    batches: dict[int, bytes] = field(default_factory=dict)
    """By period."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = self.bundle
        if scope["method"] == "PUT":
            header = BatchHeader.decode(body)
            if header.kind == "batch":
                self.batches[header.period] = body
            answer = b'{"state": "accepted", "reason": null}'
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b'"1"')]})
        await send({"type": "http.response.body", "body": answer})


@dataclass(frozen=True, slots=True)
class Received:
    """One batch as the aggregator has it: nonces and payloads in the order in which they came."""

    nonces: list[bytes]
    payloads: list[bytes]


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def through_the_shuffler(codebook: Codebook, metric: bytes, batches: Sequence[Sequence[Draw]]) -> list[Received]:
    """Send each batch's draws in their order, one upload after the other; the batches as they come out, in order."""
    if len(batches) > MOST_BATCHES:
        raise ValueError(f"at most {MOST_BATCHES} batches at a time, got {len(batches)}")
    with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder:
        return asyncio.run(_through(Path(folder), codebook, metric, batches))


async def _through(
    folder: Path, codebook: Codebook, metric: bytes, batches: Sequence[Sequence[Draw]]
) -> list[Received]:
    calendar = codebook.collection.calendar
    first = 500_000
    newest = calendar.period(first + len(batches) - 1)
    clock = _Clock(float(newest.start + 1))
    identity, private = Ed25519PrivateKey.generate(), new_private_key()
    sealing = SealingKey(_KEY, public_key_of(private), 0, 2**31)
    bundle = sign(
        identity,
        collection=codebook.collection.name,
        codebooks=[BundledCodebook(0, codebook.compiled())],
        keys=[sealing],
        now=int(clock.now),
        lifetime=30 * 86_400,
        max_age=86_400,
        last=None,
    )
    aggregator = _Aggregator(bundle)
    async with AsyncExitStack() as stack:
        upstream = httpx.AsyncClient(transport=httpx.ASGITransport(aggregator), trust_env=False)
        stack.push_async_callback(upstream.aclose)
        storage = SqliteStorage(folder / "reports.sqlite", clock=clock, entropy=os.urandom)
        stack.push_async_callback(storage.aclose)
        bundles = Bundles(
            upstream,
            storage,
            address=_AGGREGATOR,
            trust=(anchor_of(identity),),
            first_use=False,
            state_dir=folder,
            clock=clock,
            skew=60.0,
        )
        await bundles.refresh()
        ingest = Ingest(
            storage,
            bundles,
            clock=clock,
            floor=2,
            skew=60.0,
            max_body=2**22,
            max_reports=2 * MOST_BATCHES,
            max_pending=2**26,
            max_uploads=1_000,
        )
        app = create_app(ingest=ingest, bundles=bundles, storage=storage, limits=None)
        device = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shuffler.invalid")
        stack.push_async_callback(device.aclose)
        sealer = Sealer(sealing.public_key)
        for wave in range(max(map(len, batches))):
            reports = [
                seal(ReportHeader(metric, first + index, _KEY), batch[wave], sealer)
                for index, batch in enumerate(batches)
                if wave < len(batch)
            ]
            answer = await device.post(
                "/v1/reports", content=encode_upload(reports), headers={"Content-Type": REPORTS_TYPE}
            )
            if answer.status_code != 202:
                raise RuntimeError(f"the shuffler did not take an honest upload: {answer.status_code} {answer.text}")
        clock.now = float(newest.closes_at(codebook.collection.grace) + 1)
        batcher = Batcher(
            storage,
            bundles,
            Forwarder(upstream, address=_AGGREGATOR, token=_TOKEN),
            entropy=os.urandom,
            floor=2,
            max_batch=10**6,
            lease=600.0,
            longest_backoff=60.0,
            poll=0.5,
            forwards=_FORWARDS,
        )
        for _ in range(_ROUNDS):
            await batcher.tick()
            if len(aggregator.batches) == len(batches):
                break
            clock.now += 100
    mechanism = next(m.mechanism for m in codebook.metrics if m.id == metric)
    found = []
    for index in range(len(batches)):
        body = aggregator.batches[first + index]
        path = folder / "body"
        path.write_bytes(body[BATCH_HEADER_BYTES:])
        parts = slices(path, BatchHeader.decode(body), mechanism, private)
        found.append(_received([open_slice(part) for part in parts], mechanism.report_bytes))
    return found


def _received(parts: list[Opened], size: int) -> Received:
    nonces = b"".join(part.nonces for part in parts)
    payloads = b"".join(part.payloads for part in parts)
    return Received(
        [nonces[at : at + 16] for at in range(0, len(nonces), 16)],
        [payloads[at : at + size] for at in range(0, len(payloads), size)],
    )
