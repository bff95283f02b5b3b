"""A network that repeats requests and loses answers, between devices and shuffler and between the services."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hubbub_client._http.transport import Answer, CannotReach, HttpTransport


class Unreliable:
    """A transport that now and then sends a request twice, or loses the answer to one that arrived."""

    def __init__(self, address: str, seed: int) -> None:
        self._transport, self._rng = HttpTransport(address, timeout=10.0), random.Random(seed)
        self.repeated = self.swallowed = 0

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        fate = self._rng.random() if method == "POST" else 1.0
        if fate < 0.15:
            self.repeated += 1
            self._transport.request(method, path, headers, body)
        answer = self._transport.request(method, path, headers, body)
        self._transport.close()
        if 0.15 <= fate < 0.3:
            self.swallowed += 1
            raise CannotReach("the answer was lost on the way")
        return answer


@contextmanager
def unreliable_proxy(target: int) -> Iterator[tuple[int, dict[str, int]]]:
    """A proxy on a port of its own: of three PUTs the first answer is lost, the second PUT is sent twice, the third
    passes. Yields the port and what it did."""
    fates, lock, did = ["swallow", "repeat", "pass"], threading.Lock(), {"repeated": 0, "swallowed": 0, "arrived": 0}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with lock:
                fate = fates[did["arrived"] % len(fates)]
            try:
                if fate == "repeat":
                    did["repeated"] += 1
                    self._forward(body)
                status, headers, answer = self._forward(body)
            except OSError:  # the aggregator is down: the next one has this fate
                self.close_connection = True
                return
            with lock:
                did["arrived"] += 1
            if fate == "swallow":
                did["swallowed"] += 1
                self.close_connection = True
                return
            self._answer(status, headers, answer)

        def do_GET(self) -> None:
            try:
                self._answer(*self._forward(None))
            except OSError:
                self.close_connection = True

        def _forward(self, body: bytes | None) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", target, timeout=20)
            try:
                sent = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                connection.request(self.command, self.path, body, sent)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except http.client.HTTPException as error:
                raise OSError(str(error)) from error
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, did
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
