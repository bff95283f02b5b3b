"""`disable`: at once, for every client of the directory, over restarts, and without forgetting what was spent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub_client import Outcome
from hubbub_client._http.transport import Answer
from hubbub_client.testing import Request
from tests.client.world import DAY, World, rows
from tests.support.patience import PATIENCE

SECRET = 4321.125


def kept(world: World) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(world.directory.iterdir()))


def test_disable_deletes_values_and_reports_at_once_and_keeps_the_ledger(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    client.record("startup_ms", SECRET)
    (nonce,) = [row[0] for row in rows(world, "outbox")]
    assert str(SECRET).encode() in kept(world)
    assert nonce in kept(world)

    assert client.disable()

    assert rows(world, "reductions") == rows(world, "outbox") == []
    assert str(SECRET).encode() not in kept(world)  # neither in the file nor in its log, with the client still open
    assert nonce not in kept(world)
    assert [row[3] for row in rows(world, "ledger") if row[0] == "theme"] == ["spent"]
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.flush(0, now=True) is False
    assert world.uploads() == []


def test_disable_survives_a_restart_whatever_the_app_says(world: World) -> None:
    world.ready().disable()
    client = world.client(consent=True)
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.flush(0) is False


def test_disable_reaches_other_clients_of_the_directory(world: World) -> None:
    first, second = world.ready(), world.ready()
    second.record("startup_ms", SECRET)
    first.disable()
    assert second.record("startup_ms", SECRET) is Outcome.DISABLED
    assert rows(world, "reductions") == []


def test_what_waits_in_memory_is_forgotten_too(world: World) -> None:
    client = world.client()
    assert client.record("startup_ms", SECRET) is Outcome.WAITING
    client.disable()
    assert client.enable()
    assert client.flush(0)
    assert rows(world, "reductions") == []


def test_enable_takes_it_back_and_reopens_no_spent_period(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    client.disable()
    assert client.enable()

    assert client.record("theme", "light") is Outcome.RECORDED  # taken, and without effect
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1
    world.time.now += DAY
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2


@pytest.mark.parametrize("why", ["consent", "environment"])
def test_enable_is_no_consent(world: World, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "environment":
        monkeypatch.setenv("DO_NOT_TRACK", "yes")
    client = world.client(consent=why != "consent")
    client.disable()
    client.enable()
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert list(world.directory.iterdir()) == []


@pytest.mark.parametrize("text", ["1", "true", "yes", " on "])
def test_a_switch_in_the_environment_is_on_unless_it_says_otherwise(
    world: World, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBBUB_DISABLED", text)
    assert world.client().record("theme", "dark") is Outcome.DISABLED
    for off in ("", "0", "false", "False"):
        monkeypatch.setenv("HUBBUB_DISABLED", off)
        assert world.client().record("theme", "dark") is Outcome.WAITING


def test_disable_during_a_flush_holds_back_the_next_request(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", 7)
    world.time.now += DAY
    client.record("theme", "dark")

    def switched_off(request: Request) -> Answer:
        world.client().disable()  # another process
        return world.transport.accept(request)

    world.transport.script.append(switched_off)  # the bundle has gone stale
    assert not client.flush(0, now=True)
    assert world.uploads() == []


def test_a_value_that_was_on_its_way_when_someone_switched_off_is_not_kept(world: World) -> None:
    """The app's answer was asked for before, and is acted on after."""
    others = world.client()
    switching_off = False

    def answer() -> bool:
        if switching_off:
            others.disable()
        return True

    client = world.ready(consent=answer)
    client._gate._participation.forget_answer()
    switching_off = True

    assert client.record("startup_ms", SECRET) is Outcome.DISABLED
    assert rows(world, "reductions") == []


def test_an_answer_that_is_being_written_does_not_undo_a_later_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hubbub_client._state.database._BUSY_SECONDS", PATIENCE
    )  # who switches off waits for who writes
    client = world.ready()
    client.record("startup_ms", SECRET)
    switch = threading.Thread(target=client.disable)
    transaction = client._state.transaction

    @contextmanager
    def slow() -> Iterator[sqlite3.Connection]:
        with transaction() as connection:
            yield connection
            if threading.current_thread() is not switch:
                switch.start()
                time.sleep(0.3)  # it is about to withdraw now

    client._gate._participation.forget_answer()
    with monkeypatch.context() as patched:
        patched.setattr(client._state, "transaction", slow)
        client._gate._participation.answer(True, world.time.now)
        switch.join()

    assert rows(world, "reductions") == []
    assert str(SECRET).encode() not in kept(world)


def test_disable_after_close_deletes_what_is_kept(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", SECRET)
    client.close()
    assert str(SECRET).encode() in kept(world)
    assert client.disable()
    assert rows(world, "reductions") == []
    assert str(SECRET).encode() not in kept(world)


def test_disable_that_cannot_be_written_holds_for_this_client(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    client = world.client(state_dir=tmp_path / "file" / "state")
    assert client.disable() is False
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.enable()
    assert client.record("theme", "dark") is Outcome.NO_DURABLE_STATE


def test_an_opt_out_outlives_a_damaged_file(world: World) -> None:
    with world.ready() as client:
        client.disable()
    (world.directory / "hubbub.sqlite3").write_bytes(b"not a database" * 100)
    assert world.client().record("theme", "dark") is Outcome.DISABLED


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it: another process, while the app may be running."""
    environment = {name: text for name, text in os.environ.items() if name != "DO_NOT_TRACK"}
    command = [sys.executable, "-m", "hubbub_client", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_person_can_switch_it_off_while_the_app_runs(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", SECRET)

    done = run("disable", world.directory)

    assert done.returncode == 0, done.stderr
    assert client.record("startup_ms", SECRET) is Outcome.DISABLED
    assert rows(world, "reductions") == []
    assert str(SECRET).encode() not in kept(world)
    assert run("enable", world.directory).returncode == 0
    assert client.flush(0)
    assert client.record("startup_ms", SECRET) is Outcome.RECORDED


@pytest.mark.everyday("inspect")
@pytest.mark.parametrize("command", ["inspect", "disable", "enable"])
def test_a_directory_that_is_none_is_said_so(tmp_path: Path, command: str) -> None:
    done = run(command, tmp_path / "missing")
    assert done.returncode == 1
    assert "is not a directory" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "missing").exists()


def test_switching_off_where_nothing_was_kept_keeps_it_so(world: World) -> None:
    world.directory.mkdir()
    assert run("disable", world.directory).returncode == 0
    assert [path.name for path in world.directory.iterdir()] == ["hubbub.disabled"]
    assert world.client().record("theme", "dark") is Outcome.DISABLED


def test_someone_who_reads_the_file_delays_the_cleaning_but_not_the_deletion(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", SECRET)
    reader = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM reductions").fetchall()

    client.disable()
    reader.execute("COMMIT")
    assert reader.execute("SELECT * FROM reductions").fetchall() == []
    reader.close()
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert not client.flush(0)  # tries again, now that nobody reads

    assert str(SECRET).encode() not in kept(world)
