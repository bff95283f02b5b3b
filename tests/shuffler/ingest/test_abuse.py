"""Slow, silent and greedy senders: the service lets go of each, and none keeps an honest device out."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from hubbub_service_common.http.connection_limits import LARGEST_HEAD, ConnectionLimits, Watched
from hubbub_service_common.http.server import Server, listen, server_config
from hubbub_service_common.process.single_flight import TookTooLong
from hubbub_shuffler.operations.limited_storage_questions import Asked
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.raw_connections import (
    HEAD,
    TYPE,
    answers,
    body,
    closed,
    connect,
    cut,
    get,
    post,
    problem,
    request,
    running,
)
from tests.shuffler.world import World, unique, upload
from tests.support.patience import PATIENCE, stalls

LOG = logging.getLogger("hubbub_test")


@pytest.fixture(scope="module")
def shuffler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShufflerProcess]:
    settings = {"head_timeout": "3", "body_timeout": "3", "max_connections": "40"}
    with running(tmp_path_factory.mktemp("abuse"), **settings) as process:
        yield process


@pytest.mark.parametrize("said", [b"", b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a head"])
def test_a_connection_without_a_whole_request_is_ended(shuffler: ShufflerProcess, said: bytes) -> None:
    before = cut(shuffler, "head-timeout")
    with connect(shuffler.address) as connection:
        connection.sendall(said)
        assert closed(connection)
    assert cut(shuffler, "head-timeout") == before + 1


def test_the_admin_listener_is_watched_over_too(shuffler: ShufflerProcess) -> None:
    """Silent connections to it would use up the descriptors that devices need."""
    with connect(shuffler.admin) as connection:
        assert closed(connection)
    assert get(f"{shuffler.admin}/healthz")[0] == 200


def keeps_sending(connection: socket.socket, pieces: list[bytes], patience: float) -> float:
    """Seconds until the other side has had enough, without those in which the machine did something else."""
    with stalls() as away:
        start = time.monotonic()
        with suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.05)
                if time.monotonic() - start - away() > patience:
                    break
        return time.monotonic() - start - away()


def test_a_head_that_comes_byte_by_byte_does_not_last_longer(shuffler: ShufflerProcess) -> None:
    with connect(shuffler.address) as connection:
        assert keeps_sending(connection, [bytes([byte]) for byte in request(body(5))], 20) < 8


def test_nor_does_one_that_comes_after_an_upload_that_was_taken(shuffler: ShufflerProcess) -> None:
    with connect(shuffler.address) as connection:
        connection.sendall(request(body()))
        assert next(answers(connection))[0] == 202
        assert keeps_sending(connection, [b"G"] * 1_000, 20) < 8


def test_a_head_without_end_is_cut_before_it_takes_room(shuffler: ShufflerProcess) -> None:
    before = cut(shuffler, "head-too-large")
    with connect(shuffler.address) as connection:
        sent = 0
        with suppress(OSError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            while sent < 100 * LARGEST_HEAD:
                sent += connection.send(b"X-Filler: " + b"x" * 1_000 + b"\r\n")
        assert sent < 100 * LARGEST_HEAD
    assert cut(shuffler, "head-too-large") == before + 1


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 998, b"1\r\nx\r\n"], ids=["chunk extensions", "small chunks"])
def test_a_body_in_chunks_cannot_hide_endless_bytes(shuffler: ShufflerProcess, endless: bytes) -> None:
    with connect(shuffler.address) as connection:
        sent = 0
        with suppress(OSError):
            connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
            while sent < 2**26:
                sent += connection.send(endless * 20)
        assert sent < 2**26


@pytest.mark.parametrize("begun", [0, 50], ids=["never begins", "never ends"])
def test_a_body_that_never_arrives_whole_is_given_up(shuffler: ShufflerProcess, begun: int) -> None:
    before = cut(shuffler, "body-timeout")
    with connect(shuffler.address) as connection:
        connection.sendall(request(body())[: -len(body())] + body()[:begun])
        status, headers, content = next(answers(connection))
        assert (status, problem(content)) == (503, "overloaded")
        assert int(headers["retry-after"]) > 0
        assert closed(connection)
    assert cut(shuffler, "body-timeout") == before + 1


def test_silent_and_slow_connections_do_not_keep_an_honest_device_out(shuffler: ShufflerProcess) -> None:
    """Three times as many as there is room for; each upload opens a connection of its own, as a new device does."""
    with ExitStack() as opened:
        for number in range(120):
            connection = opened.enter_context(connect(shuffler.address))
            with suppress(OSError):
                connection.sendall([b"", b"POST /v1", request(body())[:-5]][number % 3])
            if number % 10 == 9:
                assert post(shuffler.address, body()) == 202


def test_requests_sent_ahead_are_answered_in_turn_but_not_without_end(shuffler: ShufflerProcess) -> None:
    with connect(shuffler.address) as connection:
        connection.sendall(request(body()) * 20)
        got = answers(connection)
        assert [next(got)[0] for _ in range(20)] == [202] * 20
    before = cut(shuffler, "too-many-ahead")
    with connect(shuffler.address) as connection:
        with suppress(OSError):
            connection.sendall(request(body()) * 1_000)
        assert closed(connection)
    assert cut(shuffler, "too-many-ahead") == before + 1


def test_memory_does_not_grow_with_connections_that_come_to_nothing(shuffler: ShufflerProcess) -> None:
    def resident() -> int:
        return int(Path(f"/proc/{shuffler.process.pid}/statm").read_text().split()[1])

    def abuse(times: int) -> None:
        for _ in range(times):
            for said in (b"", b"\0", b"GET / HT", request(body())[:-9], request(body(), "X: " + "y" * 9_000)):
                with connect(shuffler.address) as connection, suppress(OSError):
                    connection.sendall(said)

    abuse(50)
    before = resident()
    abuse(100)
    assert resident() - before < 2**21 // 4_096  # two megabytes for 500 of them


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


class Quiet:
    """A connection as the guard sees one: from an address, waiting or not."""

    def __init__(self, network: bytes | None, since: float = 0.0, waiting: bool = True) -> None:
        self.network, self.since, self._waiting, self.ended = network, since, waiting, False

    def waits(self, _now: float) -> bool:
        return self._waiting

    def let_go(self, *, answer: bool) -> None:
        assert not answer
        self.ended = True


def guard(**options: Any) -> ConnectionLimits:
    settings: dict[str, Any] = {"max_connections": 40, "max_per_address": None} | options
    limits: dict[str, Any] = {"head_timeout": 1, "body_timeout": 1, "body_rate": 1, "max_body": 1}
    return ConnectionLimits(**limits, clock=lambda: 100.0, log=LOG, **settings)


def opened(by: ConnectionLimits, *connections: Quiet) -> list[bool]:
    """Which of them are ended when all were opened."""
    for connection in connections:
        by.opened(cast("Watched", connection))
    return [connection.ended for connection in connections]


def test_an_address_has_so_many_connections_and_loopback_any_number() -> None:
    by = guard(max_per_address=2)
    here = [Quiet(b"here") for _ in range(3)]
    assert opened(by, *here) == [False, False, True]
    assert opened(by, Quiet(b"there"), Quiet(None), Quiet(None), Quiet(None)) == [False] * 4
    by.closed(cast("Watched", here[0]))
    assert opened(by, Quiet(b"here")) == [False]


async def test_on_real_connections_an_address_has_so_many_and_another_is_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback, where all of them come from, has any number; so here its addresses count as others do."""
    monkeypatch.setattr("hubbub_service_common.http.connection_limits.network_of", str.encode)

    by = guard(max_per_address=3)
    async with World(tmp_path) as world:
        with listen("127.0.0.1", 0) as listener:
            server = Server(server_config(world.app, http=by.protocol()), listener, lambda _address: None)
            serving = asyncio.create_task(server.run_here())
            here = [await asyncio.to_thread(connect, server.address, "127.0.0.5") for _ in range(5)]
            ended = await asyncio.to_thread(lambda: [closed(each) for each in here[3:]])
            assert (ended, by.cut["too-many-from-one-address"], by.open) == ([True, True], 2, 3)
            there = await asyncio.to_thread(connect, server.address, "127.0.0.6")
            for each in (here[0], there):
                await asyncio.to_thread(each.sendall, request(upload(unique(1))))
                assert (await asyncio.to_thread(next, answers(each)))[0] == 202
            here[1].close()
            while by.open > 3:
                await asyncio.sleep(0.01)
            here.append(await asyncio.to_thread(connect, server.address, "127.0.0.5"))
            await asyncio.to_thread(here[-1].sendall, request(upload(unique(1))))
            assert (await asyncio.to_thread(next, answers(here[-1])))[0] == 202
            for each in [*here, there]:
                each.close()
            server.stop()
            await serving


def test_whoever_kept_us_waiting_for_longest_makes_room() -> None:
    by = guard()
    waiting = [Quiet(None, since=float(n)) for n in range(40)]
    assert opened(by, *waiting, Quiet(None)) == [True] * 3 + [False] * 38


def test_the_log_says_once_that_all_room_is_taken_and_once_that_it_is_free_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    by = guard()
    for _ in range(2):
        crowd = [Quiet(None) for _ in range(90)]
        opened(by, *crowd)
        for connection in crowd:
            by.closed(cast("Watched", connection))
        by.look()
    said = [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records]
    assert (
        said
        == [
            ("WARNING", "all 40 connections are taken"),
            ("INFO", "connections are well below their limit again"),
        ]
        * 2
    )


def test_work_is_never_given_up_to_make_room() -> None:
    by = guard()
    assert opened(by, *[Quiet(None, waiting=False) for _ in range(40)], Quiet(None)) == [False] * 40 + [True]


async def test_uploads_beyond_the_number_that_may_wait_for_the_storage_are_told_to_come_back(tmp_path: Path) -> None:
    async with World(tmp_path, max_uploads=3) as world:
        held = asyncio.Event()
        add = world.storage.add

        async def slow(arrivals: Any) -> Any:
            await held.wait()
            return await add(arrivals)

        world.storage.add = slow  # type: ignore[method-assign]  # a disk that takes its time
        waiting = [asyncio.create_task(world.post(upload(unique(1)))) for _ in range(3)]
        await until(lambda: world.ingest._uploads == 3)
        answer = await world.post(upload(unique(1)))
        assert (answer.status_code, problem(answer.content)) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) > 0
        held.set()
        assert {(await each).status_code for each in waiting} == {202}
        assert (await world.post(upload(unique(1)))).status_code == 202


async def pieces(world: World, first: bytes, *, more: bool) -> int:
    """An upload whose first piece is followed by nothing; the status of the answer, if one comes."""
    left = [{"type": "http.request", "body": first, "more_body": more}]
    statuses: list[int] = []

    async def receive() -> Any:
        return left.pop() if left else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    headers = [(name.lower().encode(), value.encode()) for name, value in TYPE.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers}
    await world.app(scope, receive, send)
    return statuses[0]


async def test_bodies_that_are_never_finished_leave_room_for_those_that_come_whole(tmp_path: Path) -> None:
    async with World(tmp_path, max_pending=20_000) as world:
        slow = [asyncio.create_task(pieces(world, bytes(9_000), more=True)) for _ in "ab"]
        await until(lambda: any(each.done() for each in slow))
        assert [each.done() for each in slow] == [False, True]
        assert await slow[1] == 503  # it found no room
        assert await pieces(world, upload(unique(50)), more=False) == 202
        slow[0].cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert world.ingest._pending == 0


async def test_more_reports_than_an_upload_may_have_are_to_be_split(tmp_path: Path) -> None:
    async with World(tmp_path, max_reports=10) as world:
        assert (await world.post(upload(unique(10)))).status_code == 202
        answer = await world.post(upload(unique(11)))
        assert (answer.status_code, problem(answer.content)) == (413, "too-large")


async def test_one_upload_that_is_cancelled_takes_no_other_of_its_commit_with_it(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        uploads = [asyncio.create_task(world.post(upload(unique(1)))) for _ in range(5)]
        while not world.ingest._uploads:
            await asyncio.sleep(0)
        uploads[0].cancel()
        rest = await asyncio.gather(*uploads[1:])
        assert {answer.status_code for answer in rest} == {202}
        await asyncio.gather(uploads[0], return_exceptions=True)


@pytest.mark.timeout(60)
async def test_a_storage_that_hangs_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    """The event loop of this test closes only when all that was left behind has ended: within the time limit."""
    held = []
    async with World(tmp_path) as world:

        async def hang(_arrivals: Any) -> Any:
            await asyncio.Event().wait()

        world.storage.add = hang  # type: ignore[method-assign, assignment]  # a server that does not answer
        for _ in range(2):  # one in the commit, one that waits for the next
            held.append(asyncio.create_task(world.post(upload(unique(1)))))
            await until(lambda: world.ingest._uploads == len(held))


async def test_who_only_looks_does_not_queue_up_before_a_storage_that_hangs(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        held, begun = asyncio.Event(), 0
        overview = world.storage.overview

        async def slow() -> Any:
            nonlocal begun
            begun += 1
            await held.wait()
            return await overview()

        world.storage.overview = slow  # type: ignore[method-assign]  # a disk that hangs for a while
        asked = Asked(world.storage, patience=0.1)
        answers_ = await asyncio.gather(*(asked.overview() for _ in range(50)), return_exceptions=True)
        assert {type(each) for each in answers_} == {TookTooLong}
        assert begun == 1
        held.set()
        asked._overview._patience = PATIENCE
        assert (await asked.overview()).waiting == []
        assert (await asked.overview()).waiting == []
        assert begun >= 2  # an answer is given to those who waited for it, and to nobody later


def test_many_devices_at_once_are_all_served(shuffler: ShufflerProcess) -> None:
    statuses: list[int] = []

    def device() -> None:
        statuses.extend(post(shuffler.address, body()) for _ in range(5))

    devices = [threading.Thread(target=device) for _ in range(10)]
    for each in devices:
        each.start()
    for each in devices:
        each.join()
    assert statuses == [202] * 50
