"""Group commits of the shuffler's storages, empty and with a million reports in the bucket: the ratio must be about 1.

The reports are stored in group commits of 50, as a busy service makes them. Empty and full storages take turns, since
the machine is shared. Run as `python -m benchmarks.shuffler_storage`.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.redis_server import redis_server
from benchmarks.table import Row, at_most, show
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Terms, open_storage

STORED = 1_000_000
COMMIT, AT_ONCE = 50, 20
COMMITS = 100
ROUNDS = 5
TERMS = Terms("benchmark", 84, 2**33, 100)
LOAD_CORE = 0
GOAL = 1.15
"""About one, up to the difference between two measurements on a shared machine."""


def rows(*, long: bool = False) -> list[Row]:
    """Microseconds of this process's CPU for one group commit, full compared with empty."""
    return asyncio.run(_compare(9 if long else ROUNDS))


async def _compare(rounds: int) -> list[Row]:
    found: list[Row] = []
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory()))
        empty: dict[str, AsyncStorage] = {"SQLite": _open(directory / "empty")}
        full: dict[str, AsyncStorage] = {"SQLite": _open(directory / "full")}
        servers = [running.enter_context(redis_server(LOAD_CORE)) for _ in range(2)]
        if servers[0] and servers[1]:
            empty["Redis"], full["Redis"] = _open(servers[0]), _open(servers[1])
        for name, one in empty.items():
            bucket, other = Bucket(os.urandom(16), 1, 1), full[name]
            await _fill(other, bucket)
            found += [await _row(name, reports, one, other, bucket, rounds) for reports in (1, COMMIT)]
            await one.aclose()
            await other.aclose()
    return found


def _open(where: str | Path) -> AsyncStorage:
    return open_storage(where, clock=time.time, entropy=os.urandom)


async def _fill(storage: AsyncStorage, bucket: Bucket) -> None:
    for _ in range(STORED // COMMIT // AT_ONCE):
        commits = [[os.urandom(TERMS.size) for _ in range(COMMIT)] for _ in range(AT_ONCE)]
        await storage.add([Arrivals(bucket, TERMS, sealed) for sealed in commits])


async def _row(name: str, reports: int, empty: AsyncStorage, full: AsyncStorage, bucket: Bucket, rounds: int) -> Row:
    """Medians over rounds. The ratio is the median of the ratios of neighbouring measurements."""
    pairs = []
    for round_ in range(rounds):
        fresh = Bucket(bucket.metric, 2 + round_, reports)
        pairs.append((*await _commits(empty, fresh, reports), *await _commits(full, bucket, reports)))
    _, cpu, _, full_cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
    dearer = statistics.median(pair[3] / pair[1] for pair in pairs)
    what = f"{name}: commit {reports} report{'s' * (reports > 1)} with {STORED:,} stored"
    return Row(what, 1e6 * full_cpu, "us of CPU", "with none", 1e6 * cpu, at_most(GOAL), dearer)


async def _commits(storage: AsyncStorage, bucket: Bucket, reports: int) -> tuple[float, float]:
    """Seconds, and CPU-seconds of this process, for one commit."""
    sealed = [os.urandom(TERMS.size) for _ in range(reports)]
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(COMMITS):
        assert await storage.add([Arrivals(bucket, TERMS, sealed)]) == {}
    return (time.perf_counter() - start) / COMMITS, (time.process_time() - cpu) / COMMITS


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
