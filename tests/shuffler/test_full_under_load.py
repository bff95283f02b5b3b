"""Two minutes of load on a storage that is far too small for it: what was acknowledged arrives, without help.

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

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hubbub.wire import REPORTS_TYPE, sealed_bytes
from tests.patience import wait_for
from tests.redis_server import one_server
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.shuffler.world import codebook, key, signed, unique, upload
from tests.small_disk import small_disk

BOOK = codebook(min_batch=2, period="20s", grace="2s")
METRIC = BOOK.metric("dark_mode")
SIZE = sealed_bytes(METRIC.mechanism.report_bytes)
DEVICES = 3
SECONDS = 120
WATCHED = ("ingest_stopped", "storage_writable", "storage_up", "storage_errors_total", "forward_lag_seconds")


def bundle() -> bytes:
    now = time.time()
    period = METRIC.calendar.index_at(now)
    return signed(now, book=BOOK, keys=(key(1, period - 10, period + 10_000),))


@dataclass(frozen=True)
class Place:
    """A storage with little room: settings, and how somebody else takes what is left and gives it back."""

    state_dir: Path
    settings: dict[str, str]
    fill: Callable[[], None]
    clear: Callable[[], None]


@contextmanager
def place(kind: str, directory: Path) -> Iterator[Place]:
    if kind == "sqlite":
        with small_disk(directory / "disk", 16) as disk:
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
    acknowledged: Counter[bytes] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx2.Client(timeout=30.0, trust_env=False) as client:
            while not self.stop.is_set():
                sealed = unique(200, SIZE)
                body = upload(sealed, metric=METRIC.id, period=METRIC.calendar.index_at(time.time()))
                answer = client.post(f"{self.address}/v1/reports", content=body, headers={"Content-Type": REPORTS_TYPE})
                if answer.status_code == 202:
                    self.acknowledged.update(sealed)
                elif answer.status_code == 503:
                    assert int(answer.headers["Retry-After"]) > 0
                    self.refused[answer.json()["type"].rpartition(":")[2]] += 1
                    time.sleep(0.1)


def metrics(address: str) -> dict[str, float]:
    families = text_string_to_metric_families(httpx2.get(f"{address}/metrics", timeout=30.0).text)
    found = {sample.name: sample.value for family in families for sample in family.samples}
    return {name: found[f"hubbub_shuffler_{name}"] for name in WATCHED if f"hubbub_shuffler_{name}" in found}


def runs_full_and_drains(kind: str, directory: Path, seconds: float) -> None:
    seen: list[dict[str, float]] = []
    with place(kind, directory) as storage, RecordingAggregator(bundle()) as aggregator:
        settings = {"min_batch_floor": "4", "tick": "0.5", "lease": "5", "longest_backoff": "2", "admin_port": "0"}
        log = directory / "log"
        with ShufflerProcess(storage.state_dir, aggregator.address, log, **settings, **storage.settings) as shuffler:
            wait_for(lambda: httpx2.get(f"{shuffler.address}/readyz").status_code == 200)
            load = Load(shuffler.address)
            threads = [threading.Thread(target=load.run) for _ in range(DEVICES)]
            for thread in threads:
                thread.start()
            began, taken = time.monotonic(), False
            while (now := time.monotonic() - began) < seconds:
                seen.append(metrics(shuffler.admin))
                if not taken and now > seconds / 3:
                    storage.fill()
                    taken = True
                    arrived = sum(aggregator.delivered().values())
                if taken and now > 2 * seconds / 3:
                    storage.clear()
                time.sleep(1.0)
            if seconds > 60:  # periods closed meanwhile
                assert sum(aggregator.delivered().values()) > arrived, "nothing left while the storage was full"
            load.stop.set()
            for thread in threads:
                thread.join()
            wait_for(lambda: set(load.acknowledged) <= set(aggregator.delivered()))
            wait_for(lambda: httpx2.get(f"{shuffler.address}/readyz").status_code == 200)
            wait_for(lambda: metrics(shuffler.admin)["ingest_stopped"] == 0)
            assert shuffler.stop() == 0
    delivered = aggregator.delivered()
    lines = len(log.read_text().splitlines())
    print(  # noqa: T201  these figures are what it is run for
        f"{kind}: {seconds:.0f} s, acknowledged {len(load.acknowledged)}, arrived {len(delivered)}, refused "
        f"{dict(load.refused)}, seconds at the mark {sum(each['ingest_stopped'] for each in seen):.0f}, "
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


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_storage_that_is_too_small_loses_nothing_and_drains_without_help(tmp_path: Path, kind: str) -> None:
    runs_full_and_drains(kind, tmp_path, SECONDS)
