"""A state file that another process holds: `record` does not wait for it, and `close` not for long."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from hubbub_client import Client, Outcome
from hubbub_client._http.transport import Answer
from hubbub_client.testing import Request
from tests.client.world import DAY, World, codebook, reduced, rows
from tests.support.patience import PATIENCE, wait_for, within

LONG = 20.0
"""Seconds that a transaction would wait here: far more than any machine is slow."""
SECRET = 4321.125


@contextmanager
def someone_writing(world: World) -> Iterator[None]:
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@contextmanager
def someone_reading(world: World) -> Iterator[None]:
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT * FROM reductions").fetchall()
    try:
        yield
    finally:
        other.close()


def held_up(world: World, monkeypatch: pytest.MonkeyPatch, **changes: object) -> Client:
    """A client that could not begin, and that would wait for long now."""
    monkeypatch.setattr("hubbub_client._state.database._BUSY_SECONDS", 0.05)
    client = world.client(**changes)
    client._state._patience = LONG
    return client


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("shipped", [True, False])
def test_a_record_waits_for_nobody_though_the_client_could_not_begin(
    world: World, monkeypatch: pytest.MonkeyPatch, background: bool, shipped: bool
) -> None:
    world.ready().close()
    with someone_writing(world):
        book = codebook() if shipped else None
        client = held_up(world, monkeypatch, background=background, codebook=book)
        with within(LONG / 2):
            for value in (1, 2, 3):
                client.record("startup_ms", value)
        assert client.stats()["waiting"] == 3
    assert client.flush(PATIENCE)
    assert reduced(world) == [{"count": 3, "value": 2.0}]
    client.close()


@pytest.mark.parametrize("background", [True, False])
def test_what_waits_in_memory_is_written_at_the_end_or_counted_as_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    world.ready().close()
    with someone_writing(world):
        client = held_up(world, monkeypatch, background=background)
        hopeless = held_up(world, monkeypatch, background=background)
        assert client.record("startup_ms", 1) is hopeless.record("startup_ms", 1) is Outcome.WAITING
        hopeless.close(0.1)
        assert hopeless.stats()["lost:closed"] == 1
    client.close(PATIENCE)
    assert "lost:closed" not in client.stats()
    assert reduced(world) == [{"count": 1, "value": 1.0}]


@pytest.mark.parametrize("someone", [someone_reading, someone_writing])
def test_a_record_without_consent_waits_for_nobody_and_leaves_the_deleting_to_the_next_pass(
    world: World, someone: Callable[[World], AbstractContextManager[None]]
) -> None:
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("startup_ms", SECRET)
    client._state._patience = LONG
    with someone(world):
        answer = False
        with within(LONG / 2):
            assert client.record("startup_ms", 1) is Outcome.DISABLED
        assert reduced(world) == [{"count": 1, "value": SECRET}]
    assert not client.flush(0)
    assert rows(world, "reductions") == []


def test_a_pass_without_consent_deletes_though_someone_reads_and_the_next_one_cleans_the_log(world: World) -> None:
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("startup_ms", SECRET)
    client._state._patience = 0.05
    log = world.directory / "hubbub.sqlite3-wal"
    answer = False
    with someone_reading(world):
        assert not client.flush(0)
        assert rows(world, "reductions") == []
        assert str(SECRET).encode() in log.read_bytes()
    assert not client.flush(0)  # tries again
    assert str(SECRET).encode() not in log.read_bytes() + (world.directory / "hubbub.sqlite3").read_bytes()


@pytest.mark.parametrize("background", [True, False])
def test_close_does_not_wait_longer_than_it_was_told_to(
    world: World, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub_client._state.database._BUSY_SECONDS", LONG)
    client = world.ready(background=background)
    client.record("theme", "dark")
    with someone_writing(world), within(LONG / 2):
        client.close(0.2)
    again = world.ready()
    assert again.flush(0)
    assert again.stats()["outbox"] == 1  # what could not be randomized then is now


def test_close_leaves_behind_a_thread_that_is_stuck_in_a_transaction(world: World) -> None:
    client = world.ready()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with client._state.transaction():
            held.set()
            over.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    try:
        with within(LONG / 2):
            client.close(0.2)
    finally:
        over.set()
        thread.join()
    assert client.record("theme", "dark") is Outcome.DISABLED


def test_what_is_recorded_while_the_client_is_closing_is_refused_and_not_kept(world: World) -> None:
    client = world.ready(background=True)
    client.record("theme", "dark")
    assert client.flush(PATIENCE)  # randomized, and not sent yet
    sending, go_on = threading.Event(), threading.Event()

    def slowly(request: Request) -> Answer:
        sending.set()
        go_on.wait(PATIENCE)
        return world.transport.accept(request)

    world.transport.script.extend([slowly, slowly])
    world.time.now += DAY / 2 + 1
    closing = threading.Thread(target=lambda: client.close(PATIENCE))
    closing.start()
    try:
        assert sending.wait(PATIENCE)
        wait_for(lambda: client._closing)  # it may be the background thread that sends
        assert client.record("startup_ms", SECRET) is Outcome.DISABLED
        assert len(client._intake.queue) == 0
    finally:
        go_on.set()
        closing.join()
    assert client.record("startup_ms", SECRET) is Outcome.DISABLED
    assert rows(world, "reductions") == []
    assert len(world.transport.reports) == 1


def test_a_reader_delays_the_cleaning_of_the_log_until_the_next_pass_and_not_until_the_next_period(
    world: World,
) -> None:
    client = world.ready()
    client.record("startup_ms", SECRET)
    world.time.now += DAY
    log = world.directory / "hubbub.sqlite3-wal"
    with someone_reading(world):
        assert client.flush(0)
        assert str(SECRET).encode() in log.read_bytes()
    assert rows(world, "reductions") == []
    assert client.flush(0)
    assert str(SECRET).encode() not in log.read_bytes() + (world.directory / "hubbub.sqlite3").read_bytes()


def test_the_haste_of_a_close_is_not_handed_on_to_another_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a `disable` beside it would give up at once."""
    monkeypatch.setattr("hubbub_client._state.database._BUSY_SECONDS", PATIENCE)
    state = world.ready()._state
    found: list[float] = []

    def disable() -> None:
        with state.alone():
            found.append(state._patience)

    thread = threading.Thread(target=disable)
    with state.alone(within=0.0):
        thread.start()
        time.sleep(0.1)
        with state.alone():
            assert state._patience == 0.0
    thread.join()
    assert found == [state._patience]
    assert found[0] > 0
