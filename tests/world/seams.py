"""Seams of the product, filled by a world: clocks, entropy, connections, sealing and pools of the running process.

Only modules that stand for the operating system are replaced, and what would wait for a thread or a worker process.
All of it ends with the block.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import anyio.to_thread

import hubbub.accounting
import hubbub.accounting.min_batch_sizes
from hubbub.sealing import Sealer, _info
from hubbub.wire import ReportHeader
from hubbub_aggregator.intake import deduplicate, nonce_filter
from hubbub_aggregator.publication import keys
from hubbub_client._process import clock_and_entropy as of_devices
from hubbub_service_common.process import clock_and_entropy as of_services
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage import free_space
from tests.vectors.reference_device import seal
from tests.world.event_loop import PROCESS, WorldLoop
from tests.world.process import Killed, Process
from tests.world.redis_in_world import WorldRedis, replaced_ask, replaced_run

__all__ = ["InlinePool", "Sealed", "seams"]

Sealed = Callable[[ReportHeader, bytes, bytes], None]
"""Told of everything that is sealed: header, plaintext, sealed part."""
_BEGINS = ("BEGIN", "COMMIT")
_WRITES = ("INSERT", "UPDATE", "CREATE", "COMMIT")


class Connection(sqlite3.Connection):
    """A connection that dies with its process, and fails when that process's storage is to fail."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._of = PROCESS.get()
        if self._of is not None:
            if self._of.dead:
                super().close()
                raise Killed
            self._of.connections.append(self)

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        process = self._of
        if process is None:
            return super().execute(sql, *given)
        if process.dead:
            raise Killed
        if sql.startswith(_BEGINS):
            process.step()
            if process.fails_now():
                if process.fails_done and sql == "COMMIT":
                    super().execute(sql, *given)
                raise _error("disk I/O error", sqlite3.SQLITE_IOERR)
        if process.full and sql.startswith(_WRITES) and (sql != "COMMIT" or self.total_changes):
            raise _error("database or disk is full", sqlite3.SQLITE_FULL)
        return super().execute(sql, *given)

    @property
    def in_transaction(self) -> bool:
        if self._of is not None and self._of.dead:
            raise Killed
        return super().in_transaction


def _error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


class InlinePool:
    """Opens reports in the process that asks. `opened` is told of each slice before it is opened."""

    def __init__(self, opened: Callable[[Any], None]) -> None:
        self._opened = opened

    async def map(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        import asyncio

        loop, found = asyncio.get_running_loop(), []
        for part in parts:
            if hasattr(part, "header"):
                self._opened(part)
            found.append(await loop.run_in_executor(None, work, part))
        return found

    def close(self) -> None:
        pass


@lru_cache(maxsize=10_000)
def _once(function: Any, *given: Any) -> Any:
    return function(*given)


def _remembered(function: Any) -> Any:
    """The same answers, worked out once: these are pure, and take most of a history's time."""
    return lambda *given: _once(function, *given)


@contextmanager
def seams(loop: WorldLoop, seed: int, sealed: Sealed, redis: WorldRedis | None) -> Iterator[None]:
    """A world's own clocks, entropy and connections, for the length of the block."""
    worlds = random.Random(f"world {seed}")

    def acting() -> Process | None:
        return PROCESS.get()

    def entropy(size: int) -> bytes:
        process = acting()
        return worlds.randbytes(size) if process is None else process.entropy(size)

    def wall() -> float:
        process = acting()
        return loop.now if process is None else process.machine.wall()

    def monotonic() -> float:
        process = acting()
        return loop.now if process is None else process.machine.monotonic()

    def sleep(seconds: float) -> None:
        loop.now += seconds

    def below(bound: int) -> int:
        return int.from_bytes(entropy(16)) % bound

    def token_hex(size: int) -> str:
        return entropy(size).hex()

    def sealed_by(sealer: Any, header: ReportHeader, plaintext: bytes) -> bytes:
        made = seal(sealer._key.public_bytes_raw(), _info(header), plaintext, entropy(32))
        sealed(header, plaintext, made)
        return made

    def disk_of(_directory: Any) -> free_space.Disk:
        process = acting()
        return free_space.Disk(0 if process is not None and process.full else 2**34, 2**35)

    async def inline(function: Any, *given: Any, **_named: Any) -> Any:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, function, *given)

    time = SimpleNamespace(time=wall, monotonic=monotonic, sleep=sleep)
    connect: Any = sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*given, **{"factory": Connection, **named})
        return made

    with ExitStack() as stack:

        def put(target: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(target, name, value))

        for module in (of_devices, of_services):
            put(module, "time", time)
            put(module, "secrets", SimpleNamespace(token_hex=token_hex, randbelow=below))
        put(of_services, "os", SimpleNamespace(urandom=entropy))
        put(keys, "new_private_key", lambda: entropy(32))
        put(Sealer, "seal", sealed_by)
        put(sqlite3, "connect", connected)
        put(anyio.to_thread, "run_sync", inline)
        put(nonce_filter, "_SECRETS", [2 * n + 1 for n in range(1, 6)])
        put(deduplicate, "_SECRETS", [11, 13])
        import hubbub_service_common.storage.sqlite_disk_space as spaces
        from hubbub_aggregator.intake import spool

        put(spaces, "disk_of", disk_of)
        put(spool, "disk_of", disk_of)
        put(spaces.Reserve, "keep", lambda _self: None)
        put(hubbub.accounting, "guarantee", _remembered(hubbub.accounting.guarantee))
        put(hubbub.accounting, "min_reports", _remembered(hubbub.accounting.min_reports))
        sizes = hubbub.accounting.min_batch_sizes
        real = sizes.smallest_batch
        known: dict[Any, int] = _SIZES

        def smallest(metric: Any, collection: Any) -> int:
            question = (metric.mechanism.fingerprint, collection)
            if question not in known:
                known[question] = real(metric, collection)
            return known[question]

        put(sizes, "smallest_batch", smallest)
        if redis is not None:
            put(RedisClient, "run", replaced_run(redis))
            put(RedisClient, "ask", replaced_ask(redis))
        yield


_SIZES: dict[Any, int] = {}
