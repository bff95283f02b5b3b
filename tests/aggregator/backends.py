"""Storages of the aggregator that the tests run on. A backend joins them by being added to `BACKENDS`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from hubbub_aggregator.storage import SqliteStorage, Storage
from hubbub_aggregator.storage.redis.backend import RedisStorage

ANCHOR = "ed25519:of-the-tests"
SECRET = b"sixteen bytes ok"


class Server(Protocol):
    """A Redis that a test may use: one server or a cluster."""

    @property
    def url(self) -> str: ...

    def files(self) -> bytes: ...


def counted(storage: Storage, metric: bytes, period: int) -> list[bytes]:
    """The nonces of each batch that was accepted for a pair, as far as they are kept, in order."""
    marks = storage.accepted(metric, period)
    return [nonces for mark in marks if (nonces := storage.nonces(metric, period, mark))]


@dataclass(frozen=True)
class Backend:
    """One storage: handles on it, as many processes have, and all that it has on disk."""

    open: Callable[[], Storage]
    files: Callable[[], bytes]


Make = Callable[[pytest.FixtureRequest, Path], Backend]


def sqlite(_request: pytest.FixtureRequest, directory: Path) -> Backend:
    def files() -> bytes:
        return b"".join(each.read_bytes() for each in sorted(directory.iterdir()) if each.is_file())

    return Backend(lambda: SqliteStorage(directory / "state.db"), files)


def on_redis(fixture: str) -> Make:
    def make(request: pytest.FixtureRequest, _directory: Path) -> Backend:
        server: Server = request.getfixturevalue(fixture)
        prefix = os.urandom(8).hex()
        return Backend(lambda: RedisStorage(server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix), server.files)

    return make


REDIS = [
    pytest.param(on_redis("redis_server"), id="redis"),
    pytest.param(on_redis("redis_cluster"), id="cluster", marks=pytest.mark.full),
]
BACKENDS = [pytest.param(sqlite, id="sqlite"), *REDIS]
