"""What it costs to prepare a batch, and what that does to uploads that are taken meanwhile.

Against the hashing alone, of reports that lie in memory; and the time of one durable commit on the same event loop,
with and without a batch being prepared beside it. Bounded; read the ratios.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from hubbub_cli.table import table
from hubbub_shuffler.body import WINDOW_BYTES, in_order
from hubbub_shuffler.permute import places
from hubbub_shuffler.ranking import rank
from hubbub_shuffler.storage import Arrivals, Bucket, Terms
from hubbub_shuffler.storage.sqlite import SqliteStorage

REPORTS, SIZE, GROUP = 200_000, 69, 2_000
COMMITS = 300
FULL, OPEN = Bucket(bytes(16), 1, 1), Bucket(bytes(16), 2, 1)
CLOSES = {FULL: 1_000, OPEN: 3_000}


def main() -> None:
    """Print both tables."""
    import uvloop

    with tempfile.TemporaryDirectory() as directory, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_measure(Path(directory)))


async def _measure(directory: Path) -> None:
    now = 0.0
    storage = SqliteStorage(directory / "reports.sqlite", clock=lambda: now, entropy=os.urandom)
    for _ in range(REPORTS // GROUP):
        await _add(storage, FULL, GROUP)
    now = 2_000.0
    await storage.close(())
    try:
        await _cost(storage)
        await _latency(storage)
    finally:
        await storage.aclose()


async def _add(storage: SqliteStorage, bucket: Bucket, count: int) -> None:
    sealed = [os.urandom(SIZE) for _ in range(count)]
    assert not await storage.add([Arrivals(bucket, Terms("metric", SIZE, CLOSES[bucket], 2), sealed)])


async def _cost(storage: SqliteStorage) -> None:
    seed, reports = os.urandom(32), os.urandom(SIZE * REPORTS)

    def read() -> AsyncIterator[bytes]:
        return storage.read(FULL)

    start = time.process_time()
    places(reports, SIZE, seed)
    limit = time.process_time() - start
    rows = [("hash each report, in memory", limit, limit)]
    start, wall = time.process_time(), time.perf_counter()
    ranking = await rank(read(), SIZE, seed)
    rows.append(("plan: one pass", time.process_time() - start, time.perf_counter() - wall))
    start, wall = time.process_time(), time.perf_counter()
    sent = sum([len(piece) async for piece in in_order(read, ranking.places, SIZE, seed, WINDOW_BYTES)])
    assert sent == REPORTS * SIZE
    rows.append(("send: one pass per window", time.process_time() - start, time.perf_counter() - wall))
    print(
        table(
            [f"{REPORTS:,} reports of {SIZE} bytes", "CPU s per million", "of the hashing", "seconds per million"],
            [
                [name, f"{cpu * 1e6 / REPORTS:.1f}", f"{cpu / limit:.1f}", f"{wall * 1e6 / REPORTS:.1f}"]
                for name, cpu, wall in rows
            ],
        )
    )


async def _latency(storage: SqliteStorage) -> None:
    alone = await _commits(storage)
    beside = asyncio.create_task(_prepare(storage))
    try:
        busy = await _commits(storage)
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
    rows = [
        [name, *(f"{1e3 * times[int(q * len(times))]:.2f}" for q in (0.5, 0.99))]
        for name, times in (("alone", alone), ("while a batch is prepared", busy))
    ]
    print(table(["one durable commit", "median, ms", "99 %, ms"], rows))


async def _prepare(storage: SqliteStorage) -> None:
    while True:
        await rank(storage.read(FULL), SIZE, os.urandom(32))


async def _commits(storage: SqliteStorage) -> list[float]:
    taken = []
    for _ in range(COMMITS):
        start = time.perf_counter()
        await _add(storage, OPEN, 1)
        taken.append(time.perf_counter() - start)
        await asyncio.sleep(0.002)
    return sorted(taken)


if __name__ == "__main__":
    main()
