"""Load on a storage that is far too small for it: what was acknowledged arrives, without help.

A real process, devices that send as fast as they are answered and come again when they are refused. For a part of the
time the storage is full to the last byte, by somebody else's doing. The operator sees it in the metrics that alerts ask
for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hubbub.codebook import Codebook, Metric
from hubbub.wire import REPORTS_TYPE, sealed_bytes
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.shuffler.world import codebook, key, signed, unique, upload
from tests.support import http
from tests.support.patience import PATIENCE, wait_for
from tests.support.redis_server import one_server
from tests.support.small_disk import small_disk

DEVICES = 3
WATCHED = ("ingest_stopped", "storage_writable", "storage_up", "storage_errors_total", "forward_lag_seconds")


@dataclass(frozen=True)
class Scale:
    """How much of it. In the middle third of `seconds`, or longer, the storage is full to the last byte."""

    seconds: float
    period: str
    megabytes: int
    """Of the disk."""
    pause: float
    """Seconds between two uploads of a device."""
    look: float
    """Seconds between two looks at the metrics."""
    process: type[ShufflerProcess]

    def book(self) -> Codebook:
        return codebook(min_batch=2, period=self.period, grace="2s")


LONG = Scale(120, "20s", 16, 0.0, 1.0, ShufflerProcess)
SHORT = Scale(1.5, "3s", 6, 0.05, 0.1, ForkedProcess)


def bundle(book: Codebook) -> bytes:
    now = time.time()
    period = book.metric("dark_mode").calendar.index_at(now)
    return signed(now, book=book, keys=(key(1, period - 10, period + 10_000),))


@dataclass(frozen=True)
class Place:
    """A storage with little room: settings, and how somebody else takes what is left and gives it back."""

    state_dir: Path
    settings: dict[str, str]
    fill: Callable[[], None]
    clear: Callable[[], None]


@contextmanager
def place(kind: str, directory: Path, megabytes: int) -> Iterator[Place]:
    if kind == "sqlite":
        with small_disk(directory / "disk", megabytes) as disk:
            yield Place(disk.path / "state", {}, disk.fill, disk.clear)
        return
    with one_server(directory / "redis") as server:
        client = server.client()
        room = client.info("memory")["used_memory"] + 6 * 2**20
        client.config_set("maxmemory", room)
        yield Place(
            directory / "state",
            {"storage": server.url},
            lambda: client.config_set("maxmemory", 1),
            lambda: client.config_set("maxmemory", room),
        )
        client.close()


@dataclass
class Load:
    """Devices in threads; what they were told."""

    address: str
    metric: Metric
    pause: float
    acknowledged: Counter[bytes] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.threads = [threading.Thread(target=self.run) for _ in range(DEVICES)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self) -> None:
        size = sealed_bytes(self.metric.mechanism.report_bytes)
        with http.client() as client:
            while not self.stop.is_set():
                sealed = unique(200, size)
                body = upload(sealed, metric=self.metric.id, period=self.metric.calendar.index_at(time.time()))
                answer = client.post(f"{self.address}/v1/reports", content=body, headers={"Content-Type": REPORTS_TYPE})
                if answer.status_code == 202:
                    self.acknowledged.update(sealed)
                elif answer.status_code == 503:
                    assert int(answer.headers["Retry-After"]) > 0
                    self.refused[answer.json()["type"].rpartition(":")[2]] += 1
                    time.sleep(0.1)
                self.stop.wait(self.pause)


def metrics(address: str) -> dict[str, float]:
    families = text_string_to_metric_families(http.get(f"{address}/metrics").text)
    found = {sample.name: sample.value for family in families for sample in family.samples}
    return {name: found[f"hubbub_shuffler_{name}"] for name in WATCHED if f"hubbub_shuffler_{name}" in found}


def runs_full_and_drains(kind: str, directory: Path, scale: Scale) -> None:
    seen: list[dict[str, float]] = []
    book, seconds = scale.book(), scale.seconds
    with place(kind, directory, scale.megabytes) as storage, RecordingAggregator(bundle(book)) as aggregator:
        settings = {"min_batch_floor": "4", "tick": "0.5", "lease": "5", "longest_backoff": "2", "admin_port": "0"}
        log = directory / "log"
        with scale.process(storage.state_dir, aggregator.address, log, **settings, **storage.settings) as shuffler:
            wait_for(lambda: http.get(f"{shuffler.address}/readyz").status_code == 200)
            load = Load(shuffler.address, book.metric("dark_mode"), scale.pause)

            def watched(until: Callable[[], bool]) -> None:
                """A third of the time, and what must be seen in it."""
                end = time.monotonic() + seconds / 3
                while time.monotonic() < end or not until():
                    assert time.monotonic() < end + PATIENCE, f"never seen; refused: {load.refused}, last: {seen[-1]}"
                    seen.append(metrics(shuffler.admin))
                    time.sleep(scale.look)

            with load:
                watched(lambda: len(load.acknowledged) > 0)
                storage.fill()
                arrived = sum(aggregator.delivered().values())
                watched(lambda: load.refused["storage-full"] > 0 and seen[-1]["ingest_stopped"] == 1)
                storage.clear()
                watched(lambda: True)
                if seconds > 60:  # periods closed meanwhile
                    assert sum(aggregator.delivered().values()) > arrived, "nothing left while the storage was full"
            wait_for(lambda: set(load.acknowledged) <= set(aggregator.delivered()))
            wait_for(lambda: http.get(f"{shuffler.address}/readyz").status_code == 200)
            wait_for(lambda: metrics(shuffler.admin)["ingest_stopped"] == 0)
            assert shuffler.stop() == 0
    delivered = aggregator.delivered()
    lines = len(log.read_text().splitlines())
    print(  # noqa: T201  these figures are what it is run for
        f"{kind}: {seconds:.0f} s, acknowledged {len(load.acknowledged)}, arrived {len(delivered)}, refused "
        f"{dict(load.refused)}, looks: at the mark {sum(each['ingest_stopped'] for each in seen):.0f}, "
        f"not writable {sum(1 - each['storage_writable'] for each in seen):.0f}, lines in the log {lines}"
    )
    assert set(delivered.values()) == {1}, "a report arrived twice"
    assert set(load.acknowledged) <= set(delivered)
    assert load.refused["storage-full"] > 0
    assert any(each["ingest_stopped"] for each in seen)
    if kind == "redis":  # SQLite writes on in the room that its files have, and in its reserve
        assert any(not each["storage_writable"] for each in seen)
    assert all(each["storage_up"] for each in seen)
    assert lines < 60, "a line for each attempt"


@pytest.mark.everyday("redis")
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_storage_that_runs_full_for_a_moment_loses_nothing_and_drains_without_help(tmp_path: Path, kind: str) -> None:
    runs_full_and_drains(kind, tmp_path, SHORT)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_storage_that_is_too_small_loses_nothing_and_drains_without_help(tmp_path: Path, kind: str) -> None:
    runs_full_and_drains(kind, tmp_path, LONG)
