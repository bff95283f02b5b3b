"""Storages of the shuffler that the tests run on. A backend joins them by being added to `BACKENDS`."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pytest

from hubbub_service_common.redis.calls_and_scripts import Call, Part
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.batching.permute import places
from hubbub_shuffler.storage import AsyncStorage, Bucket, Terms
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.redis.key_names import Keys
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.support.patience import PATIENCE

FORGET_AFTER = 5_000.0
TIDY_LEASE = 0.2
"""Seconds after which another process goes on with what a dead one began to rewrite."""

BUCKET = Bucket(bytes(16), 7, 1)
OTHER = Bucket(bytes(16), 7, 2)
TERMS = Terms("theme", 64, 1_000, 2)
LEASE = 60.0


class Server(Protocol):
    """A Redis that a test may use: one server or a cluster."""

    @property
    def url(self) -> str: ...

    def files(self) -> bytes: ...


@dataclass(frozen=True)
class Backend:
    """One storage: handles on it, as many processes have, and all that it has on disk."""

    open: Callable[[], AsyncStorage]
    files: Callable[[], bytes]
    where: str
    """As `open_storage` takes it."""
    version: Callable[[], int]
    """What is written in it; 0 if nothing is."""
    claim: Callable[[int], None]
    """Write another version into it; 0: none, as before there were versions. What an older one had not is gone."""


Make = Callable[[pytest.FixtureRequest, Path, Callable[[], float]], Backend]


def sqlite(_request: pytest.FixtureRequest, directory: Path, clock: Callable[[], float]) -> Backend:
    path = directory / "reports.sqlite"

    def files() -> bytes:
        return b"".join(each.read_bytes() for each in sorted(directory.iterdir()) if each.is_file())

    def ask(statement: str) -> int:
        with closing(sqlite3.connect(path)) as database:
            return int((database.execute(statement).fetchone() or (0,))[0])

    def claim(version: int) -> None:
        if version < 3:  # as it was then
            for column in ("held", "since", "until"):
                ask(f"ALTER TABLE batches DROP COLUMN {column}")
        if version < 2:
            for table in ("crowds", "held"):
                ask(f"DROP TABLE IF EXISTS {table}")
        ask(f"PRAGMA user_version = {version}")

    return Backend(
        lambda: AsyncStorage(SqliteStorage(path, clock=clock, entropy=os.urandom, forget_after=FORGET_AFTER)),
        files,
        str(path),
        lambda: ask("PRAGMA user_version"),
        claim,
    )


def on_redis(fixture: str) -> Make:
    def make(request: pytest.FixtureRequest, _directory: Path, clock: Callable[[], float]) -> Backend:
        server: Server = request.getfixturevalue(fixture)
        prefix = os.urandom(8).hex()

        def open_() -> AsyncStorage:
            return AsyncStorage(
                RedisStorage(
                    server.url,
                    clock=clock,
                    lease_clock=clock,
                    entropy=os.urandom,
                    forget_after=FORGET_AFTER,
                    tidy_lease=TIDY_LEASE,
                    prefix=prefix,
                )
            )

        def ask(*parts: Part) -> int:
            client, mark = RedisClient(server.url), Keys(prefix).mark
            answer = client.one(Call(mark, (parts[0], mark, "layout", *parts[1:])))
            client.close()
            return int(answer or 0)

        def claim(version: int) -> None:
            ask(*(("HSET", version) if version else ("HDEL",)))

        return Backend(open_, server.files, server.url, lambda: ask("HGET"), claim)

    return make


REDIS = [
    pytest.param(on_redis("redis_server"), id="redis"),
    pytest.param(on_redis("redis_cluster"), id="cluster", marks=pytest.mark.full),
]
BACKENDS = [pytest.param(sqlite, id="sqlite"), *REDIS]


async def all_of(storage: AsyncStorage, bucket: Bucket = BUCKET, size: int = TERMS.size) -> list[bytes]:
    """Every report of a closed bucket, in the order in which the storage gives them."""
    found: list[bytes] = []
    async for piece in storage.read(bucket):
        assert piece
        assert len(piece) % size == 0
        found += [piece[at : at + size] for at in range(0, len(piece), size)]
    return found


def batch_order(reports: list[bytes], seed: bytes) -> list[bytes]:
    """The distinct reports in the order in which they leave."""
    return sorted(set(reports), key=lambda report: places(report, len(report), seed))


def look_random(arrivals: list[int]) -> None:
    """Fail if the places of things tell when they came: `arrivals` has the number of each, in the order of places.

    For a random order, the correlation of arrival with place, and with the neighbour's arrival, times the root of n
    is standard normal. Each is beyond 5.3 by chance once in 8.6 million.
    """
    n, mean = len(arrivals), (len(arrivals) - 1) / 2
    variance = (n * n - 1) / 12
    place = sum((at - mean) * (arrival - mean) for at, arrival in enumerate(arrivals)) / n / variance
    neighbour = sum((one - mean) * (two - mean) for one, two in pairwise(arrivals)) / n / variance
    assert abs(place) * math.sqrt(n) < 5.3
    assert abs(neighbour) * math.sqrt(n) < 5.3


async def forgotten(storage: AsyncStorage, past: float = -math.inf) -> None:
    """Ask until no trace is left, as the batcher does. `past`: a time that is past for sure."""
    async with asyncio.timeout(PATIENCE):
        while not await storage.forget(past):
            await asyncio.sleep(0.05)
