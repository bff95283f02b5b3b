"""Raw bytes over sockets, and a shuffler process with short time limits to send them to."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hubbub.wire import REPORTS_TYPE, sealed_bytes
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import AggregatorServer, ShufflerProcess
from tests.shuffler.world import StubAggregator, codebook, key, signed, unique, upload
from tests.support.patience import wait_for

BOOK = codebook(min_batch=2, period="1d", grace="1d")
METRIC = BOOK.metric("dark_mode")
SIZE = sealed_bytes(METRIC.mechanism.report_bytes)
TYPE = {"Content-Type": REPORTS_TYPE}
HEAD = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {REPORTS_TYPE}\r\n"


def daily_aggregator() -> StubAggregator:
    """One whose periods last longer than any test."""
    now, period = time.time(), METRIC.calendar.index_at(time.time())
    return StubAggregator(signed(now, book=BOOK, keys=(key(1, period - 10, period + 10),)))


def body(count: int = 1) -> bytes:
    return upload(unique(count, SIZE), metric=METRIC.id, period=METRIC.calendar.index_at(time.time()))


def request(content: bytes, *headers: str) -> bytes:
    """An upload as it goes over the wire."""
    listed = "".join(f"{each}\r\n" for each in headers)
    return f"{HEAD}Content-Length: {len(content)}\r\n{listed}\r\n".encode() + content


@contextmanager
def running(directory: Path, **settings: str) -> Iterator[ShufflerProcess]:
    """A shuffler that is ready, with an admin listener."""
    with (
        AggregatorServer(daily_aggregator()) as address,
        ForkedProcess(directory / "state", address, directory / "log", admin_port="0", **settings) as shuffler,
    ):
        wait_for(lambda: get(f"{shuffler.address}/readyz")[0] == 200)
        yield shuffler


def connect(address: str, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), 60, source_address=(source, 0))


def answer_to(address: str, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send these bytes and read one answer: status, headers, body."""
    with connect(address) as connection:
        connection.sendall(raw)
        return next(answers(connection))


def get(url: str) -> tuple[int, bytes]:
    """Status and body, on a connection of its own and without the CPU that a client with TLS takes to be made."""
    head = f"GET {urlsplit(url).path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    status, _, content = answer_to(url, head.encode())
    return status, content


def post(address: str, content: bytes) -> int:
    """The status of the answer to one upload, on a connection of its own as a new device has it."""
    return answer_to(address, request(content))[0]


def answers(connection: socket.socket) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """The answers on a connection, one after the other, until it ends."""
    with connection.makefile("rb") as stream:
        while line := stream.readline():
            headers = {}
            while (header := stream.readline().strip()) != b"":
                name, _, value = header.decode().partition(": ")
                headers[name] = value
            yield int(line.split()[1]), headers, stream.read(int(headers.get("content-length", "0")))


def problem(raw: bytes) -> str:
    return str(json.loads(raw)["type"]).removeprefix("urn:hubbub:problem:")


def counted(shuffler: ShufflerProcess) -> dict[str, Any]:
    """What the operator can see."""
    status: dict[str, Any] = json.loads(get(f"{shuffler.admin}/v1/status")[1])
    return status


def refused(shuffler: ShufflerProcess, reason: str) -> int:
    return int(counted(shuffler)["refused"].get(reason, 0))


def cut(shuffler: ShufflerProcess, reason: str) -> int:
    return int(counted(shuffler)["connections_cut"].get(reason, 0))


def closed(connection: socket.socket, patience: float = 60.0) -> bool:
    """Whether the other side ends it in time."""
    connection.settimeout(patience)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True
