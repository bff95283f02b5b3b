"""What it costs to take a report durably, beside an application that does nothing on the same server.

Requests with one report, against a bare ASGI no-op in the same run; then a thousand reports per request. Bounded, on
loopback, with the client on the same cores: read the ratios, and of these the one per CPU-second of the server.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub_cli.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTIONS = 64
REQUESTS = 6_000
UPLOADS = 200
ROUNDS = 3
PERIOD_SECONDS = 86_400


def main() -> None:
    """Print the table."""
    single, thousand = _upload(1), _upload(1_000)
    bare, ours, large = [], [], []
    with _server(_bare) as no_op, _server(_shuffler) as shuffler:
        for _ in range(ROUNDS):  # in turn, since the machine is shared
            bare.append(_run(no_op, single, REQUESTS))
            ours.append(_run(shuffler, single, REQUESTS))
            large.append(_run(shuffler, thousand, UPLOADS))
    limit, limit_cpu = map(statistics.median, zip(*bare, strict=True))
    rate, rate_cpu = map(statistics.median, zip(*ours, strict=True))
    uploads, uploads_cpu = map(statistics.median, zip(*large, strict=True))
    print(
        table(
            ["durable ingest", "per second", "of the no-op", "per CPU-second", "of the no-op"],
            [
                ["bare ASGI no-op, requests", f"{limit:,.0f}", "1.00", f"{limit_cpu:,.0f}", "1.00"],
                [
                    "one report per upload, requests",
                    f"{rate:,.0f}",
                    f"{rate / limit:.2f}",
                    f"{rate_cpu:,.0f}",
                    f"{rate_cpu / limit_cpu:.2f}",
                ],
                [
                    "1000 reports per upload, reports",
                    f"{1_000 * uploads:,.0f}",
                    "-",
                    f"{1_000 * uploads_cpu:,.0f}",
                    "-",
                ],
            ],
        )
    )


def _run(address: tuple[str, int], request: bytes, count: int) -> tuple[float, float]:
    """Requests per second, and per CPU-second of the server."""
    before = _cpu(address)
    rate = _rate(address, request, count)
    return rate, count / (_cpu(address) - before)


def _codebook() -> Any:
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


def _upload(reports: int) -> bytes:
    """A request with so many different reports."""
    from hubbub.wire import REPORTS_TYPE, ReportHeader, encode_report, encode_upload, sealed_bytes

    metric = _codebook().metric("dark_mode")
    header = ReportHeader(metric.id, metric.calendar.index_at(time.time()), 1)
    size = sealed_bytes(metric.mechanism.report_bytes)
    body = encode_upload(encode_report(header, os.urandom(size)) for _ in range(reports))
    head = (
        f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Costed:
    """An application, and beside it at /cpu how many CPU-seconds its process has used."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/cpu":
            await self._app(scope, receive, send)
            return
        text = str(time.process_time()).encode()
        headers = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def _bare(_directory: Path) -> Any:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return app


def _shuffler(directory: Path) -> Any:
    """The application with its real storage; its bundle lies in the state directory, so it asks nobody."""
    import httpx
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub.bundle import BundledCodebook, SealingKey, sign
    from hubbub.trust import anchor_of
    from hubbub_shuffler.app import create_app
    from hubbub_shuffler.bundles import Bundles
    from hubbub_shuffler.ingest import Ingest
    from hubbub_shuffler.storage.sqlite import SqliteStorage

    identity, now = Ed25519PrivateKey.generate(), int(time.time())
    bundle = sign(
        identity,
        collection="benchmark",
        codebooks=[BundledCodebook(0, _codebook().compiled())],
        keys=[SealingKey(1, bytes(32), 0, now // PERIOD_SECONDS + 10)],
        now=now,
        lifetime=PERIOD_SECONDS,
        max_age=PERIOD_SECONDS,
        last=None,
    )
    (directory / "bundle").write_bytes(bundle)
    bundles = Bundles(
        httpx.AsyncClient(),
        address="http://127.0.0.1:9",
        trust=[anchor_of(identity)],
        first_use=False,
        state_dir=directory,
        clock=time.time,
    )
    storage = SqliteStorage(directory / "reports.sqlite", clock=time.time, entropy=os.urandom)
    ingest = Ingest(
        storage,
        bundles,
        clock=time.time,
        floor=100,
        skew=60,
        max_body=2**20,
        max_pending=2**26,
        body_timeout=30,
    )
    return create_app(ingest=ingest, bundles=bundles, storage=storage)


def _serve(make: Any, directory: Path, listener: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        _Costed(make(directory)), loop="uvloop", http="httptools", lifespan="off", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run([listener])


@contextmanager
def _server(make: Any) -> Iterator[tuple[str, int]]:
    """An application on a free port, in a process of its own, ended in any case."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener, tempfile.TemporaryDirectory() as directory:
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(make, Path(directory), listener), daemon=True
        )
        process.start()
        try:
            yield listener.getsockname()
        finally:
            process.terminate()
            process.join()


def _cpu(address: tuple[str, int]) -> float:
    async def ask() -> float:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET /cpu HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return float(answer.rpartition(b"\r\n\r\n")[2])

    return asyncio.run(ask())


def _rate(address: tuple[str, int], request: bytes, count: int) -> float:
    """Answered requests per second over connections that stay open; every answer must be 202."""
    import uvloop

    async def send_all() -> float:
        connections = [await asyncio.open_connection(*address) for _ in range(min(CONNECTIONS, count))]
        left = iter(range(count))

        async def device(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in left:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                assert b" 202 " in head[:20], head
            writer.close()

        start = time.perf_counter()
        await asyncio.gather(*(device(*connection) for connection in connections))
        return count / (time.perf_counter() - start)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(send_all())


if __name__ == "__main__":
    main()
