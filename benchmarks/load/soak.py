"""Soak test: a shuffler under mixed load for some minutes, whose memory must stay flat. Run by `make soak`.

Periods last ten seconds, so that buckets open, fill, close, leave and are deleted all the time. The load has good and
bad uploads, connections that break off, and some that never send anything. Prints the memory over time, and fails if
it grows.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import click
import httpx2

from hubbub.wire import REPORTS_TYPE, BatchHeader, sealed_bytes
from tests.shuffler.process import AggregatorServer, ShufflerProcess
from tests.shuffler.world import StubAggregator, codebook, key, signed, unique, upload
from tests.support.patience import wait_for

MOST_MINUTES = 120
SECONDS = 10
BOOK = codebook(min_batch=50, period=f"{SECONDS}s", grace=f"{SECONDS}s")
METRIC = BOOK.metric("dark_mode")
SIZE = sealed_bytes(METRIC.mechanism.report_bytes)
DEVICES = 4
PAUSE = 0.02
GROWTH = 0.05
"""Largest growth of memory from the second fifth of the run to the last."""


def main() -> int:
    minutes = min(float(os.environ.get("MINUTES", "10")), MOST_MINUTES)
    with tempfile.TemporaryDirectory(prefix="hubbub-soak-") as folder:
        return soak(Path(folder), 60 * minutes)


def soak(folder: Path, seconds: float) -> int:
    now, period = time.time(), METRIC.calendar.index_at(time.time())
    stub = StubAggregator(signed(now, book=BOOK, keys=(key(1, period - 10, period + 100_000),), max_age=5))
    settings = {"min_batch_floor": "50", "tick": "0.5", "admin_port": "0", "head_timeout": "5"}
    stop, answers = threading.Event(), dict[str, int]()
    with (
        AggregatorServer(stub) as aggregator,
        ShufflerProcess(folder / "state", aggregator, folder / "log", **settings) as shuffler,
    ):
        wait_for(lambda: httpx2.get(f"{shuffler.address}/readyz").status_code == 200)
        devices = [threading.Thread(target=load, args=(shuffler.address, n, stop, answers)) for n in range(DEVICES)]
        for device in devices:
            device.start()
        try:
            samples, delivered = watch(shuffler, stub, seconds)
        finally:
            stop.set()
            for device in devices:
                device.join()
        assert shuffler.stop() == 0
    return verdict(samples, delivered, answers)


def load(address: str, seed: int, stop: threading.Event, answers: dict[str, int]) -> None:
    """Send all kinds of requests, at a bounded rate."""
    kinds = random.Random(seed)
    with httpx2.Client(base_url=address, headers={"Content-Type": REPORTS_TYPE}) as client:
        while not stop.is_set():
            draw = kinds.random()
            with suppress(httpx2.HTTPError, OSError):
                if draw < 0.05:
                    broken(address, kinds)
                    continue
                if draw < 0.10:
                    answer = client.get(kinds.choice(["/v1/status", "/v1/bundle", "/nowhere"]))
                elif draw < 0.20:
                    answer = client.post("/v1/reports", content=kinds.randbytes(kinds.randrange(300)))
                else:
                    count = kinds.choice([1, 1, 1, 5, 200])
                    body = upload(unique(count, SIZE), metric=METRIC.id, period=METRIC.calendar.index_at(time.time()))
                    answer = client.post("/v1/reports", content=body)
                name = str(answer.status_code)
                answers[name] = answers.get(name, 0) + 1
            time.sleep(PAUSE)


def broken(address: str, kinds: random.Random) -> None:
    """A connection that sends something else, or breaks off."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), 5) as connection:
        head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_TYPE}\r\nContent-Length: 500\r\n\r\n"
        connection.sendall(
            kinds.choice([b"", b"\0\xff not HTTP\r\n\r\n", head.encode()[:40], head.encode() + bytes(99)])
        )


def watch(shuffler: ShufflerProcess, stub: StubAggregator, seconds: float) -> tuple[list[tuple[float, float]], int]:
    """Memory of the shuffler in MB over time, and how many reports arrived. The stub forgets what it has counted."""
    start, delivered = time.monotonic(), 0
    samples: list[tuple[float, float]] = []
    old: list[str] = []
    while (at := time.monotonic() - start) < seconds:
        time.sleep(min(5.0, seconds / 40))
        for batch_id in old:  # the shuffler asked for their verdicts long ago
            delivered += BatchHeader.decode(stub.batches.pop(batch_id)).count
        old = list(stub.batches)
        stub.puts.clear()
        stub.requests.clear()
        httpx2.get(f"{shuffler.admin}/metrics").raise_for_status()
        samples.append((at, resident(shuffler.process.pid)))
    return samples, delivered


def resident(process: int) -> float:
    """Resident memory of a process in megabytes, including shared memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def verdict(samples: list[tuple[float, float]], delivered: int, answers: dict[str, int]) -> int:
    fifths = [samples[len(samples) * part // 5 : len(samples) * (part + 1) // 5] for part in range(5)]
    middles = [statistics.median(size for _, size in fifth) for fifth in fifths]
    for fifth, middle in zip(fifths, middles, strict=True):
        click.echo(f"{fifth[0][0]:6.0f} s to {fifth[-1][0]:6.0f} s: {middle:7.1f} MB")
    growth = middles[-1] / middles[1] - 1
    wrong = [status for status in answers if status.startswith("5")]
    click.echo(f"answers {dict(sorted(answers.items()))}; {delivered} reports delivered; growth {100 * growth:+.1f} %")
    return int(growth > GROWTH or bool(wrong) or not delivered)


if __name__ == "__main__":
    sys.exit(main())
