"""Many batchers on one storage, in one process or in several: no batch is split, and none leaves twice."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Terms, open_storage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.backends import BACKENDS, Make
from tests.shuffler.batcher_process import PATIENCE, run, settle_all, upstream, worker
from tests.shuffler.forkserver import FORKS
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.support.redis_server import one_server

SIZE = 64
LARGEST = 200
LARGE = [150, 450, 900]
"""Distinct reports by period: one batch, three and five."""
BATCHES = [1, 3, 5]
SMALL = 2
"""Further periods of one report, to be discarded."""


@dataclass(frozen=True)
class Crowd:
    """What was put into a storage."""

    sealed: list[list[bytes]]

    async def report(self, storage: AsyncStorage, closes_at: int) -> None:
        for period, reports in enumerate(self.sealed):
            terms, bucket = Terms("metric", SIZE, closes_at, 2), Bucket(bytes(16), period, 1)
            for at in range(0, len(reports), 100):
                assert not await storage.add([Arrivals(bucket, terms, reports[at : at + 100])])
            assert not await storage.add([Arrivals(bucket, terms, reports[:1])])  # once more

    async def arrived(self, storage: AsyncStorage, aggregator: RecordingAggregator) -> None:
        """Each report once, in batches that hold one bucket's reports alone and are as many as were planned."""
        large, small = self.sealed[: len(LARGE)], self.sealed[len(LARGE) :]
        assert aggregator.delivered() == Counter(each for reports in large for each in reports)
        assert not aggregator.did["conflict"]
        headers = [BatchHeader.decode(body) for body in aggregator.batches.values()]
        assert Counter(header.period for header in headers) == dict(enumerate([*BATCHES, *[1] * SMALL]))
        for header, body in zip(headers, aggregator.batches.values(), strict=True):
            rest = body[BATCH_HEADER_BYTES:]
            members = {rest[at : at + SIZE] for at in range(0, len(rest), SIZE)}
            assert members <= set(self.sealed[header.period])
            assert header.kind == ("batch" if members else "discard")
        overview = await storage.overview()
        assert overview.waiting == []
        assert overview.counts["metric", "accepted"] == (sum(LARGE), sum(BATCHES))
        assert overview.counts["metric", "discarded"] == (SMALL, SMALL)
        assert overview.counts["metric", "duplicate"].reports == len(LARGE) + len(small)


def crowd() -> Crowd:
    return Crowd([[os.urandom(SIZE) for _ in range(count)] for count in [*LARGE, *[1] * SMALL]])


@pytest.mark.everyday("sqlite")
@pytest.mark.parametrize("make", BACKENDS)
async def test_four_batchers_in_one_process_split_and_double_nothing(
    make: Make, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shift, devices = 0.0, crowd()

    def now() -> float:
        return time.time() + shift

    backend = make(request, tmp_path, now)

    with RecordingAggregator(b"", faults=0.3, seed=5) as aggregator:
        storages = [backend.open() for _ in range(4)]
        await devices.report(storages[0], int(time.time()) + 600)
        shift = 600.0
        async with upstream() as client:
            batchers = [
                worker(each, aggregator.address, client, now, max_batch=LARGEST, window=50 * SIZE) for each in storages
            ]
            await asyncio.gather(*map(settle_all, storages, batchers))
        await devices.arrived(storages[0], aggregator)
        for each in storages:
            await each.aclose()
    assert aggregator.did["cut"] + aggregator.did["answer lost"] > 0


@pytest.fixture(params=["sqlite", "redis"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A storage of its own that processes can open."""
    with ExitStack() as stack:
        on_redis = request.param == "redis"
        yield stack.enter_context(one_server(tmp_path / "redis")).url if on_redis else str(tmp_path / "reports.sqlite")


def opened_at(where: str, now: float) -> AsyncStorage:
    """With a clock that stands still: its buckets close for others, however long it takes to fill them."""
    if where.startswith("redis"):
        return AsyncStorage(RedisStorage(where, clock=lambda: now, lease_clock=lambda: now, entropy=os.urandom))
    return AsyncStorage(SqliteStorage(Path(where), clock=lambda: now, entropy=os.urandom))


async def test_three_processes_split_and_double_nothing(where: str) -> None:
    devices = crowd()

    now = time.time()
    storage = opened_at(where, now)
    await devices.report(storage, int(now) + 2)
    await storage.aclose()
    options = {"max_batch": LARGEST, "lease": 2.0}
    with RecordingAggregator(b"", faults=0.3, seed=6) as aggregator:
        processes = [FORKS.Process(target=run, args=(where, aggregator.address, options)) for _ in range(3)]
        for process in processes:
            process.start()
        try:
            for process in processes:
                process.join(PATIENCE)
            assert [process.exitcode for process in processes] == [0, 0, 0]
        finally:
            for process in processes:
                process.kill()
        storage = open_storage(where, clock=time.time, entropy=os.urandom)
        await devices.arrived(storage, aggregator)
        await storage.aclose()
