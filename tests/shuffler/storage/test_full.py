"""A full storage: ingest stops in time, and everything acknowledged still leaves, without help."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hubbub_shuffler.storage import Arrivals, AsyncStorage, Plan, StorageError, Terms, open_storage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.redis.key_names import Keys
from hubbub_shuffler.storage.redis.layout_version import LAYOUT
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.backends import BUCKET, LEASE, TERMS, all_of, forgotten
from tests.shuffler.operations.test_metrics import Operated
from tests.shuffler.world import CLOSES, NOW, unique, upload
from tests.support.clock import Clock
from tests.support.patience import PATIENCE
from tests.support.redis_server import RedisServer, one_server
from tests.support.small_disk import small_disk

KINDS = ["sqlite", "redis"]


@dataclass(frozen=True)
class Place:
    """A storage that a test can fill."""

    open: Callable[[Callable[[], float]], AsyncStorage]
    fill: Callable[[], None]
    """Not one byte more may be written, as far as anybody else can see to it."""


def _full(server: RedisServer) -> None:
    client = server.client()
    client.config_set("maxmemory", 1)
    client.close()


@contextmanager
def place(kind: str, directory: Path) -> Iterator[Place]:
    if kind == "sqlite":
        with small_disk(directory / "disk", 4) as disk:
            path = disk.path / "reports.sqlite"
            yield Place(lambda clock: AsyncStorage(SqliteStorage(path, clock=clock, entropy=os.urandom)), disk.fill)
        return
    with one_server(directory / "redis") as server:
        yield Place(
            lambda clock: AsyncStorage(RedisStorage(server.url, clock=clock, lease_clock=clock, entropy=os.urandom)),
            lambda: _full(server),
        )


async def add_without_end(storage: AsyncStorage, sealed: list[bytes], terms: Terms = TERMS) -> None:
    """Until it fails: SQLite may have some room inside its files. What was taken is added to `sealed`."""
    for _ in range(100):
        more = unique(500, TERMS.size)
        await storage.add([Arrivals(BUCKET, terms, more)])
        sealed += more


@pytest.mark.parametrize("kind", KINDS)
async def test_a_storage_that_is_full_to_the_last_byte_still_lets_everything_leave(tmp_path: Path, kind: str) -> None:
    """Every step behind an upload is done, by a process that was there and by one that comes new."""
    with place(kind, tmp_path) as where:
        clock = Clock(0)
        storage = where.open(clock)
        sealed = unique(3_000, TERMS.size)
        for at in range(0, len(sealed), 100):
            await storage.add([Arrivals(BUCKET, TERMS, sealed[at : at + 100])])
        where.fill()
        with pytest.raises(StorageError):
            await add_without_end(storage, sealed)
        if kind == "redis":
            with pytest.raises(StorageError):
                await storage.check()
        clock.now = TERMS.closes_at
        assert [closed.bucket for closed in await storage.close((), due=TERMS.closes_at)] == [BUCKET]
        assert sorted(await all_of(storage)) == sorted(sealed)
        assert await storage.plan(BUCKET, Plan((os.urandom(16), os.urandom(16)), bytes(32), len(sealed), 0))
        assert not await storage.halved("theme", 7, len(sealed))
        assert await storage.hold_periods(b"", b"what begun periods are held to")
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.extend(claim, LEASE)
        assert await storage.postpone(claim, 0.0, sent=True)
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.hold_back(claim, "unknown-key", since=0, until=10**9, seconds=600.0)
        assert await storage.offer() == 1
        await storage.aclose()
        storage = where.open(clock)
        for _ in range(2):
            claim = await storage.claim(LEASE)
            assert claim
            assert await storage.settle(claim, "accepted")
        await forgotten(storage)
        overview = await storage.overview()
        assert not overview.waiting
        assert overview.counts["theme", "accepted"] == (len(sealed), 2)
        await storage.aclose()


async def test_the_reserve_is_given_up_on_a_full_disk_and_made_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        path = disk.path / "reports.sqlite"
        reserve = disk.path / "reports.sqlite-reserve"
        storage = AsyncStorage(SqliteStorage(path, clock=Clock(0), entropy=os.urandom))
        assert reserve.stat().st_blocks * 512 >= 128 * 2**10, "it takes no room"
        disk.fill()
        with pytest.raises(StorageError):
            await storage.add([Arrivals(BUCKET, TERMS, unique(2_000, TERMS.size))])
        assert reserve.exists(), "an upload took it"
        await storage.close((), due=TERMS.closes_at)
        assert not reserve.exists()
        disk.clear()
        await storage.forget()
        assert reserve.exists()
        await storage.aclose()
        disk.fill()
        storage = AsyncStorage(SqliteStorage(path, clock=Clock(0), entropy=os.urandom))
        assert not reserve.exists(), "the start did not need it"
        await storage.aclose()


@contextmanager
def operated(kind: str, directory: Path) -> Iterator[Operated]:
    """A shuffler whose storage has room for a megabyte or two."""
    clock = Clock(NOW)
    if kind == "sqlite":
        storage = open_storage(directory / "reports.sqlite", clock=clock, entropy=os.urandom, quota=2**20)
        yield Operated(directory, clock=clock, storage=storage)
        return
    with one_server(directory / "redis") as server:
        client = server.client()
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 7 * 2**18)
        client.close()
        storage = AsyncStorage(RedisStorage(server.url, clock=clock, lease_clock=clock, entropy=os.urandom))
        yield Operated(directory, clock=clock, storage=storage)


@pytest.mark.everyday("sqlite")
@pytest.mark.parametrize("kind", KINDS)
async def test_ingest_stops_before_the_storage_is_full_and_goes_on_when_reports_have_left(
    tmp_path: Path, kind: str
) -> None:
    with operated(kind, tmp_path) as world:
        async with world:
            acknowledged: Counter[bytes] = Counter()
            while True:
                sealed = unique(100)
                answer = await world.post(upload(sealed))
                if answer.status_code != 202:
                    break
                acknowledged.update(sealed)
            assert len(acknowledged) > 2_000
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:storage-full")
            assert int(answer.headers["Retry-After"]) > 0
            ready = await world.client.get("/readyz")
            assert (ready.status_code, [each["name"] for each in ready.json()["reasons"]]) == (503, ["storage"])
            seen = await world.metrics()
            assert seen["ingest_stopped",] == 1
            assert seen["storage_writable",] == 1, "the mark is before the end"
            assert seen["refused_total", "storage-full"] >= 1
            assert seen["storage_limit_bytes",] > 0
            await world.storage.check()

            world.clock.now = CLOSES
            world.batcher = world.worker(max_batch=10_000)
            await world.settle_all()
            await forgotten(world.storage)
            assert Counter(world.aggregator.delivered()) == acknowledged
            world.clock.now = CLOSES - 3_600 - 1  # in the period that comes next
            async with asyncio.timeout(PATIENCE):  # a Redis gives memory back by and by
                while (await world.post(upload(unique(1), period=500_001, key_id=2))).status_code != 202:
                    await asyncio.sleep(0.1)
            assert (await world.metrics())["ingest_stopped",] == 0


async def test_a_storage_that_can_not_be_written_shows_as_such_and_as_behind(tmp_path: Path) -> None:
    """It can still be read, so nothing else would show it."""
    async with Operated(tmp_path) as world:
        await world.post(upload(unique(5)))
        before = await world.metrics()
        assert (before["storage_writable",], before["storage_up",], before["storage_errors_total",]) == (1, 1, 0)
        assert before["forward_lag_seconds",] == 0

        async def refuse(*_anything: object, **_named: object) -> Any:
            world.storage.errors += 1
            raise StorageError("database or disk is full")

        world.storage.close = world.storage.check = refuse  # type: ignore[method-assign]  # a disk that is full
        world.clock.now = CLOSES + 77
        with pytest.raises(StorageError):
            await world.batcher.tick()
        seen = await world.metrics()
        assert (seen["storage_writable",], seen["storage_up",]) == (0, 1)
        assert seen["storage_errors_total",] > 0
        assert seen["forward_lag_seconds",] == 77
        assert (await world.client.get("/readyz")).status_code == 503

        world.storage.overview = refuse  # type: ignore[method-assign]  # and then it can't even be read
        world.clock.now += 100
        seen = await world.metrics()
        assert (seen["storage_up",], seen["forward_lag_seconds",]) == (0, 177)


async def test_a_full_disk_can_still_be_measured_and_read(tmp_path: Path) -> None:
    """Its log can't be cut then. That is no reason to call the storage away: uploads are told that it is full."""
    with small_disk(tmp_path / "disk", 4) as disk:
        clock, path = Clock(NOW), disk.path / "reports.sqlite"
        storage = AsyncStorage(SqliteStorage(path, clock=clock, entropy=os.urandom))
        async with Operated(tmp_path, clock=clock, storage=storage) as world:
            assert (await world.post(upload(unique(5)))).status_code == 202
            disk.fill()
            with pytest.raises(StorageError):
                await add_without_end(storage, [], replace(TERMS, closes_at=CLOSES))
            await world.ingest.high_water.look()
            answer = await world.post(upload(unique(1)))
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:storage-full")
            seen = await world.metrics()
            assert (seen["storage_up",], seen["storage_writable",], seen["ingest_stopped",]) == (1, 0, 1)
            assert seen["waiting_buckets", "large enough", "dark_mode"] == 1


async def test_a_storage_whose_room_can_not_be_seen_is_up_while_it_can_be_read(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        await world.post(upload(unique(5)))

        async def refuse() -> Any:
            raise StorageError("INFO is not allowed")

        world.storage.room = refuse  # type: ignore[method-assign]  # as above
        world.ingest.high_water._looked = float("-inf")
        seen = await world.metrics()
        assert seen["storage_up",] == 1
        assert seen["waiting_buckets", "large enough", "dark_mode"] == 1


@pytest.mark.parametrize("before", [None, 1, 2])
async def test_a_full_redis_of_an_older_version_is_taken_over_and_drains(tmp_path: Path, before: int | None) -> None:
    """Whoever upgrades to get out of a full storage must not wait for room first."""
    with one_server(tmp_path / "redis") as server:
        clock, client, mark = Clock(0), server.client(), Keys("hubbub-shuffler").mark
        sealed = unique(100, TERMS.size)
        old = RedisStorage(server.url, clock=clock, lease_clock=clock, entropy=os.urandom)
        old.add([Arrivals(BUCKET, TERMS, sealed)])
        old.disconnect()
        client.hdel(mark, "layout")
        if before is not None:
            client.hset(mark, "layout", before)
        _full(server)
        storage = AsyncStorage(RedisStorage(server.url, clock=clock, lease_clock=clock, entropy=os.urandom))
        assert int(client.hget(mark, "layout")) == LAYOUT
        clock.now = TERMS.closes_at
        await storage.close((), due=TERMS.closes_at)
        assert await storage.plan(BUCKET, Plan((os.urandom(16),), bytes(32), len(sealed), 0))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        await forgotten(storage)
        assert not (await storage.overview()).waiting
        await storage.aclose()
        client.close()


def test_a_storage_without_a_limit_says_so(tmp_path: Path) -> None:
    with one_server(tmp_path / "redis") as server:
        storage = RedisStorage(server.url, entropy=os.urandom)
        assert storage.room() is None
        storage.disconnect()
        storage = RedisStorage(server.url, entropy=os.urandom, quota=2**30)
        room = storage.room()
        assert room is not None
        assert room.limit == 2**30
        assert 0 < room.left < 2**30 - room.used
        storage.disconnect()
