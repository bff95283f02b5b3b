"""A real shuffler in this process, with ingest, storage, batcher and forwarding as shipped, and what it forwards.

Only time and the network are simulated. Uploads arrive through the shuffler's own application, wave by wave, so that
each batch has a known order of arrival. What it forwards is kept as received and opened with the aggregator's code.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.mechanisms import Mechanism
from hubbub.sealing import Sealer, new_private_key, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import BATCH_HEADER_BYTES, REPORTS_TYPE, BatchHeader, ReportHeader, encode_upload
from hubbub_aggregator.intake.open_reports import Opened, open_slice, slices
from hubbub_audit.audited_client import fast_folder
from hubbub_client._randomizing.draw import Draw
from hubbub_client._sending.seal_and_send import seal
from hubbub_shuffler.in_process import in_process

__all__ = ["MOST_BATCHES", "Received", "through_the_shuffler"]

MOST_BATCHES = 4_000
"""Most batches at a time: each has its own period, and all of these must be open at once."""
_KEY = 1
_FIRST = 500_000
"""The period of the first batch."""
_FORWARDS = 16
_ROUNDS = 50


@dataclass
class _Aggregator:
    """Accepts and keeps every batch, and hands out the bundle."""

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
    """One batch as the aggregator has it: nonces and payloads in the order received."""

    nonces: list[bytes]
    payloads: list[bytes]


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def through_the_shuffler(codebook: Codebook, metric: bytes, batches: Sequence[Sequence[Draw]]) -> list[Received]:
    """Send each batch's draws in order, one upload after the other; return the batches as the aggregator gets them."""
    if len(batches) > MOST_BATCHES:
        raise ValueError(f"at most {MOST_BATCHES} batches at a time, got {len(batches)}")
    with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder:
        return asyncio.run(_through(Path(folder), codebook, metric, batches))


async def _through(
    folder: Path, codebook: Codebook, metric: bytes, batches: Sequence[Sequence[Draw]]
) -> list[Received]:
    calendar = codebook.collection.calendar
    newest = calendar.period(_FIRST + len(batches) - 1)
    clock = _Clock(float(newest.start + 1))
    identity, private = Ed25519PrivateKey.generate(), new_private_key()
    sealing = SealingKey(_KEY, public_key_of(private), 0, 2**31)
    aggregator = _Aggregator(_signed(identity, codebook, sealing, int(clock.now)))
    async with in_process(
        aggregator,
        state_dir=folder,
        trust=anchor_of(identity),
        clock=clock,
        min_batch_floor=2,
        max_body=2**22,
        max_reports=2 * MOST_BATCHES,
        forwards=_FORWARDS,
    ) as (shuffler, devices):
        await shuffler.bundles.refresh()
        await _upload(devices, metric, batches, Sealer(sealing.public_key))
        clock.now = float(newest.closes_at(codebook.collection.grace) + 1)
        for _ in range(_ROUNDS):
            await shuffler.batcher.tick()
            if len(aggregator.batches) == len(batches):
                break
            clock.now += 100
    mechanism = next(m.mechanism for m in codebook.metrics if m.id == metric)
    return [
        _opened(folder / "body", aggregator.batches[_FIRST + index], mechanism, private)
        for index in range(len(batches))
    ]


def _signed(identity: Ed25519PrivateKey, codebook: Codebook, key: SealingKey, now: int) -> bytes:
    return sign(
        identity,
        collection=codebook.collection.name,
        codebooks=[BundledCodebook(0, codebook.compiled())],
        keys=[key],
        now=now,
        lifetime=30 * 86_400,
        max_age=86_400,
        last=None,
    )


async def _upload(
    devices: httpx2.AsyncClient, metric: bytes, batches: Sequence[Sequence[Draw]], sealer: Sealer
) -> None:
    """The first report of every batch in one upload, then the second of every batch, and so on."""
    for wave in range(max(map(len, batches))):
        reports = [
            seal(ReportHeader(metric, _FIRST + index, _KEY), batch[wave], sealer)
            for index, batch in enumerate(batches)
            if wave < len(batch)
        ]
        answer = await devices.post(
            "/v1/reports", content=encode_upload(reports), headers={"Content-Type": REPORTS_TYPE}
        )
        if answer.status_code != httpx2.codes.ACCEPTED:
            raise RuntimeError(f"the shuffler did not take an honest upload: {answer.status_code} {answer.text}")


def _opened(path: Path, body: bytes, mechanism: Mechanism[Any], private: bytes) -> Received:
    """A batch, opened with the aggregator's code. `path` is a scratch file for its reports."""
    path.write_bytes(body[BATCH_HEADER_BYTES:])
    parts = slices(path, BatchHeader.decode(body), mechanism, private)
    return _received([open_slice(part) for part in parts], mechanism.report_bytes)


def _received(parts: list[Opened], size: int) -> Received:
    nonces = b"".join(part.nonces for part in parts)
    payloads = b"".join(part.payloads for part in parts)
    return Received(
        [nonces[at : at + 16] for at in range(0, len(nonces), 16)],
        [payloads[at : at + size] for at in range(0, len(payloads), size)],
    )
