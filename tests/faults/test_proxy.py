"""The bad network of fault runs: it breaks what it says, and nothing once it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hubbub_client._http.transport import CannotReach, HttpTransport
from tests.faults.proxy import FATES, Proxy


@contextmanager
def counting_server() -> Iterator[tuple[int, list[bytes]]]:
    """A service that takes everything; its port, and the bodies that arrived whole."""
    arrived: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) == length:
                arrived.append(body)
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            """Quiet."""

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                """The proxy hung up, which is its work."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, arrived
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def post(port: int, body: bytes) -> int | None:
    try:
        with HttpTransport(f"http://127.0.0.1:{port}", timeout=10.0) as transport:
            return transport.request("POST", "/v1/reports", {"content-type": "x/y"}, body)[0]
    except CannotReach:
        return None


def test_a_good_proxy_carries_and_leaves_out_a_target_that_is_down() -> None:
    with counting_server() as (port, arrived), Proxy([1, port], seed=1, bad=False) as proxy:
        assert [post(proxy.port, b"a report") for _ in range(4)] == [202] * 4
        assert arrived == [b"a report"] * 4
        assert proxy.mistreated == 0


def test_a_bad_proxy_loses_repeats_and_forges_until_it_is_told_to_behave() -> None:
    with counting_server() as (port, arrived), Proxy([port], seed=4, bad=True, longest_delay=0.1) as proxy:
        answers = [post(proxy.port, b"%d" % number) for number in range(80)]
        times = [arrived.count(b"%d" % number) for number in range(80)]
        assert all(times[number] for number, answer in enumerate(answers) if answer == 202)
        assert {0, 1, 2, 3} <= set(times), "some never arrive, some more than once"
        assert None in answers
        assert any(times[number] for number, answer in enumerate(answers) if answer is None), "an answer was lost"
        assert {200, 302, 404, 413, 502} & set(answers), "someone else has answered"
        assert proxy.did.keys() == {*FATES, "pass"}
        proxy.behave()
        assert {post(proxy.port, b"at last") for _ in range(20)} == {202}
