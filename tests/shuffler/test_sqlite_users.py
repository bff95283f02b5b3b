"""Processes that share one SQLite file: the last one tidies up, and no end of one looks like a loss."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub_cli.commands import hubbub
from hubbub_shuffler.storage import Arrivals
from hubbub_shuffler.storage._sqlite_witness import Witness
from hubbub_shuffler.storage.sqlite import SqliteStorage
from tests.patience import PATIENCE
from tests.shuffler.backends import BUCKET, TERMS
from tests.shuffler.storage_processes import killed_after_adding
from tests.shuffler.world import unique

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


def test_the_reserve_goes_with_the_last_one_that_uses_the_file(path: Path) -> None:
    first, second = in_use(path), in_use(path)
    reserve = reserve_of(path)
    first.disconnect()
    assert reserve.exists()
    third = opened(path)
    second.disconnect()
    assert reserve.exists()
    third.disconnect()
    assert sorted(each.name for each in path.parent.iterdir()) == ["reports.sqlite", "reports.sqlite-witness"]


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
    assert not reserve.exists()


def test_one_that_was_killed_keeps_nobody_from_being_the_last(path: Path) -> None:
    killed_after_adding(path, before_the_cut=1, after_it=1)
    reserve = reserve_of(path)
    opened(path).disconnect()
    assert not reserve.exists()


def test_of_any_number_that_end_at_once_one_is_the_last(path: Path) -> None:
    for _ in range(5):
        storages = [in_use(path) for _ in range(4)]
        reserve = reserve_of(path)
        together(*(storage.disconnect for storage in storages))
        assert not reserve.exists()


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


def test_one_that_is_stopped_while_it_opens_does_not_stop_the_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub_shuffler.storage._sqlite_users._PATIENCE", 0.05)
    storage = in_use(path)
    with storage._users.one_at_a_time():
        other = in_use(path)
        other.disconnect()
    storage.disconnect()
