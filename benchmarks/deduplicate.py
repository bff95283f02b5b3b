"""Finding the nonces of a batch that were counted before, with 0, 10 and 100 batches accepted for the same pair.

Measured from opened reports to the verdict in the storage, without opening and without tallies: sort, look up, write,
take in. Nonces are random, as devices make them. The figures are CPU time of this process and of Redis; files are still
synced. A batch with none before it and one with many take turns, since the machine is shared, and the ratio is that of
neighbours. A hundred batches are 1.6 GB of nonces, in a file and then in Redis.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.redis_server import redis_server
from benchmarks.table import Row, at_most, show
from hubbub.wire import NONCE_BYTES, BatchHeader
from hubbub_aggregator.intake.deduplicate import LIMIT, Counted, Duplicates, as_nonces, distinct
from hubbub_aggregator.storage import Accepted, Batch, Storage, open_storage

EARLIER = (0, 10, 100)
SIZE = 1_000_000
ROUNDS = 5
SLICE = 2_000
GOAL = 1.1
REDIS_CORE = 0
_IDS = count(1)


@dataclass
class Pair:
    """One metric and period, and what this process knows about it."""

    storage: Storage
    metric: bytes = field(default_factory=lambda: os.urandom(16))
    accepted: int = 0
    duplicates: Duplicates = field(init=False)

    def __post_init__(self) -> None:
        self.duplicates = Duplicates(self.storage)

    def settle(self, parts: list[bytes], repeated: int = 0) -> None:
        """Settle one batch, from its opened reports to its verdict."""
        nonces, _ = distinct(parts)
        found = self.duplicates.counted(self.metric, 7, nonces)
        assert (found.version, int(found.repeated.sum())) == (self.accepted, repeated)
        self.accept(nonces[~found.repeated].tobytes(), found)

    def accept(self, fresh: bytes, found: Counted | None = None) -> None:
        """Accept a batch with these new nonces. Without `found`, this process reads them when it needs them."""
        name, reports = next(_IDS).to_bytes(16), len(fresh) // NONCE_BYTES
        header = BatchHeader(self.metric, 7, 3, reports, 70)
        self.storage.admit(Batch(name, header, name * 2, "pending", name.hex()))
        accepted = Accepted(reports, {}, b"tally", fresh, "{}")
        last = None if found is None else found.last
        assert self.storage.accept(name, self.accepted, accepted, last) == "accepted"
        if found is not None:
            self.duplicates.add(self.metric, 7, self.accepted, name, found.fresh)
        self.accepted += 1


def rows(*, long: bool = False) -> list[Row]:
    """CPU for a batch with earlier ones compared with a batch with none, and the memory of 100 earlier ones."""
    found: list[Row] = []
    for name, opened in (("SQLite", _sqlite), ("Redis", _redis)):
        with opened() as storage:
            if storage is not None:
                found += _measure(name, storage, SIZE, 2 * ROUNDS if long else ROUNDS)
    return found


def _measure(name: str, storage: Storage, size: int, rounds: int) -> list[Row]:
    found, before = list[Row](), _resident()
    for earlier in EARLIER[1:]:
        pair = Pair(storage)
        for _ in range(earlier):
            pair.accept(_in_order(size))
        pair.duplicates.counted(pair.metric, 7, as_nonces(b""))
        pairs = [(_cpu(storage, Pair(storage), size), _cpu(storage, pair, size)) for _ in range(rounds)]
        none, some = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(late / first for first, late in pairs)
        what = f"{name}: a batch of {size:,} nonces, {earlier} such before"
        found.append(Row(what, some, "CPU-s", "none before", none, at_most(GOAL), ratio))
        if earlier == EARLIER[-1]:
            grown, filters = (_resident() - before) / 2**20, pair.duplicates.size / 2**20
            what = f"{name}: {earlier} batches of {size:,}"
            bound = LIMIT / 2**20
            found.append(Row(f"{what}: filters", filters, "MiB", "their bound", bound, at_most(1)))
            found.append(Row(f"{what}: memory of this process", grown, "MiB", "bound of filters", bound, at_most(1.5)))
            if (size_ := storage.size()) is not None:
                each = size_ / (sum(EARLIER) + 4 * rounds) / size
                found.append(Row(f"{name}: storage for an accepted report", each, "bytes", "its nonce", NONCE_BYTES))
            found.append(_restart(what, storage, pair, size, none))
    return found


def _restart(what: str, storage: Storage, pair: Pair, size: int, none: float) -> Row:
    """The first batch of another process for the pair: it reads all that was accepted, once."""
    pair.duplicates = Duplicates(storage)
    return Row(f"{what}: the first after a restart", _cpu(storage, pair, size), "CPU-s", "none before", none)


def _cpu(storage: Storage, pair: Pair, size: int) -> float:
    parts = _parts(size)
    gc.collect()
    start = time.process_time() + _of_redis(storage)
    pair.settle(parts)
    return time.process_time() + _of_redis(storage) - start


def _parts(size: int) -> list[bytes]:
    return [os.urandom(SLICE * NONCE_BYTES) for _ in range(size // SLICE)]


def _in_order(size: int) -> bytes:
    """Sorted random nonces."""
    halves = np.frombuffer(os.urandom(size * NONCE_BYTES), np.uint64).reshape(-1, 2).copy()
    halves[:, 0] = np.sort(halves[:, 0]).byteswap()
    return halves.tobytes()


def _of_redis(storage: Storage) -> float:
    """CPU-seconds of the server so far, without its child processes, which sometimes rewrite its files."""
    from hubbub_aggregator.storage.redis.backend import RedisStorage

    if not isinstance(storage, RedisStorage):
        return 0.0
    said = storage._client.info(storage._client.first, "cpu")
    return float(said["used_cpu_sys"]) + float(said["used_cpu_user"])


def _resident() -> int:
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


@contextmanager
def _sqlite() -> Iterator[Storage]:
    with tempfile.TemporaryDirectory() as directory:
        storage = open_storage(Path(directory) / "state.db", anchor="", secret=b"")
        yield storage
        storage.close()


@contextmanager
def _redis() -> Iterator[Storage | None]:
    with ExitStack() as running:
        url = running.enter_context(redis_server(REDIS_CORE))
        if url is None:
            yield None
            return
        storage = open_storage(url, anchor="benchmark", secret=b"sixteen bytes ok")
        running.callback(storage.close)
        yield storage


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
