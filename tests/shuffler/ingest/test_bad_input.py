"""Bad input over the wire: the right problem or reason, a count of it, never a 5xx, and no harm to anything else."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.refusals import PROBLEM_TYPE
from hubbub.wire import REPORTS_TYPE, encode_upload
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.raw_connections import (
    HEAD,
    answer_to,
    answers,
    body,
    closed,
    connect,
    cut,
    get,
    problem,
    refused,
    request,
    running,
)
from tests.shuffler.world import DISABLED, METRIC, PERIOD, SEALED, THEME, World, report
from tests.support.patience import PATIENCE

LIMIT = 4_096


@pytest.fixture(scope="module")
def shuffler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShufflerProcess]:
    with running(tmp_path_factory.mktemp("bad"), max_body=str(LIMIT), body_timeout="4") as process:
        yield process


def chunked(content: bytes, size: int = 7) -> bytes:
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_a_body_in_chunks_without_a_length_is_taken(shuffler: ShufflerProcess) -> None:
    head = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode()
    assert answer_to(shuffler.address, head + chunked(body(3)))[0] == 202


@pytest.mark.parametrize(
    ("raw", "status", "name"),
    [
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(bytes(2 * LIMIT)), 413, "too-large"),
        (f"{HEAD}Content-Length: {LIMIT + 1}\r\n\r\n".encode(), 413, "too-large"),
        (f"{HEAD}Content-Length: {10**30}\r\n\r\n".encode(), 400, "about:blank"),
        (f"{HEAD}Content-Length: {LIMIT + 1}\r\nExpect: 100-continue\r\n\r\n".encode(), 413, "too-large"),
        (f"{HEAD}Content-Length: -1\r\n\r\n".encode(), 400, "about:blank"),
        (f"{HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\n".encode(), 400, "about:blank"),
        (f"{HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), 400, "about:blank"),
        (f"{HEAD}Content-Length: 0\r\n\r\n".encode(), 400, "malformed-upload"),
        (f"{HEAD}\r\n".encode(), 400, "malformed-upload"),
        (request(body()[:-1]), 400, "malformed-upload"),
        (request(body() + b"\0"), 400, "malformed-upload"),
        (request(body()).replace(b"POST", b"PUT"), 405, "method-not-allowed"),
        (request(body()).replace(b"POST", b"BREW"), 400, "about:blank"),
        (request(body()).replace(b"vnd.hubbub", b"x"), 415, "unsupported-media-type"),
        (request(body()).replace(b"/v1/reports", b"/v1/reports/"), 404, "not-found"),
        (request(body()).replace(b"/v1/reports", b"/%00%ff/../x"), 404, "not-found"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "about:blank"),
        (b"GET /\0 HTTP/1.1\r\n\r\n", 400, "about:blank"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "about:blank"),
    ],
)
def test_each_fault_is_a_problem_under_its_own_name_and_the_next_upload_is_taken(
    shuffler: ShufflerProcess, raw: bytes, status: int, name: str
) -> None:
    kind, reason = (cut, "not-http") if name == "about:blank" else (refused, name)
    before = kind(shuffler, reason)
    got, headers, content = answer_to(shuffler.address, raw)
    assert (got, problem(content), headers["content-type"]) == (status, name, PROBLEM_TYPE)
    if name not in {"not-found"}:  # an address that does not exist is no upload
        assert kind(shuffler, reason) == before + 1
    assert answer_to(shuffler.address, request(body()))[0] == 202


def test_a_body_longer_than_it_says_is_an_upload_and_then_something_that_is_not_http(shuffler: ShufflerProcess) -> None:
    upload = body()
    with connect(shuffler.address) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(upload)}\r\n\r\n".encode() + upload + b"\0\1\2\r\n\r\n")
        assert next(answers(connection))[0] in {202, 400}
    assert answer_to(shuffler.address, request(body()))[0] == 202


def test_a_body_shorter_than_it_says_is_waited_for_and_then_given_up(shuffler: ShufflerProcess) -> None:
    upload = body()
    raw = f"{HEAD}Content-Length: {len(upload) + 10}\r\n\r\n".encode() + upload
    status, _, content = answer_to(shuffler.address, raw)
    assert (status, problem(content)) == (503, "overloaded")


@pytest.mark.parametrize("size", [60_000, 1_000_000, 4_000_000])
@pytest.mark.parametrize(("kind", "status"), [(REPORTS_TYPE, 413), ("text/plain", 415)])
def test_who_sends_far_too_much_still_sees_why_it_is_refused(
    shuffler: ShufflerProcess, size: int, kind: str, status: int
) -> None:
    """A connection that ended while he sends would look like a fault of the network, and be tried again for ever."""
    where = urlsplit(shuffler.address)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    for _ in "ab":  # the connection can go on
        connection.request("POST", "/v1/reports", bytes(size), {"Content-Type": kind})
        answer = connection.getresponse()
        assert answer.status == status
        answer.read()
    connection.request("POST", "/v1/reports", body(), {"Content-Type": REPORTS_TYPE})
    assert connection.getresponse().status == 202
    connection.close()


def test_a_body_that_was_refused_must_arrive_in_time_too(shuffler: ShufflerProcess) -> None:
    before = cut(shuffler, "body-timeout")
    with connect(shuffler.address) as connection:
        connection.sendall(f"{HEAD}Content-Length: {LIMIT + 1}\r\n\r\n".encode())
        assert next(answers(connection))[0] == 413
        assert closed(connection)
    assert cut(shuffler, "body-timeout") == before + 1


def test_who_asks_before_sending_is_told_to_go_on(shuffler: ShufflerProcess) -> None:
    upload = body()
    with connect(shuffler.address) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(upload)}\r\nExpect: 100-continue\r\n\r\n".encode())
        got = answers(connection)
        assert next(got)[0] == 100
        connection.sendall(upload)
        assert next(got)[0] == 202


def test_requests_sent_ahead_are_each_answered_good_and_bad(shuffler: ShufflerProcess) -> None:
    with connect(shuffler.address) as connection:
        connection.sendall(request(body()) + request(body()[:-1]) + request(body(5)))
        got = answers(connection)
        assert [next(got)[0] for _ in range(3)] == [202, 400, 202]


def test_an_upgrade_that_we_do_not_speak_changes_nothing(shuffler: ShufflerProcess) -> None:
    raw = request(body(), "Connection: Upgrade", "Upgrade: h2c")
    status = answer_to(shuffler.address, raw)[0]
    assert status < 500
    assert answer_to(shuffler.address, request(body()))[0] == 202


def test_an_old_client_is_answered_and_let_go(shuffler: ShufflerProcess) -> None:
    status, headers, _ = answer_to(shuffler.address, request(body()).replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (status, headers["connection"]) == (202, "close")


def test_the_service_has_nothing_to_say_about_bad_requests(shuffler: ShufflerProcess) -> None:
    """Each line of a log has a time: one about a request would be the time at which someone reported."""
    answer_to(shuffler.address, b"\0\1\2 not HTTP \r\n\r\n")
    log = Path(shuffler.log).read_text()
    assert "Invalid HTTP" not in log
    assert "Traceback" not in log


REPORTS = st.builds(
    report,
    st.binary(min_size=SEALED - 1, max_size=SEALED + 1),
    metric=st.sampled_from([METRIC, THEME, DISABLED, bytes(16)]),
    period=st.one_of(st.integers(PERIOD - 3, PERIOD + 3), st.integers(0, 2**32 - 1)),
    key_id=st.integers(0, 255),
)
BODIES = st.one_of(
    st.binary(max_size=300),
    st.lists(st.binary(min_size=1, max_size=120), max_size=5).map(encode_upload),
    st.lists(REPORTS, max_size=5).map(encode_upload),
)


async def judged(world: World, bodies: list[bytes]) -> Counter[int]:
    """Each body gets an answer that says what became of it, and each refusal is counted."""
    statuses: Counter[int] = Counter()
    for content in bodies:
        before = world.ingest.refused.total()
        answer = await world.post(content)
        statuses[answer.status_code] += 1
        counted = world.ingest.refused.total() - before
        if answer.status_code == 400:
            assert (problem(answer.content), counted) == ("malformed-upload", 1)
        elif answer.status_code == 200:
            assert len(answer.json()["failures"]) == counted > 0
        else:
            assert (answer.status_code, counted) == (202, 0)
    return statuses


@pytest.mark.parametrize("examples", [pytest.param(15), pytest.param(1_250, marks=pytest.mark.full)])
def test_no_body_makes_the_service_fail_and_every_refusal_is_counted(tmp_path: Path, examples: int) -> None:
    """Eight bodies an example: 10,000 in the full run."""

    async def scenario(bodies: list[bytes]) -> None:
        async with World(tmp_path) as world:
            await judged(world, bodies)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(bodies=st.lists(BODIES, min_size=8, max_size=8))
    def hold(bodies: list[bytes]) -> None:
        asyncio.run(scenario(bodies))  # a loop for each example

    hold()


@pytest.mark.parametrize("rounds", [pytest.param(60), pytest.param(5_000, marks=pytest.mark.full)])
async def test_bad_bodies_leave_nothing_behind_in_memory(tmp_path: Path, rounds: int) -> None:
    made = random.Random(7)

    def bodies(count: int) -> list[bytes]:
        """No two alike, so that whatever remembers one would grow; none is taken, since those are kept on purpose."""
        return [
            made.choice(
                [
                    made.randbytes(made.randrange(200)),
                    encode_upload([report(made.randbytes(SEALED), metric=made.randbytes(16))] * 3),
                    encode_upload([report(made.randbytes(SEALED), period=made.randrange(2**32), key_id=9)]),
                ]
            )
            for _ in range(count)
        ]

    async with World(tmp_path) as world:
        await judged(world, bodies(100))
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert 202 not in await judged(world, bodies(rounds))
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < 100_000
        finally:
            tracemalloc.stop()


def test_a_client_that_gets_everything_wrong_meets_no_5xx(shuffler: ShufflerProcess) -> None:
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "POST"):
        for path in ("/", "/v1/reports", "/v1/bundle", "/v1/status", "/metrics", "/v1/reports?a=b"):
            assert (
                answer_to(shuffler.address, request(b"x").replace(b"POST /v1/reports", f"{method} {path}".encode()))[0]
                < 500
            )
    assert get(f"{shuffler.address}/metrics")[0] == 404  # for the operator only
