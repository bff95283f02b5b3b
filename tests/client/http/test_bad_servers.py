"""Servers that are down, slow, hanging or lying: a flush ends in time, and no report is lost or changed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.refusals import PROBLEM_TYPE, REFUSALS
from hubbub.wire import decode_upload
from hubbub_client import Client
from hubbub_client._http.transport import Answer, CannotReach, HttpTransport
from hubbub_client._sending import seal_and_send
from hubbub_client.testing import Request
from tests.client.http.bad_servers import (
    Mood,
    Server,
    Visit,
    answers,
    drips,
    hangs_up,
    hangs_up_at_once,
    healthy,
    never_answers,
    never_gets_to_the_point,
    never_reads,
    pours,
    refuses_unread,
    resets,
    resets_at_once,
    resets_in_its_answer,
    running,
    says,
)
from tests.client.world import TOML, TRUST, World, rows, signed
from tests.support.patience import PATIENCE, within
from tests.support.ports import reserved_port

T = TypeVar("T")

TIMEOUT = 0.5
IN_TIME = 8.0
"""Seconds that a call with that timeout may take where the machine lets it run; the disk may not. A server that is
waited for in vain takes thirty and more, and a request without that timeout ten."""
LONG_ENOUGH = PATIENCE
"""Seconds for what is to succeed, and returns as soon as it has."""


@pytest.fixture
def server(world: World) -> Iterator[Server]:
    """In good health, until a test changes its mood."""
    with running(healthy(world.transport)) as server:
        yield server


@pytest.fixture
def inconstant(world: World) -> Iterator[Server]:
    """One that may go away and come back."""
    with running(healthy(world.transport), port=reserved_port()) as server:
        yield server


def device(world: World, address: str, **more: Any) -> Client:
    """A client without a thread, so that nothing is sent but by the flush that is looked at."""
    options = {"trust": TRUST, "consent": True, "state_dir": world.directory, "clock": world.time}
    return Client(address, **{**options, "background": False, **more})


def problem(name: str, *headers: str) -> Mood:
    refusal = REFUSALS[name]
    document = {"type": refusal.urn, "title": refusal.title, "status": refusal.status, "detail": "x"}
    return answers(refusal.status, *headers, body=json.dumps(document).encode(), kind=PROBLEM_TYPE)


def in_time(call: Callable[[], T]) -> T:
    with within(IN_TIME):
        return call()


def hang(visit: Visit) -> None:
    visit.hang()


def close(visit: Visit) -> None:
    visit.socket.close()


HANGING: dict[str, Mood] = {
    "never reads": never_reads,
    "never answers": never_answers,
    "hangs in its status line": says(b"HTTP/1.1 20", hang),
    "hangs after its status line": says(b"HTTP/1.1 202 Accepted\r\n", hang),
    "hangs after its headers": says(b"HTTP/1.1 202 Accepted\r\ncontent-length: 3\r\n\r\n", hang),
    "hangs in its body": says(b"HTTP/1.1 202 Accepted\r\ncontent-length: 3\r\n\r\nab", hang),
    "hangs in a chunk": says(b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", hang),
    "drips its headers": drips(b"HTTP/1.1 202 Accepted\r\n" + b"x: y\r\n" * 1_000),
    "drips its body": drips(b"HTTP/1.1 202 Accepted\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1_000),
    "drips chunks": drips(b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1_000),
    "never gets to the point": never_gets_to_the_point,
    "pours": pours,
}

BREAKING: dict[str, Mood] = {
    "hangs up at once": hangs_up_at_once,
    "hangs up": hangs_up,
    "resets at once": resets_at_once,
    "resets": resets,
    "resets in its answer": resets_in_its_answer,
    "cuts its status line off": says(b"HTTP/1.1 202 Acc", close),
    "cuts its head off": says(b"HTTP/1.1 202 Accepted\r\n", close),
    "cuts a header off": says(b"HTTP/1.1 202 Accepted\r\ncontent-le", close),
    "cuts its answer off": says(b"HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nabc", close),
    "cuts a chunk off": says(b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\n9\r\nabc", close),
}

GARBAGE: dict[str, Mood] = {
    "speaks something else": says(b"SSH-2.0-OpenSSH_9.6\r\n", close),
    "speaks TLS": says(bytes.fromhex("15030300020228"), close),
    "speaks noise": says(bytes(range(256)) * 300, close),
    "has an impossible status": says(b"HTTP/1.1 2o2 Accepted\r\n\r\n", close),
    "has a status of six digits": says(b"HTTP/1.1 202202 Accepted\r\n\r\n", close),
    "has a line without end": says(b"HTTP/1.1 202 Accepted\r\nx: " + b"y" * 100_000, close),
    "has headers without end": says(b"HTTP/1.1 202 x\r\n" + b"x: y\r\n" * 500 + b"\r\n", close),
    "has an impossible chunk": says(b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    "has a negative chunk": says(b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nabc", close),
    "gives hints first": says(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "switches protocols": says(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
}

ANSWERS: dict[str, Mood] = {
    "portal 200": answers(200),
    "portal 202": answers(202),
    "portal 302": answers(302, "location: https://portal.invalid/login"),
    "portal 403": answers(403),
    "portal 511": answers(511),
    "nothing at all": answers(200, body=b"", kind="text/plain"),
    "foreign 413": answers(413, body=b"", kind="text/plain"),
    "foreign 503": answers(503),
    "foreign 500": answers(500),
    "overloaded": problem("overloaded"),
    "no bundle": problem("no-bundle"),
}


def delivered_after_all(world: World, server: Server, client: Client) -> None:
    """The server recovers: what waited arrives, exactly as it was stored, and as whoever saw it before has seen it."""
    (stored,) = [row[-1] for row in rows(world, "outbox")]
    server.mood = healthy(world.transport)
    assert client.flush(LONG_ENOUGH, now=True)
    assert world.transport.reports == [stored]
    assert {report for body in server.posted for report in decode_upload(body)} == {stored}
    assert client.stats()["outbox"] == 0
    assert client.stats()["acknowledged"] == 1
    client.close()


@pytest.mark.everyday(6)
@pytest.mark.parametrize(
    "mood", [pytest.param(mood, id=name) for name, mood in {**HANGING, **BREAKING, **GARBAGE, **ANSWERS}.items()]
)
def test_a_flush_ends_in_time_and_the_report_arrives_when_the_server_recovers(
    world: World, server: Server, mood: Mood
) -> None:
    client = device(world, server.address)
    assert client.flush(LONG_ENOUGH)
    client.record("theme", "dark")

    server.mood = mood
    assert not in_time(lambda: client.flush(TIMEOUT, now=True))

    assert client.stats()["outbox"] == 1
    assert not any(name.startswith(("dropped", "error")) for name in client.stats())
    delivered_after_all(world, server, client)


@pytest.mark.parametrize(
    "mood",
    [
        pytest.param(mood, id=name)
        for name, mood in {
            "never answers": never_answers,
            "drips": HANGING["drips its body"],
            "resets": resets,
            "pours": pours,
            "portal 200": answers(200),
            "portal 302": answers(302),
            "noise": GARBAGE["speaks noise"],
        }.items()
    ],
)
def test_a_device_without_a_bundle_waits_as_well(world: World, server: Server, mood: Mood) -> None:
    server.mood = mood
    client = device(world, server.address)
    client.record("theme", "dark")
    assert not in_time(lambda: client.flush(TIMEOUT, now=True))
    server.mood = healthy(world.transport)
    assert client.flush(LONG_ENOUGH, now=True)
    assert len(world.transport.reports) == 1
    client.close()


@pytest.mark.parametrize(
    "mood", [pytest.param(HANGING[name], id=name) for name in ("never answers", "drips its headers")]
)
def test_with_its_own_thread_a_client_neither_waits_longer_nor_loses_anything(
    world: World, server: Server, mood: Mood
) -> None:
    client = device(world, server.address, background=True)
    assert client.flush(LONG_ENOUGH)
    server.mood = mood
    in_time(lambda: client.record("theme", "dark"))
    assert not in_time(lambda: client.flush(TIMEOUT, now=True))
    in_time(lambda: client.close(TIMEOUT))
    server.mood = healthy(world.transport)
    delivered_after_all(world, server, device(world, server.address))


def test_a_full_outbox_at_a_slow_server_is_cut_short_in_time_and_continued(
    world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seal_and_send, "MOST_REPORTS", 1)
    flags = "".join(f'[metrics.flag_{n}]\ntype = "boolean"\nepsilon = 0.2\nmin_batch = 100\n' for n in range(20))
    world.transport.bundle = signed(TOML[: TOML.index("[metrics")] + flags)
    client = device(world, server.address)
    assert client.flush(LONG_ENOUGH)
    for n in range(20):
        client.record(f"flag_{n}", True)

    def slowly(request: Request) -> Answer:
        time.sleep(0.1)
        return world.transport.accept(request)

    world.transport.script.extend([slowly] * 100)
    assert not in_time(lambda: client.flush(TIMEOUT, now=True))
    # at least a second is allowed for one try; the front door may take one whose answer nobody waits for
    assert len(world.transport.reports) <= 12
    assert client.stats()["outbox"] >= 8

    world.transport.script.clear()
    assert client.flush(LONG_ENOUGH, now=True)
    client.close()
    assert len(set(world.transport.reports)) == 20


def test_what_is_over_is_over(server: Server) -> None:
    with HttpTransport(server.address, deadline=time.monotonic()) as transport, pytest.raises(CannotReach):
        transport.request("GET", "/v1/bundle", {}, b"")
    assert server.visits == 0


def test_a_server_that_is_down_and_comes_back(world: World, inconstant: Server) -> None:
    client = device(world, inconstant.address)
    assert client.flush(LONG_ENOUGH)
    client.record("theme", "dark")
    inconstant.go_away()
    assert not in_time(lambda: client.flush(TIMEOUT, now=True))
    assert client.stats()["retried:network"] >= 1
    inconstant.start()
    delivered_after_all(world, inconstant, client)


def test_a_server_that_comes_back_while_a_flush_waits_is_enough(world: World, inconstant: Server) -> None:
    client = device(world, inconstant.address)
    assert client.flush(LONG_ENOUGH)
    client.record("theme", "dark")
    inconstant.go_away()
    back = threading.Timer(0.5, inconstant.start)
    back.start()
    assert client.flush(LONG_ENOUGH, now=True)
    back.join()
    assert len(world.transport.reports) == 1
    client.close()


@pytest.mark.parametrize("name", ["rate-limited", "overloaded"])
def test_a_server_that_asks_for_a_pause_gets_it(world: World, server: Server, name: str) -> None:
    client = device(world, server.address, pace=world.time.pace)
    assert client.flush(LONG_ENOUGH)
    client.record("theme", "dark")
    server.mood = problem(name, f"retry-after: {LONG_ENOUGH + 60:.0f}")
    began = world.time.passed
    assert not in_time(lambda: client.flush(LONG_ENOUGH, now=True))  # which is no use trying, and so not waited for
    asked = len(server.heads)
    assert not in_time(lambda: client.flush(LONG_ENOUGH, now=True))
    assert len(server.heads) == asked
    world.time.sleep(61)
    delivered_after_all(world, server, client)
    assert world.time.passed - began >= LONG_ENOUGH + 60


def test_an_answer_that_came_before_the_body_was_read_is_heard(server: Server) -> None:
    """Else a service that takes less than the device sends would look like a broken network for ever."""
    server.mood = refuses_unread
    with HttpTransport(server.address, timeout=LONG_ENOUGH) as transport:
        status, _, _ = transport.request("POST", "/v1/reports", {}, bytes(4 * 2**20))
    assert status == 413


def test_an_answer_too_many_is_not_taken_for_that_to_the_next_request(server: Server) -> None:
    """Else a report would be forgotten that never arrived."""
    heard, sent = threading.Event(), threading.Event()

    def generous(visit: Visit) -> None:
        visit.request()
        visit.socket.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        assert heard.wait(LONG_ENOUGH)  # so that it does not come along with the first
        visit.socket.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        sent.set()
        visit.hang()

    server.mood = generous
    with HttpTransport(server.address, timeout=LONG_ENOUGH) as transport:
        assert transport.request("GET", "/v1/bundle", {}, b"")[0] == 200
        heard.set()
        assert sent.wait(LONG_ENOUGH)
        server.mood = answers(503)
        assert transport.request("POST", "/v1/reports", {}, b"x")[0] == 503
    assert server.posted == [b"x"]


def test_a_redirect_is_not_followed(world: World, server: Server) -> None:
    with running(healthy(world.transport)) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            server.mood = answers(status, f"location: {elsewhere.address}/v1/bundle")
            with HttpTransport(server.address) as transport:
                assert transport.request("GET", "/v1/bundle", {}, b"")[0] == status
    assert elsewhere.visits == 0


def test_no_cookie_is_kept(server: Server) -> None:
    server.mood = answers(200, "set-cookie: device=1234")
    with HttpTransport(server.address) as transport:
        for _ in range(2):
            transport.request("GET", "/v1/bundle", {}, b"")
    assert server.visits == 1
    assert not any(b"cookie" in head.lower() for head in server.heads)


def test_every_device_says_the_same_and_nothing_more(world: World, server: Server) -> None:
    client = device(world, server.address)
    client.record("theme", "dark")
    assert client.flush(LONG_ENOUGH, now=True)
    client.close()
    host = f"127.0.0.1:{server.port}"
    same = f"Host: {host}\r\nAccept-Encoding: identity\r\nUser-Agent: hubbub"
    get, post = (head.decode() for head in server.heads)
    assert get == f"GET /v1/bundle HTTP/1.1\r\n{same}"
    length = f"Content-Length: {len(server.posted[0])}"
    first, rest = post.split("\r\n", 1)
    assert first == "POST /v1/reports HTTP/1.1"
    assert set(rest.split("\r\n")) == {*same.split("\r\n"), length, "content-type: application/vnd.hubbub.reports"}
    assert server.visits == 1


def test_a_header_folded_over_lines_comes_back_as_one_that_can_be_sent(server: Server) -> None:
    server.mood = says(b'HTTP/1.1 200 OK\r\netag: "a\r\n b"\r\ncontent-length: 0\r\n\r\n')
    with HttpTransport(server.address) as transport:
        _, headers, _ = transport.request("GET", "/v1/bundle", {}, b"")
        assert transport.request("GET", "/v1/bundle", {"if-none-match": headers["etag"]}, b"")[0] == 200


def test_a_slow_reader_does_not_hold_a_large_upload(server: Server) -> None:
    """The body is larger than what the system buffers, so that sending itself has to wait."""
    server.mood = never_reads
    with (
        within(IN_TIME),
        HttpTransport(server.address, timeout=TIMEOUT) as transport,
        pytest.raises(CannotReach, match="Timeout"),
    ):
        transport.request("POST", "/v1/reports", {}, bytes(32 * 2**20))


@given(answer=st.binary(max_size=300), told=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_server_says_is_an_answer_or_none(server: Server, answer: bytes, told: bool) -> None:
    server.mood = says((b"HTTP/1.1 200 OK\r\n" if told else b"") + answer, close)
    with HttpTransport(server.address, timeout=2) as transport:
        try:
            status, headers, _ = transport.request("GET", "/v1/bundle", {}, b"")
        except CannotReach:
            return
    assert 200 <= status <= 999
    assert not any("\n" in text or "\r" in text for text in headers.values())
