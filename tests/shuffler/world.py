"""A world for the shuffler's tests: signed bundles, unique reports, a stub aggregator, a shuffler in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, Self

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from hubbub.bundle import SealingKey
from hubbub.codebook import Codebook
from hubbub.refusals import Refused
from hubbub.trust_anchor import anchor_of
from hubbub.wire import (
    BATCH_HEADER_BYTES,
    REPORTS_TYPE,
    BatchHeader,
    ReportHeader,
    encode_report,
    encode_upload,
    sealed_bytes,
)
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.batching.batch_worker import Batcher
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import Forwarder
from hubbub_shuffler.ingest.rate_limit import Limits
from hubbub_shuffler.main import build
from hubbub_shuffler.settings import Settings
from hubbub_shuffler.storage import AsyncStorage
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.support.clock import Clock
from tests.support.codebooks import IDENTITY, dark_mode, metric, photo_app, theme
from tests.support.codebooks import signed as signed_bundle

TRUST = (anchor_of(IDENTITY),)
TOKEN = "a-token-that-only-this-test-knows"  # noqa: S105  it opens nothing
AGGREGATOR = "http://aggregator.test"

HOUR = 3_600
PERIOD = 500_000
NOW = PERIOD * HOUR + 600
"""Ten minutes into the period."""
CLOSES = (PERIOD + 2) * HOUR


def toml(period: str = "1h", grace: str = "1h", **collection: Any) -> str:
    return photo_app(
        dark_mode(1),
        theme(1),
        metric("old", type="boolean", epsilon=1, enabled=False),
        period=period,
        grace=grace,
        **collection,
    )


def codebook(min_batch: int = 3, period: str = "1h", grace: str = "1h") -> Codebook:
    return Codebook.from_toml(toml(period, grace)).with_min_batch(lambda _metric: min_batch)


METRIC = codebook().metric("dark_mode").id
THEME = codebook().metric("theme").id
DISABLED = codebook().metric("old").id
SEALED = sealed_bytes(codebook().metric("dark_mode").mechanism.report_bytes)
THEME_SEALED = sealed_bytes(codebook().metric("theme").mechanism.report_bytes)


def key(key_id: int, first: int, last: int, state: Any = "active") -> SealingKey:
    return SealingKey(key_id, bytes([key_id] * 32), first, last, state)


KEYS = (
    key(1, PERIOD - 100, PERIOD),
    key(2, PERIOD + 1, PERIOD + 100, "pending"),
    key(3, PERIOD - 100, PERIOD, "revoked"),
)


def signed(
    now: float = NOW,
    *,
    book: Codebook | None = None,
    books: Mapping[int, Codebook] | None = None,
    keys: tuple[SealingKey, ...] = KEYS,
    first_period: int = 0,
    lifetime: int = 30 * 86_400,
    max_age: int = 600,
    identity: Ed25519PrivateKey = IDENTITY,
) -> bytes:
    """A bundle as the aggregator would sign it. `books`: several, by the period in which each starts."""
    return signed_bundle(
        books or {first_period: book or codebook()},
        keys,
        now=now,
        lifetime=lifetime,
        max_age=max_age,
        identity=identity,
    )


def unique(count: int, size: int = SEALED) -> list[bytes]:
    """Sealed parts, no two the same: bytes that the shuffler cannot read anyway."""
    return [os.urandom(size) for _ in range(count)]


def report(sealed: bytes, metric: bytes = METRIC, period: int = PERIOD, key_id: int = 1) -> bytes:
    return encode_report(ReportHeader(metric, period, key_id), sealed)


def upload(sealed: list[bytes], **header: Any) -> bytes:
    return encode_upload(report(each, **header) for each in sealed)


class StubAggregator:
    """Keeps every body by batch id, as the real one does: same content, same verdict; other content, conflict.

    `answers` are given once each before it behaves: a status and a problem's name, the body of a 502, or an exception
    to raise after the body was kept (the answer is lost on its way back).
    """

    def __init__(self, bundle: bytes | None = None) -> None:
        self.bundle = bundle if bundle is not None else signed()
        self.batches: dict[str, bytes] = {}
        self.puts: list[tuple[str, bytes]] = []
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []
        self.answers: list[int | bytes | tuple[int, str] | Exception] = []
        self.verdict: dict[str, Any] = {"state": "accepted", "reason": None}
        self.up = True
        self.clock: Callable[[], float] | None = None
        """What its Date says, if it sends one."""
        self.headers_too: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        self.requests.append((scope["method"], scope["path"], headers))
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, document = self._answer(scope["method"], scope["path"], headers, body)
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()
        if status == 304:
            raw = b""
        listed = [(b"content-length", str(len(raw)).encode())]
        if self.clock is not None:
            listed.append((b"date", formatdate(self.clock(), usegmt=True).encode()))
        listed += self.headers_too
        if scope["path"] == "/v1/bundle":
            listed.append((b"etag", b'"%d"' % hash(self.bundle)))
        await send({"type": "http.response.start", "status": status, "headers": listed})
        await send({"type": "http.response.body", "body": raw})

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        if not self.up:
            raise httpx2.ConnectError("down")
        if path == "/v1/bundle":
            return (304, b"") if headers.get("if-none-match") == f'"{hash(self.bundle)}"' else (200, self.bundle)
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, Refused("unauthorized", "no").document()
        batch_id = path.removeprefix("/v1/batches/")
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, tuple):
            return answer[0], Refused(answer[1], "as the test wants").document()
        if isinstance(answer, bytes):
            return 502, answer
        if isinstance(answer, int):
            return answer, b"<html>not our word</html>"
        if method == "PUT":
            self.puts.append((batch_id, body))
            if self.batches.setdefault(batch_id, body) != body:
                return 409, Refused("batch-conflict", "other content").document()
            if answer is not None:
                raise answer
            return 202, {"state": "pending", "reason": None}
        if batch_id not in self.batches:
            return 404, Refused("not-found", "never seen").document()
        return 200, self.verdict

    def headers(self) -> list[BatchHeader]:
        return [BatchHeader.decode(body) for body in list(self.batches.values())]

    def delivered(self) -> list[bytes]:
        """Every sealed report that arrived, each batch counted once."""
        found = []
        for body in list(self.batches.values()):
            header, rest = BatchHeader.decode(body), body[BATCH_HEADER_BYTES:]
            assert len(rest) == header.body_bytes
            found += [rest[at : at + header.size] for at in range(0, len(rest), header.size or 1)]
        return found


class World:
    """A shuffler without its process, built as the service builds itself: time and network are the test's.

    `address`: where the aggregator is said to be. `settings`: the service's, where they are not those below.
    """

    def __init__(
        self,
        state_dir: Path,
        aggregator: StubAggregator | None = None,
        clock: Clock | None = None,
        storage: AsyncStorage | None = None,
        *,
        address: str = AGGREGATOR,
        trusted: TrustedClock | None = None,
        limits: Limits | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or Clock(NOW)
        self.trusted = trusted or TrustedClock.set_by(self.clock)
        self.aggregator = aggregator or StubAggregator()
        self.storage = storage or AsyncStorage(
            SqliteStorage(state_dir / "reports.sqlite", clock=self.clock, entropy=os.urandom)
        )
        usual: dict[str, Any] = {"trust": TRUST, "min_batch_floor": 2, "max_batch": 1_000}
        self.settings = Settings.model_construct(
            state_dir=state_dir, aggregator=address, forward_token=SecretStr(TOKEN), **(usual | settings)
        )
        self.upstream = httpx2.AsyncClient(transport=httpx2.ASGITransport(self.aggregator), trust_env=False)
        self.app, self.ingest, self.bundles, self.batcher = build(
            self.settings, self.storage, self.upstream, clock=self.trusted, limits=limits
        )
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url="http://shuffler.test")

    def worker(self, storage: AsyncStorage | None = None, **settings: Any) -> Batcher:
        """Another batcher of this shuffler: on another storage, or with other settings."""
        given = self.settings.model_copy(update=settings)
        upstream = Upstream(self.upstream, address=given.aggregator, token=TOKEN, clock=self.trusted)
        return Batcher(
            storage or self.storage,
            self.bundles,
            Forwarder(upstream),
            clock=self.trusted,
            entropy=os.urandom,
            floor=given.min_batch_floor,
            max_batch=given.max_batch,
            lease=given.lease,
            longest_backoff=given.longest_backoff,
            poll=given.tick / 2,
        )

    async def __aenter__(self) -> Self:
        await self.bundles.refresh()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.client.aclose()
        await self.upstream.aclose()
        await self.storage.aclose()

    async def post(self, body: bytes, **headers: str) -> httpx2.Response:
        return await self.client.post("/v1/reports", content=body, headers={"Content-Type": REPORTS_TYPE} | headers)

    async def settle_all(self, rounds: int = 20) -> None:
        """Tick, with time going on, until nothing is left to do."""
        for _ in range(rounds):
            await self.batcher.tick()
            overview = await self.storage.overview()
            if not overview.waiting and not any(overview.batches.values()):
                return
            self.clock.now += 100
        raise AssertionError(f"not settled after {rounds} rounds: {overview}")


def files_of(directory: Path) -> bytes:
    """Every byte in every file below a directory."""
    found = []
    for path in sorted(directory.rglob("*")):
        with suppress(FileNotFoundError, IsADirectoryError):  # a running process renames and removes
            found.append(path.read_bytes())
    return b"".join(found)
