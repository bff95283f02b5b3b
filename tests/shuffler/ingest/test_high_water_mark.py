"""The high-water mark and group commits: where room is short, those are refused who ask for too much, and no others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub_service_common.storage.free_space import Room
from hubbub_shuffler.ingest.admission import Admitted
from hubbub_shuffler.ingest.group_commit import Commits, Outcome
from hubbub_shuffler.ingest.high_water_mark import HighWater
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Plan, StorageError, open_storage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from tests.shuffler.backends import BUCKET, OTHER, TERMS, forgotten
from tests.shuffler.world import NOW, World, unique, upload
from tests.support.clock import Clock
from tests.support.patience import PATIENCE
from tests.support.redis_server import one_server

KINDS = ["sqlite", "redis"]
KIB = 2**10


@asynccontextmanager
async def little_room(kind: str, directory: Path, room: int) -> AsyncIterator[AsyncStorage]:
    """An empty storage with about this much room for reports and what they need."""
    clock = Clock(0)
    if kind == "sqlite":
        storage = open_storage(directory / "reports.sqlite", clock=clock, entropy=os.urandom, quota=room + 160 * KIB)
        yield storage
        await storage.aclose()
        return
    with one_server(directory / "redis") as server:
        client = server.client()
        storage = AsyncStorage(RedisStorage(server.url, clock=clock, lease_clock=clock, entropy=os.urandom))
        # What a server keeps for itself comes with the first use of each command: half a megabyte in Redis 7.
        await lived_through(storage, OTHER)
        client.config_set("maxmemory", (client.info("memory")["used_memory"] + room) * 8 // 7)
        client.close()
        yield storage
        await storage.aclose()


async def lived_through(storage: AsyncStorage, bucket: Bucket) -> None:
    """All that happens to a bucket, up to its end."""
    await storage.add([Arrivals(bucket, TERMS, unique(2, TERMS.size))])
    await emptied(storage, bucket, 2)


async def emptied(storage: AsyncStorage, bucket: Bucket, reports: int) -> None:
    await storage.close((), due=TERMS.closes_at)
    assert await storage.plan(bucket, Plan((os.urandom(16),), bytes(32), reports, 0))
    claim = await storage.claim(60.0)
    assert claim
    assert await storage.settle(claim, "accepted")
    await forgotten(storage)


def place(number: int) -> Admitted:
    return Admitted(Bucket(number.to_bytes(16), 7, 1), TERMS, TERMS.size + 25, TERMS.closes_at)


PLACES = [place(number) for number in range(500)]


def sent(buckets: int, each: int = 1) -> dict[Admitted, list[bytes]]:
    """One upload with so many reports for each of so many buckets."""
    return {where: unique(each, TERMS.size) for where in PLACES[:buckets]}


async def at_once(commits: Commits, *uploads: dict[Admitted, list[bytes]]) -> list[Outcome]:
    async with asyncio.timeout(PATIENCE):
        return list(await asyncio.gather(*(commits.add(each) for each in uploads)))


class Measured:
    """A storage of which only the room is asked for: how often, and what it says."""

    def __init__(self, limit: int) -> None:
        self.used, self.limit, self.asked = 0, limit, 0

    async def room(self) -> Room:
        self.asked += 1
        return Room(self.used, self.limit, self.limit - self.used, self.limit // 4, self.limit)


def commit(reports: int) -> list[Arrivals]:
    return [Arrivals(BUCKET, TERMS, [bytes(TERMS.size)] * reports)]


async def test_four_processes_that_share_a_storage_do_not_overrun_the_mark_together() -> None:
    storage = Measured(10**9)
    gates = [HighWater(storage, clock=lambda: 0.0) for _ in range(4)]  # type: ignore[arg-type]  # all that is asked for
    taken = True
    while taken:
        taken = False
        for gate in gates:
            if await gate.admit(commit(1_000)):
                storage.used += 1_000 * TERMS.size * 2
                taken = True
    assert 0.95 * storage.limit < storage.used <= storage.limit
    assert storage.asked < 400, "for thousands of commits"
    assert all(gate.stopped for gate in gates)


async def test_once_stopped_ingest_waits_until_enough_has_left(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(0)
    storage = Measured(10**9)
    gate = HighWater(storage, clock=clock)  # type: ignore[arg-type]  # as above
    storage.used = 10**9
    for used, goes_on in ((10**9, False), (9 * 10**8, False), (8 * 10**8, False), (7 * 10**8, True)):
        clock.now += 1
        storage.used = used
        assert await gate.admit(commit(10)) is goes_on
        assert gate.is_full is not goes_on
    assert storage.asked == 4
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


@pytest.mark.parametrize("kind", KINDS)
async def test_who_asks_for_too_much_keeps_nobody_else_out_however_often(tmp_path: Path, kind: str) -> None:
    """A few kilobytes of reports over very many buckets, together with uploads of others, again and again."""
    async with little_room(kind, tmp_path, 1_500 * KIB) as storage:
        commits = Commits(storage)
        for _ in range(5):
            greedy = sent(500)
            outcomes = await at_once(commits, sent(1), greedy, sent(2), greedy, sent(1, 10), greedy, sent(1))
            assert outcomes == [{}, "too-large", {}, "too-large", {}, "too-large", {}]
            assert not commits.high_water.stopped
        waiting = {(each.name, each.reports) for each in (await storage.overview()).waiting}
        assert waiting == {("theme", 5 * 13), ("theme", 5)}


@pytest.mark.parametrize("kind", KINDS)
async def test_many_uploads_that_do_not_fit_as_one_commit_are_all_taken(tmp_path: Path, kind: str) -> None:
    async with little_room(kind, tmp_path, 1_500 * KIB) as storage:
        commits = Commits(storage)
        outcomes = await at_once(commits, *(sent(1, 20) for _ in range(200)))  # 500 KiB, of which a quarter may come
        assert outcomes == [{}] * 200
        assert [each.reports for each in (await storage.overview()).waiting] == [4_000]


@pytest.mark.parametrize("kind", KINDS)
async def test_one_upload_may_have_all_that_is_left(tmp_path: Path, kind: str) -> None:
    """It can't be stored in parts; in an empty storage it must not wait for others to leave."""
    async with little_room(kind, tmp_path, 1_000 * KIB) as storage:
        commits = Commits(storage)
        assert await at_once(commits, sent(20)) == [{}]  # counts for 640 KiB
        assert await at_once(commits, sent(1)) == [{}]
        assert not commits.high_water.stopped


@pytest.mark.parametrize("kind", KINDS)
async def test_however_small_a_storage_is_it_takes_reports_again_when_it_is_empty(tmp_path: Path, kind: str) -> None:
    """What a Redis needs for itself never leaves: ingest must not wait for that."""
    async with little_room(kind, tmp_path, 300 * KIB if kind == "redis" else 900 * KIB) as storage:
        clock = Clock(0)
        gate = HighWater(storage, clock=clock)
        taken = 0
        while True:
            clock.now += 1
            if not await gate.admit(commit(50), whole=True):
                break
            await storage.add(commit(50))
            taken += 50
        clock.now += 1
        assert not await gate.admit(commit(1), whole=True)
        assert taken
        assert gate.stopped
        await emptied(storage, BUCKET, taken)
        async with asyncio.timeout(PATIENCE):  # a Redis gives memory back by and by
            while not await gate.admit(commit(1), whole=True):
                await asyncio.sleep(0.05)
                clock.now += 1


async def test_an_upload_that_never_fits_is_to_be_sent_in_parts_and_a_single_report_waits(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "reports.sqlite", clock=Clock(NOW), entropy=os.urandom, quota=2**20)
    async with World(tmp_path, storage=storage) as world:
        sealed = unique(8_000)
        answer, other = await asyncio.gather(world.post(upload(sealed)), world.post(upload(unique(1))))
        assert other.status_code == 202
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:hubbub:problem:too-large")
        assert "send it in parts" in answer.json()["detail"]
        for half in (sealed[:2_000], sealed[2_000:4_000]):
            assert (await world.post(upload(half))).status_code == 202

    commits = Commits(Measured(50 * KIB))  # type: ignore[arg-type]  # all that is asked for
    one = Admitted(BUCKET, replace(TERMS, size=30_000), 30_025, TERMS.closes_at)
    assert await at_once(commits, {one: [bytes(30_000)]}) == ["storage-full"], "its device would drop it"
    commits = Commits(Measured(0))  # type: ignore[arg-type]  # as above
    assert await at_once(commits, sent(2)) == ["storage-full"], "parts of it would fare no better"


async def test_what_is_asked_for_moves_neither_the_mark_nor_what_others_get() -> None:
    clock = Clock(0)
    storage = Measured(64 * 2**20)
    gate = HighWater(storage, clock=clock)  # type: ignore[arg-type]  # as above
    greedy = commit(10**6)
    for _ in range(1_000):
        assert not await gate.admit(greedy)
        assert not await gate.admit(greedy, whole=True)
        assert await gate.admit(commit(1))
    assert not gate.stopped
    assert storage.asked <= 1_001, "who is refused costs nothing more"
    assert await gate.admit(commit(4 * 10**5), whole=True), "51 of 64 MB"


async def test_what_never_leaves_does_not_keep_ingest_stopped() -> None:
    """Such as records of closed buckets: less has to be left with every minute, down to a least."""
    clock = Clock(0)
    storage = Measured(2**30)
    gate = HighWater(storage, clock=clock)  # type: ignore[arg-type]  # as above
    storage.used = 2**30
    assert not await gate.admit(commit(1))
    storage.used = 2**30 - 2**26  # a quarter of what has to be left at first
    seen = []
    for minute in range(4):
        clock.now = 60.0 * minute + 1
        seen.append(await gate.admit(commit(1)))
    assert seen == [False, False, True, True]


async def test_a_part_that_fails_does_not_take_back_what_was_stored_before() -> None:
    class Fails(Measured):
        stored = 0

        async def add(self, arrivals: list[Arrivals]) -> dict[Bucket, str]:
            if sum(len(each.sealed) for each in arrivals) > 1:
                raise AssertionError("more than a share")
            if self.stored == 2:
                raise StorageError("away")
            self.stored += 1
            return {}

    commits = Commits(Fails(100 * KIB))  # type: ignore[arg-type]  # as above
    assert await at_once(commits, *(sent(1) for _ in range(4))) == [{}, {}, "overloaded", "overloaded"]
