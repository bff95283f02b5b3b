"""Slow, silent and too many connections: the aggregator goes on answering, and its operator sees them."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from hubbub.wire import BATCH_TYPE
from hubbub_aggregator.settings import Settings
from tests.aggregator.process import Served
from tests.aggregator.world import CODEBOOK, remember
from tests.shuffler.raw_connections import answers, closed, connect, get, problem
from tests.support import http
from tests.support.compiled import write_compiled
from tests.support.patience import wait_for
from tests.support.ports import reserved_port

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
OPEN_FILES, CONNECTIONS = 300, 500


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("connections")
    write_compiled(root / "codebook.json", CODEBOOK)
    remember(Settings(state_dir=root / "state"))
    settings = {
        "codebook": root / "codebook.json",
        "state_dir": root / "state",
        "port": 0,
        "admin_port": reserved_port(),
        "processes": 1,
        "head_timeout": 8,
        "body_timeout": 3,
    }
    served = Served(root / "log", **settings)
    served.open_files, served.admin = OPEN_FILES, f"http://127.0.0.1:{settings['admin_port']}"
    with served:
        yield served


def metric(aggregator: Served, name: str) -> float:
    text = http.get(f"{aggregator.admin}/metrics").text
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"hubbub_aggregator_{name} ")))


def cut(aggregator: Served, reason: str) -> float:
    return metric(aggregator, f'connections_cut_total{{reason="{reason}"}}')


@pytest.fixture
def _room() -> Iterator[None]:
    """Descriptors for this side of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CONNECTIONS + 200
    if 0 <= hard < needed:
        pytest.skip(f"this machine lets a process have {hard} files open; {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_room")
def test_it_answers_however_many_half_requests_are_open(aggregator: Served) -> None:
    """More than it may have files open: those that have kept it waiting for longest make room."""
    assert f"the limit of open files is {OPEN_FILES}" in aggregator.log()
    with ExitStack() as opened:
        for number in range(CONNECTIONS):
            connection = opened.enter_context(connect(aggregator.address))
            with suppress(OSError):
                connection.sendall(HALF)
            if number % 100 == 99:
                assert get(f"{aggregator.address}/healthz")[0] == 200
        assert get(f"{aggregator.address}/healthz")[0] == 200
        assert cut(aggregator, "made-room") > 0
        assert aggregator.log().count("connections are taken") == 1
        # the rest is cut without any help of ours
        wait_for(lambda: metric(aggregator, "connections") == 0)
    assert cut(aggregator, "head-timeout") > 0
    wait_for(lambda: "connections are well below their limit again" in aggregator.log())
    assert aggregator.log().count("connections are taken") == 1


def test_half_a_head_is_cut_on_both_listeners(aggregator: Served) -> None:
    with connect(aggregator.address) as public, connect(aggregator.admin) as admin:
        for connection in (public, admin):
            connection.sendall(HALF)
        assert closed(public)
        assert closed(admin)


def test_a_batch_that_never_arrives_whole_is_given_up(aggregator: Served) -> None:
    before = cut(aggregator, "body-timeout")
    head = f"PUT /v1/batches/{'ab' * 16} HTTP/1.1\r\nContent-Type: {BATCH_TYPE}\r\nContent-Length: 4000\r\n\r\n"
    with connect(aggregator.address) as connection:
        connection.sendall(head.encode() + bytes(10))
        status, headers, content = next(answers(connection))
        assert (status, problem(content)) == (503, "overloaded")
        assert int(headers["retry-after"]) > 0
        assert closed(connection)
    assert cut(aggregator, "body-timeout") == before + 1
