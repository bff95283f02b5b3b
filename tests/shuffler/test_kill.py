"""kill -9 under load: acknowledged reports arrive exactly once or in a recorded discard, the others at most once.

Real processes on one storage, devices in several threads that repeat what they are not sure of, a network that cuts
uploads of batches and loses answers. Every report is unique, so that the aggregator can count each.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx2
import pytest

from hubbub.wire import REPORTS_TYPE, BatchHeader, sealed_bytes
from tests.shuffler.forkserver import ForkedShuffler
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.shuffler.world import codebook, key, signed, unique, upload
from tests.support import http
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port
from tests.support.redis_server import RedisServer, one_server

FLOOR = 4
BOOK = codebook(min_batch=2, period="1s", grace="2s")
COMMON, RARE = BOOK.metric("dark_mode"), BOOK.metric("theme")
SIZES = {metric.id: sealed_bytes(metric.mechanism.report_bytes) for metric in (COMMON, RARE)}
SETTINGS = {"min_batch_floor": str(FLOOR), "max_batch": "150", "tick": "0.05", "lease": "2", "longest_backoff": "1"}
DEVICES = 3
ENOUGH = 300
"""Acknowledged reports without which a test means nothing."""


def bundle() -> bytes:
    now = time.time()
    period = COMMON.calendar.index_at(now)
    return signed(now, book=BOOK, keys=(key(1, period - 10, period + 10_000),))


@dataclass
class Devices:
    """Threads that report without pause and write down what they were told."""

    addresses: list[str]
    sent: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    """Each report with its metric and period."""
    acknowledged: set[bytes] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._report, args=(random.Random(i),)) for i in range(DEVICES)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _report(self, rng: random.Random) -> None:
        with http.client(timeout=5.0) as client:
            while not self.stop.is_set():
                self._one_upload(client, rng)
                time.sleep(0.03)

    def _one_upload(self, client: httpx2.Client, rng: random.Random) -> None:
        """The same bytes up to four times, to any of the processes: after a lost answer, or though there was one."""
        metric, count = (RARE.id, 1) if rng.random() < 0.02 else (COMMON.id, 5)
        period = COMMON.calendar.index_at(time.time())
        sealed = unique(count, SIZES[metric])
        self.sent.update((each, (metric, period)) for each in sealed)
        body = upload(sealed, metric=metric, period=period)
        for _ in range(4):
            taken = self._post(client, rng, body, sealed)
            self.acknowledged.update(taken)
            if taken and rng.random() < 0.7:
                return

    def _post(self, client: httpx2.Client, rng: random.Random, body: bytes, sealed: list[bytes]) -> list[bytes]:
        """What was acknowledged by this answer."""
        address = rng.choice(self.addresses)
        try:
            answer = client.post(f"{address}/v1/reports", content=body, headers={"Content-Type": REPORTS_TYPE})
        except httpx2.TransportError:
            time.sleep(0.05)
            return []
        if answer.status_code == 202:
            return sealed
        if answer.status_code == 200:
            refused = {failure["index"] for failure in json.loads(answer.content)["failures"]}
            return [each for index, each in enumerate(sealed) if index not in refused]
        assert answer.status_code == 503, answer.text
        return []


@dataclass
class Shufflers:
    """Processes that share one storage; any of them can be killed and comes back at once, under the same address:
    devices go on reporting there, and must not meet another test's server."""

    start: Callable[[int], ForkedShuffler]
    """On this port."""
    count: int

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._ports = [reserved_port() for _ in range(self.count)]
        self.processes = [self._stack.enter_context(self.start(port)) for port in self._ports]
        self.addresses = [process.address for process in self.processes]
        return self

    def kill(self, victims: list[int]) -> None:
        for victim in victims:
            self.processes[victim].kill()
        for victim in victims:
            self.processes[victim] = self._stack.enter_context(self.start(self._ports[victim]))

    def stop(self) -> None:
        assert [process.stop() for process in self.processes] == [0] * self.count

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()


@dataclass(frozen=True)
class Place:
    """Where reports wait: settings for the shuffler, the directory on disk, and what can be killed besides."""

    settings: dict[str, str]
    directory: Path
    redis: RedisServer | None = None

    def files_with(self, reports: set[bytes]) -> list[str]:
        """The files in which one of these still is."""
        found = []
        for path in sorted(each for each in self.directory.rglob("*") if each.is_file()):
            with suppress(FileNotFoundError):  # a running process renames and removes
                held = path.read_bytes()
                if any(each in held for each in reports):
                    found.append(path.name)
        return found

    def restart_redis(self) -> None:
        """A rewrite that was killed leaves a copy that Redis never deletes: who starts it again has to."""
        assert self.redis
        self.redis.stop()
        time.sleep(0.2)  # the child that rewrites outlives the server for a moment
        for left in self.directory.glob("temp-*"):
            left.unlink()
        self.redis.start()


@contextmanager
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    if kind == "sqlite":
        yield Place({}, tmp_path / "state")
        return
    with one_server(tmp_path / "redis") as server:
        yield Place({"storage": server.url}, server.directory, server)


def survives(tmp_path: Path, kind: str, *, processes: int, kills: int, seed: int, kill_redis: bool = False) -> None:
    rng = random.Random(seed)
    with (
        place(kind, tmp_path) as storage,
        RecordingAggregator(bundle(), faults=0.15, seed=seed, rate=500_000) as aggregator,
    ):

        def start(port: int) -> ForkedShuffler:
            settings = SETTINGS | storage.settings | {"port": str(port)}
            return ForkedShuffler(tmp_path / "state", aggregator.address, tmp_path / "log", **settings)

        with Shufflers(start, processes) as shufflers:
            with Devices(shufflers.addresses) as devices:
                for _ in range(kills):
                    time.sleep(rng.uniform(0.0, 0.8))
                    if kill_redis and storage.redis and rng.random() < 0.3:
                        storage.restart_redis()
                    else:
                        shufflers.kill(rng.sample(range(processes), rng.randint(1, processes)))
                wait_for(lambda: len(devices.acknowledged) > ENOUGH)
            settle(devices, aggregator, storage)
            shufflers.stop()
    judge(devices, aggregator)


def settle(devices: Devices, aggregator: RecordingAggregator, storage: Place) -> None:
    """Until all that was acknowledged is at the aggregator or discarded, and nothing is left on disk."""

    def missing() -> set[bytes]:
        discarded, delivered = aggregator.discarded(), aggregator.delivered()
        return {each for each in devices.acknowledged if each not in delivered and devices.sent[each] not in discarded}

    wait_for(lambda: not missing(), PATIENCE)
    until, left = time.monotonic() + PATIENCE, ["not looked yet"]
    while left:
        assert time.monotonic() < until, left
        left = storage.files_with(devices.acknowledged)


def judge(devices: Devices, aggregator: RecordingAggregator) -> None:
    delivered, discarded = aggregator.delivered(), aggregator.discarded()
    assert len(devices.acknowledged) > ENOUGH
    assert set(delivered.values()) == {1}, "a report arrived twice"
    assert set(delivered) <= set(devices.sent)
    assert not aggregator.did["conflict"], "an attempt sent other bytes under the same id"
    assert set(discarded.values()) <= {1}
    in_bucket = Counter(devices.sent[each] for each in devices.acknowledged)
    for each in devices.acknowledged:
        assert (each in delivered) != (devices.sent[each] in discarded), "lost, or discarded and sent"
    assert all(in_bucket[bucket] < FLOOR for bucket in discarded), "a crowd was discarded"
    headers = [BatchHeader.decode(body) for body in aggregator.batches.values()]
    assert all(FLOOR <= header.count <= 150 for header in headers if header.kind == "batch")
    assert aggregator.did["cut"] + aggregator.did["answer lost"] > 0


@pytest.mark.everyday("redis")
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_two_processes_killed_under_load_lose_and_double_nothing(tmp_path: Path, kind: str) -> None:
    survives(tmp_path, kind, processes=2, kills=3, seed=1)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_fifty_kills_under_load_lose_and_double_nothing(tmp_path: Path, kind: str, processes: int) -> None:
    survives(tmp_path, kind, processes=processes, kills=50, seed=2)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_kills_of_redis_and_of_shufflers_lose_and_double_nothing(tmp_path: Path) -> None:
    survives(tmp_path, "redis", processes=2, kills=50, seed=3, kill_redis=True)


def test_sigterm_gives_a_batch_back_at_once(tmp_path: Path) -> None:
    """The lease is ten minutes; the next process has the batch as soon as it looks."""
    settings = SETTINGS | {"lease": "600"}
    with RecordingAggregator(bundle()) as aggregator:
        aggregator.open.clear()
        state, log = tmp_path / "state", tmp_path / "log"
        with ForkedShuffler(state, aggregator.address, log, **settings) as shuffler:
            wait_for(lambda: http.get(f"{shuffler.address}/readyz").status_code == 200)
            sealed = unique(FLOOR, SIZES[COMMON.id])
            url, headers = f"{shuffler.address}/v1/reports", {"Content-Type": REPORTS_TYPE}

            def taken() -> bool:
                body = upload(sealed, metric=COMMON.id, period=COMMON.calendar.index_at(time.time()))
                return http.post(url, content=body, headers=headers).status_code == 202

            wait_for(taken)  # on a slow machine the period is over before the upload is there
            wait_for(aggregator.arrived.is_set)
            assert shuffler.stop() == 0
        assert not aggregator.batches
        aggregator.arrived.clear()
        with ForkedShuffler(state, aggregator.address, log, **settings):
            wait_for(aggregator.arrived.is_set)  # sent by this one: what the first left behind is not read yet
            aggregator.open.set()
            wait_for(lambda: aggregator.delivered() == Counter(sealed))
    assert aggregator.did["conflict"] == 0
