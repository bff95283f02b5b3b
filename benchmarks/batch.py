"""Cost of preparing a batch, and its effect on uploads at the same time.

The cost is compared with hashing reports in memory. The effect is the time of one durable commit on the same event
loop, with and without a batch being prepared. The run is bounded; read the ratios.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.table import Row, show
from hubbub_shuffler.batching.batch_stream import WINDOW_BYTES, in_order
from hubbub_shuffler.batching.permute import places
from hubbub_shuffler.batching.ranking import rank
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Terms
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage

SIZE, GROUP = 69, 2_000
COMMITS = 300
FULL, OPEN = Bucket(bytes(16), 1, 1), Bucket(bytes(16), 2, 1)
CLOSES = {FULL: 1_000, OPEN: 3_000}


def rows(*, long: bool = False) -> list[Row]:
    """CPU time of both passes compared with hashing, and of commits during a batch compared with commits alone."""
    import uvloop

    with tempfile.TemporaryDirectory() as directory, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(Path(directory), 500_000 if long else 200_000))


async def _measure(directory: Path, reports: int) -> list[Row]:
    now = 0.0
    storage = AsyncStorage(SqliteStorage(directory / "reports.sqlite", clock=lambda: now, entropy=os.urandom))
    for _ in range(reports // GROUP):
        await _add(storage, FULL, GROUP)
    now = 2_000.0
    await storage.close((), due=now)
    try:
        return [*await _cost(storage, reports), *await _latency(storage)]
    finally:
        await storage.aclose()


async def _add(storage: AsyncStorage, bucket: Bucket, count: int) -> None:
    sealed = [os.urandom(SIZE) for _ in range(count)]
    assert not await storage.add([Arrivals(bucket, Terms("metric", SIZE, CLOSES[bucket], 2), sealed)])


async def _cost(storage: AsyncStorage, count: int) -> list[Row]:
    seed, reports = os.urandom(32), os.urandom(SIZE * count)

    def read() -> AsyncIterator[bytes]:
        return storage.read(FULL)

    start = time.process_time()
    places(reports, SIZE, seed)
    limit = time.process_time() - start
    start = time.process_time()
    ranking = await rank(read(), SIZE, seed)
    plan = time.process_time() - start
    start = time.process_time()
    sent = sum([len(piece) async for piece in in_order(read, ranking.places, SIZE, seed, WINDOW_BYTES)])
    assert sent == count * SIZE
    send = time.process_time() - start
    steps = {"plan, one pass": plan, "send, one pass per window": send}
    unit, peer = "CPU-s per million", "hashing each report in memory"
    return [
        Row(f"batch of {count:,}: {name}", 1e6 * cpu / count, unit, peer, 1e6 * limit / count)
        for name, cpu in steps.items()
    ]


async def _latency(storage: AsyncStorage) -> list[Row]:
    alone = await _commits(storage)
    beside = asyncio.create_task(_prepare(storage))
    try:
        busy = await _commits(storage)
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
    return [
        Row(
            f"one durable commit beside a batch, {name}",
            1e3 * busy[int(q * len(busy))],
            "ms",
            "alone",
            1e3 * alone[int(q * len(alone))],
        )
        for name, q in (("median", 0.5), ("99 of 100", 0.99))
    ]


async def _prepare(storage: AsyncStorage) -> None:
    while True:
        await rank(storage.read(FULL), SIZE, os.urandom(32))


async def _commits(storage: AsyncStorage) -> list[float]:
    taken = []
    for _ in range(COMMITS):
        start = time.perf_counter()
        await _add(storage, OPEN, 1)
        taken.append(time.perf_counter() - start)
        await asyncio.sleep(0.002)
    return sorted(taken)


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
