"""Both services on a cluster whose replicas take over: what was acknowledged is there, once.

Every write waits for a replica. A primary steps down in good order, or is killed and comes back as a replica.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.wire import BatchHeader
from hubbub_aggregator.storage import Accepted, Batch
from hubbub_aggregator.storage.redis.backend import RedisStorage as AggregatorStorage
from hubbub_service_common.storage.kinds_and_errors import StorageError
from hubbub_shuffler.storage import Arrivals, AsyncStorage
from hubbub_shuffler.storage.redis.backend import RedisStorage as ShufflerStorage
from tests.aggregator.backends import ANCHOR, SECRET
from tests.service_common.redis.backends import tell
from tests.shuffler.backends import BUCKET, TERMS, TIDY_LEASE, all_of
from tests.support.clock import Clock
from tests.support.patience import PATIENCE, stalls, wait_for
from tests.support.redis_server import ReplicatedCluster, three_and_three

pytestmark = pytest.mark.full
TIMEOUT = 2.0
LONGEST = 30.0
"""Seconds that one call may take: at most two rounds of answers and a second of patience, from each of six nodes."""
METRIC = b"m" * 16
Trouble = Callable[[ReplicatedCluster, Callable[[], None]], None]


def one_key_of_each(cluster: ReplicatedCluster) -> list[bytes]:
    """A key in each of the three parts."""
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < 3:
        key = str(number).encode()
        found.setdefault(cluster.primary_of(key).port, key)
        number += 1
    return list(found.values())


def step_down(cluster: ReplicatedCluster, worked: Callable[[], None]) -> None:
    """Each of the three, one after the other."""
    for key in one_key_of_each(cluster):
        worked()
        cluster.fail_over(key)
        worked()
        cluster.settle()


def killed(cluster: ReplicatedCluster, worked: Callable[[], None]) -> None:
    """kill -9 of a primary; its replica takes over; it comes back as a replica."""
    key = one_key_of_each(cluster)[0]
    worked()
    primary, replica = cluster.primary_of(key), cluster.replica_of(key)
    primary.stop()
    wait_for(lambda: tell(replica, "ROLE")[0] == b"master")
    primary.start()
    cluster.settle()
    worked()


TROUBLES = [pytest.param(step_down, id="step down"), pytest.param(killed, id="killed")]


class Writer:
    """Writes one thing after the other; notes what was acknowledged, and whatever else came than StorageError."""

    def __init__(self, write: Callable[[int], None]) -> None:
        self._write, self._over = write, threading.Event()
        self.acknowledged: list[int] = []
        self.tried, self.failed, self.longest = 0, 0, 0.0
        self.unexpected: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with stalls() as lost:
            while not self._over.is_set():
                number, began, before = self.tried, time.monotonic(), lost()
                self.tried += 1
                try:
                    self._write(number)
                    self.acknowledged.append(number)
                except StorageError:
                    self.failed += 1
                except BaseException as error:  # noqa: BLE001  the test looks at it
                    self.unexpected.append(error)
                self.longest = max(self.longest, time.monotonic() - began - (lost() - before))

    def worked(self) -> None:
        """Wait until more is acknowledged: it recovers by itself."""
        before = len(self.acknowledged)
        wait_for(lambda: len(self.acknowledged) >= before + 20 or self.unexpected)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@contextmanager
def cluster_in(directory: Path) -> Iterator[ReplicatedCluster]:
    with three_and_three(directory) as cluster:
        yield cluster


@pytest.mark.parametrize("trouble", TROUBLES)
def test_acknowledged_reports_are_there_once_whoever_takes_over(tmp_path: Path, trouble: Trouble) -> None:
    with cluster_in(tmp_path) as cluster:
        clock, sealed = Clock(0), dict[int, bytes]()
        blocking = ShufflerStorage(
            cluster.url, entropy=os.urandom, clock=clock, replicas=1, timeout=TIMEOUT, tidy_lease=TIDY_LEASE
        )
        storage = AsyncStorage(blocking)

        async def add(number: int) -> None:
            assert await storage.add([Arrivals(BUCKET, TERMS, [sealed[number]])]) == {}

        def write(number: int) -> None:
            sealed[number] = number.to_bytes(8) + os.urandom(TERMS.size - 8)
            asyncio.run(add(number))

        with Writer(write) as writer:
            trouble(cluster, writer.worked)
        assert not writer.unexpected
        assert writer.longest < LONGEST

        async def look() -> list[bytes]:
            clock.now = TERMS.closes_at
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await storage.close((), due=clock.now)
                        found = await all_of(storage)
                        break
                    except StorageError:
                        await asyncio.sleep(0.1)
            counts = (await storage.overview()).counts["theme", "ingested"]
            await storage.aclose()
            assert counts[0] == len(found)
            return found

        found = asyncio.run(look())
        assert len(found) == len(set(found))  # each was sent once
        assert {sealed[number] for number in writer.acknowledged} <= set(found) <= set(sealed.values())


@pytest.mark.parametrize("trouble", TROUBLES)
def test_acknowledged_batches_are_there_once_whoever_takes_over(tmp_path: Path, trouble: Trouble) -> None:
    """Admitted, opened and released: each step may fail, and is taken again with the next batch's."""
    with cluster_in(tmp_path) as cluster:
        storage = AggregatorStorage(cluster.url, anchor=ANCHOR, secret=SECRET, replicas=1, timeout=TIMEOUT)

        def name(number: int) -> bytes:
            return number.to_bytes(16)

        def write(number: int) -> None:
            header = BatchHeader(METRIC, number, 3, 10, 70)
            storage.admit(Batch(name(number), header, name(number) * 2, "pending", f"file-{number}"))
            version = len(storage.accepted(METRIC, number))
            done = Accepted(9, {"cannot-open": 1}, b"tally", name(number), '{"id":1}')
            assert storage.accept(name(number), version, done) != "outdated"

        with Writer(write) as writer:
            trouble(cluster, writer.worked)
        assert not writer.unexpected
        assert writer.longest < 6 * LONGEST  # it is six calls
        wait_for(lambda: _works(storage))
        released = [release.id for release in storage.releases()]
        assert len(released) == len(set(released))
        assert {name(number) for number in writer.acknowledged} <= set(released)
        assert set(released) <= {name(number) for number in range(writer.tried)}
        for number in range(writer.tried):  # what failed half way is finished by trying again, and counts once
            if number not in writer.acknowledged:
                header = BatchHeader(METRIC, number, 3, 10, 70)
                known = storage.admit(Batch(name(number), header, name(number) * 2, "pending", f"file-{number}"))
                if known.state == "pending":
                    version = len(storage.accepted(METRIC, number))
                    done = Accepted(9, {}, b"tally", name(number), "{}")
                    assert storage.accept(name(number), version, done) == "accepted"
        assert sorted(release.id for release in storage.releases()) == [name(n) for n in range(writer.tried)]
        storage.close()


def _works(storage: AggregatorStorage) -> bool:
    try:
        storage.check()
        storage.releases()
    except StorageError:
        return False
    return True
