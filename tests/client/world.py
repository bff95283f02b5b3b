"""A small world for the SDK's tests: an aggregator's keys, a bundle, a clock, a shuffler in memory or over HTTP."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import SealingKey
from hubbub.codebook import Codebook
from hubbub.period import Calendar
from hubbub.refusals import PROBLEM_TYPE, REFUSALS
from hubbub.sealing import Opener, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import Plaintext, ReportHeader, decode_report, decode_upload
from hubbub_client import Client, Transport
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client._sending.outbox import Lane
from hubbub_client.testing import MemoryTransport, Pace, Request
from tests.support.clock import Clock
from tests.support.codebooks import IDENTITY, photo_app, startup_ms, theme
from tests.support.codebooks import signed as signed_bundle
from tests.support.patience import PATIENCE

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
"""Of a test about forked children: Windows has none."""

DAY = 86_400
START = 20_800 * DAY
"""Midnight (UTC) of the day on which every test begins."""
TRUST = anchor_of(IDENTITY)
ADDRESS = "https://telemetry.example.com"
PRIVATE_KEYS = {1: bytes([1] * 32), 2: bytes([2] * 32)}
EPSILON_OF_THEME = 2

TOML = photo_app(
    theme(2, other="other", mechanism="krr", min_batch=100), startup_ms(1, mechanism="laplace", min_batch=100)
)

HOURLY = TOML.replace('period = "1d"', 'period = "1h"')


def codebook(toml: str = TOML) -> Codebook:
    return Codebook.from_toml(toml)


def sealing_key(key_id: int = 1, first: int = 0, last: int = 2**31, **more: Any) -> SealingKey:
    return SealingKey(key_id, public_key_of(PRIVATE_KEYS[key_id]), first, last, **more)


def signed(
    *toml: str,
    now: int = START,
    lifetime: int = 30 * DAY,
    keys: Sequence[SealingKey] | None = None,
    identity: Ed25519PrivateKey = IDENTITY,
    max_age: int = 3600,
    off: Sequence[bytes] = (),
    first_periods: Sequence[int] = (0, 20_801),
) -> bytes:
    """A bundle of these codebooks, signed at `now`."""
    books = [codebook(text) for text in toml or (TOML,)]
    return signed_bundle(
        dict(zip(first_periods, books, strict=False)),
        [sealing_key()] if keys is None else keys,
        now=now,
        lifetime=lifetime,
        max_age=max_age,
        identity=identity,
        collection=books[0].collection.name,
        off=off,
    )


@dataclass
class Time(Clock):
    """A wall clock that a test sets, and a stopwatch that only waiting moves."""

    now: float = START + 1_000.0
    passed: float = 0.0
    waits: list[float] = field(default_factory=list)

    def go_to(self, moment: float) -> None:
        """Let all the time pass that lies between."""
        self.passed += moment - self.now
        self.now = moment

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.passed += seconds
        self.now += seconds

    @property
    def pace(self) -> Pace:
        return Pace(monotonic=lambda: self.passed, sleep=self.sleep)


@dataclass
class World:
    """One device and the front door that it talks to."""

    directory: Path
    time: Time = field(default_factory=Time)
    transport: MemoryTransport = field(default_factory=lambda: MemoryTransport(signed()))

    def client(self, **changes: Any) -> Client:
        settings: dict[str, Any] = {
            "trust": TRUST,
            "consent": True,
            "state_dir": self.directory,
            "clock": self.time,
            "transport": self.transport,
            "pace": self.time.pace,
            "background": False,
            "max_epsilon": None,
        }
        return Client(ADDRESS, **{**settings, **changes})

    def ready(self, **changes: Any) -> Client:
        """A client that has fetched its bundle. With a thread, a flush of no length would have one real second."""
        client = self.client(**changes)
        assert client.flush(0 if client._worker is None else PATIENCE)
        return client

    def settle(self, client: Client) -> Counter[str]:
        """Pin what is open, as with a fresh bundle, randomize what is due, and send nothing: half a pass."""
        cycle = client._cycle
        assert cycle.codebooks.in_force is not None
        pinned, _ = cycle.codebooks.pin(cycle.codebooks.in_force, self.time.now, fresh=True)
        counts: Counter[str] = Counter()
        for lane in Lane:
            settled = cycle.randomizer.settle(pinned, lane, self.time.now)
            counts.update({event.name: number for event, number in settled.counts.items()})
        return counts

    def opened(self) -> list[tuple[ReportHeader, Plaintext]]:
        return [opened(report) for report in self.transport.reports]

    def uploads(self) -> list[list[bytes]]:
        """The reports in each request, acknowledged or not."""
        return [decode_upload(request.body) for request in self.transport.requests if request.method == "POST"]


def rows(world: World, table: str) -> list[Any]:
    """What is on disk, as another process sees it."""
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  a table of ours
    finally:
        connection.close()


def reduced(world: World) -> list[dict[str, Any]]:
    """The true values on disk: what stands for each metric and period, and of how many it was made."""
    return [json.loads(state) for _name, _period, _reduce, state, _closes_at, _at in rows(world, "reductions")]


def opened(report: bytes) -> tuple[ReportHeader, Plaintext]:
    """What the aggregator reads in a report."""
    header, sealed = decode_report(report)
    return header, Plaintext.decode(Opener(PRIVATE_KEYS[header.key]).open(header, sealed))


def problem(name: str, **headers: str) -> Callable[[Request], Answer]:
    """An answer that refuses the whole request."""
    refusal = REFUSALS[name]
    body = json.dumps({"type": refusal.urn, "title": refusal.title, "status": refusal.status, "detail": "x"}).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda _: (refusal.status, {"content-type": PROBLEM_TYPE, **named}, body)


def failures(*listed: tuple[int, str]) -> Callable[[Request], Answer]:
    """An answer that refuses some of the reports."""
    body = json.dumps({"failures": [{"index": index, "reason": reason} for index, reason in listed]}).encode()
    return lambda _: (200, {"content-type": "application/json"}, body)


def page(status: int, text: bytes = b"<html>Please log in</html>") -> Callable[[Request], Answer]:
    """What a captive portal says."""
    return lambda _: (status, {"content-type": "text/html"}, text)


def no_network(_: Request) -> Answer:
    raise CannotReach("no route to host")


def lost_answer(transport: MemoryTransport) -> Callable[[Request], Answer]:
    """The shuffler takes the reports, and the device never hears of it."""

    def answer(request: Request) -> Answer:
        transport.accept(request)
        raise CannotReach("connection reset")

    return answer


def period_of(time: float) -> int:
    return Calendar(DAY).index_at(time)


@contextmanager
def served(transport: Transport) -> Iterator[str]:
    """The same front door over real HTTP; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # a device that was killed after the head of its request
                self.close_connection = True
                return
            headers = {name.lower(): text for name, text in self.headers.items()}
            try:
                status, answered, content = transport.request(self.command, self.path, headers, body)
            except CannotReach:
                self.close_connection = True
                return
            self.send_response(status)
            for name, text in answered.items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = handle_one  # noqa: N815  the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in http.server
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # a device that was killed
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
