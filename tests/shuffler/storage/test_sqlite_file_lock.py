"""Processes that share one SQLite file: no command disturbs a service, and no end of one looks like a loss."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub_cli.all_commands import hubbub
from hubbub_shuffler.storage import Arrivals
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from hubbub_shuffler.storage.sqlite.schema import create
from hubbub_shuffler.storage.sqlite.witness import Witness
from tests.shuffler.backends import BUCKET, TERMS
from tests.shuffler.world import unique
from tests.support.patience import PATIENCE

A_WHILE = 0.3
"""Seconds for which one is held up so that another could overtake it, if nothing kept it from that."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.sqlite"


def opened(path: Path) -> SqliteStorage:
    return SqliteStorage(path, clock=lambda: 0.0, entropy=os.urandom)


def in_use(path: Path) -> SqliteStorage:
    storage = opened(path)
    storage.add([Arrivals(BUCKET, TERMS, unique(3, TERMS.size))])
    return storage


def reserve_of(path: Path) -> Path:
    reserve = path.with_name("reports.sqlite-reserve")
    if not reserve.exists():
        pytest.skip("this disk has no room for a reserve")
    return reserve


def test_the_reserve_stays_for_the_next_start(path: Path) -> None:
    """The disk may be full then."""
    first, second = in_use(path), in_use(path)
    reserve = reserve_of(path)
    first.disconnect()
    second.disconnect()
    names = ["reports.sqlite", reserve.name, "reports.sqlite-witness"]
    assert sorted(each.name for each in path.parent.iterdir()) == names


@pytest.mark.parametrize("command", [("damaged", "list"), ("damaged", "salvage"), ("held", "list"), ("held", "offer")])
def test_a_command_beside_a_running_shuffler_leaves_the_reserve_to_it(
    path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        monkeypatch.delenv(name)
    storage = in_use(path)
    reserve = reserve_of(path)
    made = reserve.stat().st_ino
    done = CliRunner().invoke(hubbub, ["shuffler", *command, "--state-dir", str(path.parent)])
    assert done.exit_code == 0, done.output
    assert reserve.stat().st_ino == made
    storage.disconnect()


def together(*work: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("meanwhile", ["another ends", "another begins"])
def test_one_that_is_held_up_at_its_end_raises_no_false_alarm(
    path: Path, meanwhile: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between its look at the log and what it writes about that, nobody may delete the log or believe the old word."""
    slow, other = in_use(path), in_use(path)
    if meanwhile == "another begins":
        other.disconnect()
    about_to_write, overtaken = threading.Event(), threading.Event()
    write = Witness._write

    def slowly(witness: Witness, *, running: bool) -> None:
        if witness is slow._witness and not about_to_write.is_set():
            about_to_write.set()
            overtaken.wait(A_WHILE)
        write(witness, running=running)

    monkeypatch.setattr(Witness, "_write", slowly)

    def overtake() -> None:
        assert about_to_write.wait(PATIENCE)
        if meanwhile == "another ends":
            other.disconnect()
        else:
            opened(path).disconnect()
        overtaken.set()

    together(slow.disconnect, overtake)
    assert overtaken.is_set()
    opened(path).disconnect()
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]


def test_a_first_commit_while_another_one_opens_is_no_loss(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits for that commit, and finds a log in use that was not there a moment before."""
    first = opened(path)

    def create_late(db: sqlite3.Connection) -> None:
        first.add([Arrivals(BUCKET, TERMS, unique(3, TERMS.size))])
        create(db)

    monkeypatch.setattr("hubbub_shuffler.storage.sqlite.backend.create", create_late)
    second = opened(path)
    assert ("", "lost") not in second.overview().counts
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]
    second.disconnect()
    first.disconnect()


def test_one_that_is_stopped_while_it_opens_does_not_stop_the_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub_shuffler.storage.sqlite.open_close_lock._PATIENCE", 0.05)
    storage = in_use(path)
    with storage._users.one_at_a_time():
        other = in_use(path)
        other.disconnect()
    storage.disconnect()
