"""Error messages of the state: what keeps a client from reporting is said once, with what to do about it."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Callable

import pytest

from hubbub_client import Client
from hubbub_client._process import fork
from hubbub_client._state import database
from tests.client.world import World


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "hubbub_client"]


def use(client: Client) -> None:
    for _ in range(3):
        client.record("theme", "dark")
        assert client.flush(0, now=True) is False
    client.preview()
    client.ledger()


def lost_in_fork(client: Client, _: pytest.MonkeyPatch) -> None:
    client._state._lost_in_fork = True


def broken_gate(_: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork._gate, "is_broken", True)
    monkeypatch.setattr("hubbub_client._process.preload_modules._done", [])


@pytest.mark.parametrize("harm", [lost_in_fork, broken_gate])
def test_a_child_that_can_never_report_says_so(
    world: World,
    harm: Callable[[Client, pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = world.ready()
    harm(client, monkeypatch)
    with caplog.at_level(logging.WARNING, "hubbub_client"):
        use(client)
    (text,) = said(caplog)
    assert "this child was forked" in text
    assert "make the client after the fork" in text


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "the disk is full: make room where state_dir is"),
        (errno.EACCES, "give this user the right to write"),
        (errno.EROFS, "give this user the right to write"),
        (errno.ENOTDIR, "state_dir is not a directory: pass the path of a directory"),
        (errno.EIO, "check the disk"),
        (errno.EMFILE, "nothing can be kept (OSError): check state_dir"),
    ],
)
def test_what_the_system_refuses_is_said_with_what_to_do(
    world: World, number: int, remedy: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(database, "create", refused)
    with caplog.at_level(logging.WARNING, "hubbub_client"):
        use(world.client())
    (text,) = said(caplog)
    assert text.startswith("nothing is reported because ")
    assert remedy in text


def test_a_file_that_is_full_or_newer_is_said_with_what_to_do(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.client()
    with client._state.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1")
    with caplog.at_level(logging.WARNING, "hubbub_client"):
        use(client)
        assert said(caplog) == ["nothing is reported because the disk is full: make room where state_dir is"]
        client.close()
        caplog.clear()
        connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        use(world.client())
    (text,) = said(caplog)
    assert "written by a newer SDK: update the SDK of this app" in text


def test_a_file_that_is_busy_is_said_with_what_to_do(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.ready()
    client._state._patience = 0.0
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    world.time.now += 90_000  # another day: there is something to write
    with caplog.at_level(logging.WARNING, "hubbub_client"):
        client.flush(0)
        client.flush(0)
    other.close()
    (text,) = said(caplog)
    assert "look for a process that hangs" in text
    assert client.flush(0)
