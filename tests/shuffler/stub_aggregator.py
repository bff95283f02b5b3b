"""An aggregator on a real port that keeps what the real one would: whole batches, once per id, nothing of a short one.

It can be slow, lose answers, cut connections in the middle of a body, and hold uploads back; a test counts afterwards
what arrived how often.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from hubbub.refusals import Refused
from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader
from tests.shuffler.world import TOKEN

CHUNK = 2**16


class RecordingAggregator:
    """`faults`: share of requests about a batch that go wrong; `rate`: bytes per second at which bodies are read."""

    def __init__(self, bundle: bytes, *, faults: float = 0.0, seed: int = 0, rate: float | None = None) -> None:
        self.bundle, self.faults, self.rate = bundle, faults, rate
        self.lock = threading.Lock()
        self.batches: dict[str, bytes] = {}
        self.lengths: list[str] = []
        self.did: Counter[str] = Counter()
        """What happened: "committed", "again", "conflict", "short", "cut", "answer lost"."""
        self.open = threading.Event()
        self.open.set()
        """While it is not set, bodies are read up to their first byte and no further."""
        self.arrived = threading.Event()
        """An upload of a batch began."""
        self._rng = random.Random(seed)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fate(self) -> str:
        with self.lock:
            if self._rng.random() >= self.faults:
                return "pass"
            return self._rng.choice(["cut", "answer lost", "answer lost"])

    def note(self, what: str) -> None:
        with self.lock:
            self.did[what] += 1

    def take(self, batch_id: str, body: bytes) -> tuple[int, Mapping[str, object]]:
        """One whole body under one id, as the real one does: the same content again changes nothing."""
        header = BatchHeader.decode(body)
        assert len(body) == BATCH_HEADER_BYTES + header.body_bytes, "a wrong length was announced"
        with self.lock:
            known = self.batches.setdefault(batch_id, body)
            what = "committed" if known is body else "again" if known == body else "conflict"
            self.did[what] += 1
        if what == "conflict":
            return 409, Refused("batch-conflict", "other content").document()
        return 202, {"state": "pending", "reason": None}

    def delivered(self) -> Counter[bytes]:
        """How often each sealed report was committed."""
        with self.lock:
            bodies = list(self.batches.values())
        found: Counter[bytes] = Counter()
        for body in bodies:
            header, rest = BatchHeader.decode(body), body[BATCH_HEADER_BYTES:]
            found.update(rest[at : at + header.size] for at in range(0, len(rest), header.size or 1))
        return found

    def discarded(self) -> Counter[tuple[bytes, int]]:
        """How often a discard was recorded, by metric and period."""
        with self.lock:
            headers = [BatchHeader.decode(body) for body in self.batches.values()]
        return Counter((header.metric, header.period) for header in headers if header.kind == "discard")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # small, so that who sends to a slow reader notices
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        super().server_bind()

    def handle_error(self, request: object, client_address: object) -> None:
        """A shuffler that was killed hung up: that is what the tests are about."""


def _handler(aggregator: RecordingAggregator) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v1/bundle":
                self._answer(200, aggregator.bundle)
            elif self.path.removeprefix("/v1/batches/") in aggregator.batches:
                self._say(200, {"state": "accepted", "reason": None})
            else:
                self._say(404, Refused("not-found", "never seen").document())

        def do_PUT(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            assert "Transfer-Encoding" not in self.headers
            length, fate = int(self.headers["Content-Length"]), aggregator.fate()
            aggregator.lengths.append(self.headers["Content-Length"])
            body = self._body(length // 2 if fate == "cut" else length)
            if len(body) < length:
                aggregator.note("cut" if fate == "cut" else "short")
                self.close_connection = True
                return
            status, document = aggregator.take(self.path.removeprefix("/v1/batches/"), body)
            if fate == "answer lost":
                aggregator.note(fate)
                self.close_connection = True
                return
            self._say(status, document)

        def _body(self, length: int) -> bytes:
            body = bytearray(self.rfile.read(min(length, 1)))
            aggregator.arrived.set()
            aggregator.open.wait()
            while len(body) < length:
                chunk = self.rfile.read(min(CHUNK, length - len(body)))
                if not chunk:
                    break
                body += chunk
                if aggregator.rate:
                    time.sleep(len(chunk) / aggregator.rate)
            return bytes(body)

        def _say(self, status: int, document: Mapping[str, object]) -> None:
            self._answer(status, json.dumps(document).encode())

        def _answer(self, status: int, raw: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            """Quiet."""

    return Handler
