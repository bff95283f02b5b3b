"""An aggregator in the test's process, and sealed batches as it gets them from devices through a shuffler."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from fastapi import FastAPI

from hubbub.accounting import min_reports
from hubbub.bundle import Bundle, verify
from hubbub.codebook import Metric
from hubbub.mechanisms import Mechanism
from hubbub.sealing import Sealer
from hubbub.simulation import InsecureBulkRandomness
from hubbub.wire import BATCH_HEADER_BYTES, BATCH_TYPE, BatchHeader, Plaintext, ReportHeader
from hubbub_aggregator.app import create_app
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import DATABASE, build, open_state
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage.redis.backend import RedisStorage
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.redis.calls_and_scripts import command
from tests.support.clock import Clock
from tests.support.codebooks import dark_mode, photo_app, startup_ms, theme
from tests.support.compiled import write_compiled

START = 1_800_000_000 // 86_400 * 86_400
"""A midnight; the first period of every test starts here."""
DAY = 86_400
WAIT = 2 * 3_600 + 600
"""Seconds past the horizon after which keys are erased and a batch is too late."""

ANSWERS: dict[str, int] = {}
"""Batch sizes that the accountant has worked out in this run: new sites remember them, as a restarted one does."""

CODEBOOK = photo_app(
    dark_mode(1.0, description="Whether the dark theme is on"),
    theme(2.0),
    startup_ms(1.0, mechanism="laplace"),
    grace="1d",
    device_epsilon=6.0,
    delta=1e-6,
    honest_fraction=0.9,
)


@dataclass
class Site:
    """An aggregator in this process, and what tests do to it.

    Its storage blocks, and so do tests: each request and each work has an event loop of its own.
    """

    state_dir: Path
    codebook: Path
    clock: Clock
    settings: Settings
    pool: Pool
    trusted: Callable[[], TrustedClock] | None = None
    """What it goes by, from each start on; else `clock`, which is its own measure."""
    service: Aggregator = field(init=False)
    app: FastAPI = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @classmethod
    def open(
        cls,
        root: Path,
        pool: Pool,
        text: str = CODEBOOK,
        *,
        clock: Clock | None = None,
        trusted: Callable[[], TrustedClock] | None = None,
        **settings: Any,
    ) -> Site:
        codebook = root / "codebook.json"
        write_compiled(codebook, text)
        chosen = Settings(codebook=codebook, state_dir=root / "state", **settings)
        return cls(root / "state", codebook, clock or Clock(START + 3600), chosen, pool, trusted)

    def start(self) -> None:
        if not self.state_dir.exists() or self.settings.storage is not None:
            remember(self.settings)
        self.service = build(self.settings, TrustedClock.set_by(self.clock) if self.trusted is None else self.trusted())
        if self.settings.storage is None:
            with closing(sqlite3.connect(self.state_dir / DATABASE)) as database:
                ANSWERS.update(database.execute("SELECT question, answer FROM remembered").fetchall())
        elif isinstance(storage := self.service.storage, RedisStorage):
            flat = storage._client.one(command("HGETALL", storage._keys.remembered), write=False)
            ANSWERS.update({name.decode(): int(found) for name, found in zip(flat[::2], flat[1::2], strict=True)})
        self.app = create_app(self.service)
        self.service.pool = self.service.accumulator.pool = self.pool  # shared: starting processes is slow

    def close(self) -> None:
        self.service.storage.close()

    def reopen(self, text: str | None = None) -> None:
        """Stop and start again, perhaps with an edited codebook."""
        self.close()
        if text is not None:
            write_compiled(self.codebook, text)
        self.start()

    # -- HTTP

    def call(self, method: str, path: str, **request: Any) -> httpx2.Response:
        return self.calls([(method, path, request)])[0]

    def calls(self, requests: Iterable[tuple[str, str, dict[str, Any]]]) -> list[httpx2.Response]:
        """Several requests, one after the other, each on the app as it would be served."""

        async def go() -> list[httpx2.Response]:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://aggregator") as http:
                return [await http.request(method, path, **request) for method, path, request in requests]

        return asyncio.run(go())

    def get(self, path: str, **request: Any) -> httpx2.Response:
        return self.call("GET", path, **request)

    def json(self, path: str) -> Any:
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def put(self, body: bytes, batch_id: bytes | None = None, **request: Any) -> httpx2.Response:
        headers = {"Content-Type": BATCH_TYPE} | request.pop("headers", {})
        name = (batch_id or os.urandom(16)).hex()
        return self.call("PUT", f"/v1/batches/{name}", content=body, headers=headers, **request)

    def put_together(self, bodies: Iterable[bytes]) -> list[httpx2.Response]:
        """Send batches at once: nothing but heads until each was let in, or was refused."""
        waiting, looked = [*bodies], asyncio.Event()
        left = len(waiting)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                looked.set()

        async def parts(body: bytes, passed: list[bool]) -> AsyncIterator[bytes]:
            yield body[:BATCH_HEADER_BYTES]
            passed.append(True)  # more of it is asked for
            one_less()
            await looked.wait()
            yield body[BATCH_HEADER_BYTES:]

        async def send(http: httpx2.AsyncClient, body: bytes) -> httpx2.Response:
            passed = list[bool]()
            path, headers = f"/v1/batches/{os.urandom(16).hex()}", {"Content-Type": BATCH_TYPE}
            answer = await http.put(path, content=parts(body, passed), headers=headers)
            if not passed:
                one_less()
            return answer

        async def go() -> list[httpx2.Response]:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://aggregator") as http:
                return await asyncio.gather(*(send(http, body) for body in waiting))

        return asyncio.run(go())

    def work(self) -> None:
        assert self.drain() == 0

    def drain(self) -> int:
        """Work on all that waits; how many batches are left."""
        return asyncio.run(self.service.accumulator.drain())

    def settle(self, body: bytes, batch_id: bytes | None = None) -> Any:
        """Send a batch, work on it, and return its verdict."""
        batch_id = batch_id or os.urandom(16)
        response = self.put(body, batch_id)
        assert response.status_code == 202, response.text
        self.work()
        return self.json(f"/v1/batches/{batch_id.hex()}")

    # -- what devices and the shuffler do

    def bundle(self) -> Bundle:
        return verify(self.get("/v1/bundle").content, [self.service.anchor], self.clock())

    def metric(self, name: str) -> Metric:
        return self.service.codebooks.newest.metric(name)

    @property
    def period(self) -> int:
        return self.service.codebooks.collection.calendar.index_at(self.clock())

    def header(self, name: str, count: int, period: int | None = None, **changes: Any) -> BatchHeader:
        period = self.period if period is None else period
        key = self.bundle().body.key_for(period)
        size = 68 + self.metric(name).mechanism.report_bytes
        header = BatchHeader(self.metric(name).id, period, 0 if key is None else key.id, count, size)
        return replace(header, **changes)

    def plaintexts(self, name: str, values: Iterable[Any], seed: int = 1) -> list[bytes]:
        """Randomized reports of a metric, each with its nonce, for the present period."""
        mechanism = self.metric(name).mechanism
        inputs = [self.metric(name).input_of(value) for value in values]
        many = mechanism.randomize_many([float(v) if name == "startup_ms" else int(v) for v in inputs], bulk(seed))
        return [
            Plaintext(
                self.period,
                os.urandom(16),
                mechanism.encode(int(r) if isinstance(r, int | float | np.number) else bytes(r)),
            ).encode()
            for r in many
        ]

    def seal(self, header: BatchHeader, plaintexts: Iterable[bytes], public_key: bytes | None = None) -> list[bytes]:
        if public_key is None:
            key = self.bundle().body.key_for(header.period)
            assert key is not None
            public_key = key.public_key
        sealer = Sealer(public_key)
        report = ReportHeader(header.metric, header.period, header.key)
        return [sealer.seal(report, plaintext) for plaintext in plaintexts]

    def batch(self, name: str, values: Iterable[Any], seed: int = 1) -> bytes:
        """A whole, honest batch."""
        plaintexts = self.plaintexts(name, values, seed)
        header = self.header(name, len(plaintexts))
        return header.encode() + b"".join(self.seal(header, plaintexts))

    def least(self, name: str) -> int:
        """The smallest batch that is released when all its reports are valid."""
        found = self.metric(name).min_batch
        assert found is not None
        return found


def remember(settings: Settings) -> None:
    """A storage that knows all batch sizes which were worked out before."""
    _, storage = open_state(settings)
    for question, answer in ANSWERS.items():
        storage.remember(question, answer)
    storage.close()


@lru_cache
def needed(mechanism: Mechanism[Any]) -> int:
    """The accountant's word on how many honest reports a release takes; worked out once per run."""
    return min_reports(mechanism, 0.5, 1e-6)


def bulk(seed: int) -> InsecureBulkRandomness:
    return InsecureBulkRandomness(seed)


def whole(header: BatchHeader, reports: Iterable[bytes]) -> bytes:
    return header.encode() + b"".join(reports)
