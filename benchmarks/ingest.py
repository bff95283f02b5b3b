"""Cost of taking a report durably, compared with an application that does nothing on the same server.

All servers run on one core. The load comes from the other core, where Redis runs too. The figures are CPU-seconds of
the server, all threads, as counted by the kernel. Each round measures everything in turn, since the machine is shared,
and a ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.redis_server import redis_server
from benchmarks.table import Goal, Row, at_least, show

CONNECTIONS = 64
SQLITE_GOAL, REDIS_GOAL = 0.5, 0.35
"""Least parts of the no-op's reports per CPU-second."""
FULL_GOAL = 0.9
"""With a million stored it must be as fast as with none, up to the difference between two measurements."""
BATCH_GOAL = 200_000
"""Reports per CPU-second in large uploads."""
PERIOD_SECONDS = 86_400
SERVER_CORE, LOAD_CORE = 0, 1

Address = tuple[str, int]


@dataclass
class Line:
    """One figure, measured in every round."""

    name: str
    server: Server
    request: bytes
    count: int
    reports: int = 1
    goal: Goal | None = None
    per_cpu: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)

    def measure(self) -> None:
        before = self.server.cpu()
        wall, times = send_all(self.server.address, self.request, self.count)
        self.per_cpu.append(self.count * self.reports / (self.server.cpu() - before))
        self.per_second.append(self.count * self.reports / wall)
        self.slow.append(statistics.quantiles(times, n=100)[98])

    def rows(self, other: Line | None) -> list[Row]:
        """Reports per CPU-second, compared with those of another line in the same rounds, and the wall time."""
        figure, slow = statistics.median(self.per_cpu), 1_000 * statistics.median(self.slow)
        ratio = peer = None
        if other is not None:
            ratio = statistics.median(ours / limit for ours, limit in zip(self.per_cpu, other.per_cpu, strict=True))
            peer = statistics.median(other.per_cpu)
        name = other.name if other is not None else ""
        return [
            Row(f"ingest: {self.name}", figure, "per CPU-second", name, peer, self.goal, ratio),
            Row(f"ingest: {self.name}, p99 with {CONNECTIONS} connections", slow, "ms"),
        ]


def rows(*, long: bool = False) -> list[Row]:
    """Servers on core 0, load and Redis on core 1; each round measures everything in turn."""
    requests, uploads, rounds, stored = (5_000, 150, 7, 1_000_000) if long else (4_000, 100, 7, 1_000_000)
    pin(os.getpid(), LOAD_CORE)
    single, thousand = upload(1), upload(1_000)
    behind_proxy = upload(1, "X-Forwarded-For: 203.0.113.7, 2001:db8::1\r\n")
    batch_goal = at_least(BATCH_GOAL, "figure")
    with ExitStack() as running:
        bare = running.enter_context(server(_bare))
        sqlite = running.enter_context(server(_shuffler))
        full = running.enter_context(server(_shuffler, stored=stored))
        limit = Line("bare ASGI no-op", bare, single, requests)
        proxied = Line("bare ASGI no-op, behind a proxy", bare, behind_proxy, requests)
        empty = Line("SQLite, one report", sqlite, single, requests, goal=at_least(SQLITE_GOAL))
        limited = Line("SQLite, one report, behind a proxy, with limits", sqlite, behind_proxy, requests)
        filled = Line(f"SQLite, one report, with {stored:,} stored", full, single, requests, goal=at_least(FULL_GOAL))
        many = Line("SQLite, 1,000 reports in an upload", sqlite, thousand, uploads, 1_000, batch_goal)
        beside: list[tuple[Line, Line | None]] = [(limit, None), (empty, limit), (proxied, limit), (limited, proxied)]
        beside += [(filled, empty), (many, empty)]
        address = running.enter_context(redis_server(LOAD_CORE))
        if address is not None:
            redis = running.enter_context(server(_shuffler, storage=address))
            one = Line("Redis (AOF always), one report", redis, single, requests, goal=at_least(REDIS_GOAL))
            lots = Line("Redis, 1,000 reports in an upload", redis, thousand, uploads, 1_000, batch_goal)
            beside += [(one, limit), (lots, one)]
        for line, _ in beside:
            send_all(line.server.address, line.request, max(20, line.count // 10))
        for _ in range(rounds):
            for line, _ in beside:
                line.measure()
    return [row for line, other in beside for row in line.rows(other)]


def main() -> None:
    print(show(rows(long=True)))


def pin(process: int, core: int) -> None:
    """Keep a process on one core, if the system can do that and has more than one."""
    if sys.platform == "linux" and (os.cpu_count() or 1) > core:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {core})


def codebook() -> Any:
    from hubbub.codebook import Codebook

    text = """
    [collection]
    name = "benchmark"
    period = "1d"
    device_epsilon = 1
    release = { epsilon = 0.5, delta = 1e-8 }
    [metrics.dark_mode]
    type = "boolean"
    epsilon = 1
    """
    return Codebook.from_toml(text).with_min_batch(lambda _metric: 100)


def upload(reports: int, extra: str = "") -> bytes:
    """A request with this many distinct reports."""
    from hubbub.wire import REPORTS_TYPE, ReportHeader, encode_report, encode_upload, sealed_bytes

    metric = codebook().metric("dark_mode")
    header = ReportHeader(metric.id, metric.calendar.index_at(time.time()), 1)
    size = sealed_bytes(metric.mechanism.report_bytes)
    body = encode_upload(encode_report(header, os.urandom(size)) for _ in range(reports))
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + extra.encode() + b"\r\n" + body


def _bare(_directory: Path) -> tuple[Any, Any]:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return app, "httptools"


def _shuffler(directory: Path, storage: str | None = None) -> tuple[Any, Any]:
    """The application as the service runs it. Its bundle is in the state directory, so it asks no aggregator."""
    import httpx2
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub.bundle import BundledCodebook, SealingKey, sign
    from hubbub.trust_anchor import anchor_of
    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from hubbub_service_common.http.connection_limits import ConnectionLimits
    from hubbub_shuffler.app import create_app
    from hubbub_shuffler.bundle.relay import Bundles
    from hubbub_shuffler.forwarding.aggregator_client import Upstream
    from hubbub_shuffler.ingest.rate_limit import KEY_BYTES, Limits
    from hubbub_shuffler.ingest.upload import Ingest
    from hubbub_shuffler.storage import open_storage

    identity, now = Ed25519PrivateKey.generate(), int(time.time())
    bundle = sign(
        identity,
        collection="benchmark",
        codebooks=[BundledCodebook(0, codebook().compiled())],
        keys=[SealingKey(1, bytes(32), 0, now // PERIOD_SECONDS + 10)],
        now=now,
        lifetime=PERIOD_SECONDS,
        max_age=PERIOD_SECONDS,
        last=None,
    )
    (directory / "bundle").write_bytes(bundle)
    kept = open_storage(storage or directory / "reports.sqlite", clock=time.time, entropy=os.urandom)
    clock = TrustedClock()
    bundles = Bundles(
        Upstream(httpx2.AsyncClient(), address="http://127.0.0.1:9", token=None, clock=clock),
        kept,
        trust=[anchor_of(identity)],
        first_use=False,
        state_dir=directory,
        clock=clock,
        skew=60,
    )
    limits = Limits(rate=1e6, burst=1e9, hops=1, key=os.urandom(KEY_BYTES), clock=time.monotonic)
    ingest = Ingest(
        kept,
        bundles,
        clock=clock,
        floor=100,
        skew=60,
        max_body=2**20,
        max_reports=10_000,
        max_pending=2**26,
        max_uploads=1_000,
        limits=limits,
    )
    guard = ConnectionLimits(
        head_timeout=10,
        body_timeout=30,
        body_rate=1_000,
        max_body=2**20,
        max_connections=2_000,
        max_per_address=None,
        clock=time.monotonic,
        log=logging.getLogger("hubbub_shuffler"),
    )
    return create_app(ingest=ingest, bundles=bundles, storage=kept, limits=limits), guard.protocol()


def fill(path: Path, reports: int) -> None:
    """Store reports in the bucket that the benchmark adds to, in group commits of 50 as a busy service makes them."""
    from hubbub.wire import sealed_bytes
    from hubbub_shuffler.storage import Arrivals, Bucket, Terms, open_storage

    metric = codebook().metric("dark_mode")
    size, index = sealed_bytes(metric.mechanism.report_bytes), metric.calendar.index_at(time.time())
    bucket = Bucket(metric.id, index, 1)
    terms = Terms(metric.name, size, (index + 2) * PERIOD_SECONDS, 100)

    async def add_all() -> None:
        storage = open_storage(path, clock=time.time, entropy=os.urandom)
        for _ in range(reports // 50):
            await storage.add([Arrivals(bucket, terms, [os.urandom(size) for _ in range(50)])])
        await storage.aclose()

    asyncio.run(add_all())


class Server:
    """A server in its own process."""

    def __init__(self, process: int, address: Address) -> None:
        self.address, self._process = address, process

    def cpu(self) -> float:
        """CPU-seconds of all its threads."""
        tasks = Path(f"/proc/{self._process}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def server(make: Callable[..., tuple[Any, Any]], stored: int = 0, **options: Any) -> Iterator[Server]:
    """Run an application on a free port, and end it in any case."""
    from hubbub_service_common.http.server import listen

    with listen("127.0.0.1", 0) as listener, tempfile.TemporaryDirectory() as directory:
        if stored:
            fill(Path(directory) / "reports.sqlite", stored)
        ready = multiprocessing.get_context("fork").Event()
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(make, Path(directory), listener, ready, options), daemon=True
        )
        process.start()
        try:
            assert ready.wait(20)
            assert process.pid is not None
            pin(process.pid, SERVER_CORE)
            yield Server(process.pid, listener.getsockname()[:2])
        finally:
            process.terminate()
            process.join()


def _serve(make: Callable[..., tuple[Any, Any]], directory: Path, listener: Any, ready: Any, options: Any) -> None:
    """Serve either application with the service's own server, event loop and garbage-collector settings."""
    import uvloop

    from hubbub_service_common.http.server import Server as Uvicorn
    from hubbub_service_common.http.server import server_config
    from hubbub_shuffler.operations.python_gc import tune

    async def serve() -> None:
        app, protocol = make(directory, **options)
        tune()
        await Uvicorn(server_config(app, http=protocol), listener, lambda _address: ready.set()).run_here()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


class _Device(asyncio.Protocol):
    """Sends the next request when the last one has been answered. Every answer must be 202."""

    def __init__(self, request: bytes, left: Iterator[int], times: list[float], done: asyncio.Future[None]) -> None:
        self._request, self._left, self._times, self._done = request, left, times, done
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def next(self) -> None:
        if next(self._left, None) is None:
            self._transport.close()
            self._done.set_result(None)
            return
        self._start = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._answer.endswith(b"\r\n\r\n"):
            return
        assert self._answer.startswith(b"HTTP/1.1 202 "), self._answer
        self._times.append(time.perf_counter() - self._start)
        self._answer = b""
        self.next()


def _itself(device: _Device) -> _Device:
    return device


def send_all(address: Address, request: bytes, count: int) -> tuple[float, list[float]]:
    """Seconds for `count` requests over connections that stay open, and the seconds that each took."""
    import uvloop

    async def run() -> tuple[float, list[float]]:
        loop = asyncio.get_running_loop()
        left, times = iter(range(count)), list[float]()
        ended = [loop.create_future() for _ in range(min(CONNECTIONS, count))]
        devices = [_Device(request, left, times, end) for end in ended]
        for device in devices:
            await loop.create_connection(partial(_itself, device), *address)
        start = time.perf_counter()
        for device in devices:
            device.next()
        await asyncio.wait_for(asyncio.gather(*ended), 120)
        return time.perf_counter() - start, times

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


if __name__ == "__main__":
    main()
