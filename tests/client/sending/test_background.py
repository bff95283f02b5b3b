"""The background thread: sends by itself, holds up no call of the app, and ends in time."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from hubbub_client import Client, Outcome
from hubbub_client._http.transport import Answer
from hubbub_client._sending.outbox import Lane
from hubbub_client.testing import Request
from tests.client.world import DAY, START, TOML, World, no_network, reduced, rows, served, signed
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE, wait_for, within

PROMPT = TOML.replace('period = "1d"', 'period = "1d"\ngrace = "1s"')
"""What is recorded before the worker's first look, a second after the start, is sent within half a second of it."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state")
    world.transport.bundle = signed(PROMPT)
    return world


class Running:
    """The time of the tests' world, and real seconds pass."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def __call__(self) -> float:
        return START + 1_000 + time.monotonic() - self.began


def started(world: World, **changes: object) -> Client:
    return world.client(background=True, clock=Running(), pace=None, **changes)


def senders() -> set[threading.Thread]:
    """Also those of tests before, which may still be ending."""
    return {thread for thread in threading.enumerate() if thread.name == "hubbub-sender"}


def test_what_is_recorded_is_sent_without_a_flush(world: World) -> None:
    with started(world) as client:
        assert client.record("theme", "dark") is Outcome.WAITING
        wait_for(lambda: len(world.transport.reports) == 1)
        wait_for(lambda: client.stats()["outbox"] == 0)
        assert client.record("startup_ms", 3) is Outcome.RECORDED


def test_the_thread_starts_with_the_client_and_no_record_starts_or_wakes_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else someone who sees when a device fetches and sends would see that something was recorded."""
    before = senders()
    with started(world) as client:
        assert client._worker is not None
        started_with_it = senders() - before
        assert len(started_with_it) == 1
        woken: list[float] = []
        with monkeypatch.context() as patched:
            patched.setattr(client._worker, "wake", woken.append)
            assert client.record("theme", "dark") is Outcome.WAITING
            wait_for(lambda: len(client._intake.queue) == 0)
            assert client.record("startup_ms", 3) is Outcome.RECORDED
        assert woken == []
        assert senders() - before == started_with_it
    wait_for(lambda: senders() <= before)


def test_a_device_that_records_nothing_is_heard_of_like_one_that_does(world: World) -> None:
    with started(world) as client:
        wait_for(lambda: rows(world, "pins"))
        assert [request.method for request in world.transport.requests] == ["GET"]
        assert client.stats()["outbox"] == 0


def test_without_consent_no_thread_is_started(world: World) -> None:
    before = senders()
    with started(world, consent=False) as client:
        assert client.record("theme", "dark") is Outcome.DISABLED
        assert senders() <= before


@contextmanager
def hanging() -> Iterator[str]:
    """A server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


def test_a_server_that_hangs_holds_up_neither_record_nor_flush_nor_close(world: World) -> None:
    with hanging() as address:
        client = Client(address, trust=None, consent=True, state_dir=world.directory, clock=Running())
        client.record("theme", "dark")
        time.sleep(0.1)
        assert client._worker is not None
        client._worker.wake(0.0)
        time.sleep(0.2)  # the worker is in the middle of its request now
        for act in (
            lambda: client.record("theme", "dark"),
            lambda: client.flush(0.3),
            lambda: client.close(0.3),
        ):
            with within(5):  # ten, if it waited for the request
                act()


@pytest.mark.everyday("3")
@pytest.mark.parametrize("clients", [1, 3])
def test_at_exit_all_clients_together_take_two_seconds_at_most(world: World, clients: int) -> None:
    """Also when name resolution hangs, which nothing can interrupt."""
    code = (
        "import atexit, sys, socket, time\n"
        "from tests.support.patience import stalls\n"
        "lost = stalls()\n"
        "away = lost.__enter__()\n"
        "atexit.register(lambda: print(time.monotonic() - ended - away() + before))\n"  # the first to come goes last
        "from hubbub_client import Client\n"
        "def hang(*_, **__): time.sleep(60)\n"
        "socket.getaddrinfo = hang\n"
        "made = [Client('https://hangs.example', trust=sys.argv[1], consent=True, state_dir=f'{sys.argv[2]}{i}')\n"
        f"        for i in range({clients})]\n"
        "for client in made: client.record('theme', 'dark')\n"
        "time.sleep(0.3)\n"
        "ended, before = time.monotonic(), away()\n"
    )
    from tests.client.world import TRUST

    command = [sys.executable, "-c", code, TRUST, str(world.directory)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=True)
    assert float(run.stdout) < 5  # less than two for each


def test_what_a_short_run_recorded_is_randomized_when_it_ends_and_sent_by_a_later_one(world: World) -> None:
    code = (
        "import sys\n"
        "from hubbub_client import Client\nfrom hubbub_client._process import at_exit\n"
        f"at_exit.SECONDS_AT_EXIT = {PATIENCE}\n"  # enough on any machine; that two are kept to is tested above
        "address, directory, now = sys.argv[1:]\n"
        "client = Client(address, trust=None, consent=True, state_dir=directory, clock=lambda: float(now))\n"
        "print(client.record('theme', 'dark'))\n"
    )

    def run(address: str, now: float) -> str:
        command = [sys.executable, "-c", code, address, str(world.directory), str(now)]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()

    with served(world.transport) as address:
        assert run(address, START + 1_000) == "waiting"
        assert run(address, START + 1_001) == "recorded"
        assert rows(world, "reductions") == []
        assert run(address, START + 1_003) == "recorded"
    assert len({plaintext.nonce for _, plaintext in world.opened()}) == 1


def test_where_no_thread_can_be_started_any_more_the_end_of_a_run_still_sends(world: World) -> None:
    """As in Python 3.12 and later, once the interpreter is ending."""
    code = (
        "import atexit, sys, threading\n"
        "from hubbub_client import Client\nfrom hubbub_client._process import at_exit\n"
        f"at_exit.SECONDS_AT_EXIT = {PATIENCE}\n"
        "def refuse(*_): raise RuntimeError('no new thread at interpreter shutdown')\n"
        "address, directory, now = sys.argv[1:]\n"
        "client = Client(address, trust=None, consent=True, state_dir=directory, clock=lambda: float(now))\n"
        "client.record('theme', 'dark')\n"
        "atexit.register(setattr, threading.Thread, 'start', refuse)\n"  # before ours, which was registered first
    )
    with served(world.transport) as address:
        for now in (START + 1_000, START + 1_001, START + 1_003):
            command = [sys.executable, "-c", code, address, str(world.directory), str(now)]
            subprocess.run(command, check=True, cwd=ROOT, timeout=PATIENCE)
    assert len(world.opened()) == 1


def test_at_the_end_an_app_s_own_transport_that_may_hang_is_not_used_without_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.ready(background=True)
    client.record("theme", "dark")

    def refuse(_: object) -> None:
        raise RuntimeError("no new thread at interpreter shutdown")

    before = len(world.transport.requests)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert client.flush(1) is False
        client.close()
    assert len(world.transport.requests) == before
    assert len(rows(world, "outbox")) == 1  # randomized, for the next start to send


def test_a_dead_service_is_not_tried_again_at_the_end_of_every_short_run(world: World) -> None:
    world.ready().close()
    world.time.now += 3_601  # the bundle is stale
    world.transport.script.extend([no_network] * 1_000)
    before = len(world.transport.requests)
    for _ in range(60):
        world.time.now += 1
        world.time.passed += 1
        client = world.client(background=True)
        client._runner.work()
        client.close()
    assert 5 <= len(world.transport.requests) - before < 30

    world.transport.script.clear()
    with world.client() as client:
        assert client.flush(0)  # who insists is served
    with world.client(background=True) as client:
        world.time.now += 3_601
        client._runner.work()
        assert world.transport.requests[-1].method == "GET"
        assert client._cycle.cool_downs[Lane.STEADY].seconds_left() <= 0


def test_a_clock_that_was_wrong_when_a_service_was_dead_silences_nobody(world: World) -> None:
    world.ready().close()
    right = world.time.now
    world.time.now += 20 * DAY
    world.transport.script.extend([no_network] * 20)
    for _ in range(20):
        world.time.passed += 1_000
        client = world.client(background=True)
        client._runner.work()
        client.close()
    world.transport.script.clear()
    world.time.now = right
    client = world.client(background=True)
    assert [client._cycle.cool_downs[lane].seconds_left() <= 0 for lane in Lane] == [True, True]


def test_a_service_that_asked_to_be_left_alone_is_so_over_a_restart(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    world.transport.script.append(lambda _: (503, {"retry-after": "600"}, b""))
    assert not client.flush(0, now=True)
    client.close()
    before = len(world.transport.requests)

    client = world.client()
    assert not client.flush(0, now=True)
    assert len(world.transport.requests) == before
    world.time.now += 601
    world.time.passed += 601
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_close_makes_one_pass_like_the_timer_s_whatever_was_recorded(world: World, recorded: bool) -> None:
    world.transport.bundle = signed(TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"))
    client = world.ready(background=True)
    if recorded:
        assert client.record("startup_ms", 3) is Outcome.RECORDED
    world.time.now = START + 1.5 * DAY + 1  # the delay is over
    client.close(PATIENCE)
    assert [request.method for request in world.transport.requests] == ["GET", "GET", "POST"]
    assert len(world.transport.reports) == 1
    assert rows(world, "reductions") == rows(world, "outbox") == []


def test_close_without_a_thread_randomizes_and_sends_nothing(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.close()
    assert rows(world, "reductions") == []
    assert len(rows(world, "outbox")) == 1
    assert world.uploads() == []


def test_a_failing_service_is_left_alone_for_longer_and_longer(world: World) -> None:
    client = world.ready(background=True)
    asked: list[float] = []

    def fail(_: Request) -> Answer:
        asked.append(world.time.passed)
        return 503, {}, b""

    client.record("theme", "dark")
    world.time.now += DAY / 2 + 0.6
    world.transport.script.extend([fail] * 1_000)
    # some requests are for the bundle: how many of twelve are uploads is up to chance
    while len(asked) < 12 or client.stats().get("retried:http-503", 0) < 6:
        world.time.passed += 0.5
        client._runner.work()
    pauses = [after - before for before, after in pairwise(asked)]
    assert sum(pauses[:5]) <= 0.5 * 31 + 5
    assert max(pauses) <= 901
    client.close()


def test_a_bundle_that_cannot_be_had_is_asked_for_less_and_less(world: World) -> None:
    """Also when nothing is due: a device without a network does not try all day."""
    client = world.ready(background=True)
    world.time.now += 3_601
    world.transport.script.extend([no_network] * 1_000)
    before = len(world.transport.requests)
    until = world.time.passed + 6 * 3_600
    while world.time.passed < until:
        world.time.passed += client._runner.work()
    assert 6 * 4 <= len(world.transport.requests) - before < 150
    world.transport.script.clear()
    client.close()


async def test_flush_from_an_event_loop_does_not_block_it(world: World) -> None:
    asked, turned = threading.Event(), threading.Event()

    def until_the_loop_has_turned(request: Request) -> Answer:
        asked.set()
        assert turned.wait(PATIENCE), "the flush holds up the loop"
        return world.transport.accept(request)

    world.transport.script.append(until_the_loop_has_turned)
    client = started(world)
    client.record("theme", "dark")
    flush = asyncio.create_task(client.aflush(PATIENCE, now=True))
    turns = 0
    while not flush.done():
        await asyncio.sleep(0.005)
        turns += asked.is_set()
        if turns > 5:
            turned.set()
    client.close()
    assert await flush


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 warns, apps fork
@pytest.mark.parametrize("closed", [False, True])
def test_a_forked_child_gets_a_thread_of_its_own_if_its_parent_had_one(world: World, closed: bool) -> None:
    """At once: the parent may end, and what the child does must not depend on what it records."""
    name = "sender-of-this-test"
    with started(world) as client:
        client.record("theme", "dark")
        wait_for(lambda: len(world.transport.reports) == 1)
        worker = client._worker
        assert worker is not None
        if closed:
            client.close()
            wait_for(lambda: not worker.is_running)
        worker._name = name  # clients of other tests may have theirs
        pid = os.fork()
        if pid == 0:
            found = sum(thread.name == name for thread in threading.enumerate())
            client.record("startup_ms", 3)
            again = sum(thread.name == name for thread in threading.enumerate())
            os._exit(0 if found == again == (0 if closed else 1) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert client.record("startup_ms", 3) is (Outcome.DISABLED if closed else Outcome.RECORDED)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 warns, apps fork
def test_what_a_child_wrote_is_not_lost_when_its_parent_closes_the_file(world: World) -> None:
    """A child that took over SQLite's notes of its parent's locks would write into a log that the parent deletes."""
    client = world.ready()
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        first = client.record("startup_ms", 1)
        os.write(ready[1], b"1")
        os.read(go[0], 1)
        os._exit(0 if (first, client.record("startup_ms", 3)) == (Outcome.RECORDED, Outcome.RECORDED) else 1)
    os.read(ready[0], 1)
    client.close()
    os.write(go[1], b"1")
    assert os.waitpid(pid, 0)[1] == 0
    assert [kept["count"] for kept in reduced(world)] == [2]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 warns, apps fork
def test_a_child_forked_in_the_middle_of_a_long_transaction_reports_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would share its parent's open file: better no report than one that is forgotten and made again."""
    monkeypatch.setattr("hubbub_client._state.database._BUSY_SECONDS", 0.05)
    client = world.ready()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with client._state.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('busy', 1)")
            held.set()
            over.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    try:
        pid = os.fork()
        if pid == 0:
            outcome, flushed = client.record("startup_ms", 1), client.flush(0)
            os._exit(0 if (outcome, flushed) == (Outcome.NO_DURABLE_STATE, False) else 1)
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        over.set()
        thread.join()
    assert client.record("startup_ms", 1) is Outcome.RECORDED
