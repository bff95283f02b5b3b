"""Rows outside the account that a disk has torn: they cost what they held, and nothing else depends on them."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest

from hubbub_client import Client
from tests.client.world import DAY, START, TOML, World, codebook, period_of, signed

STEADY = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
NAMES = {metric.id: metric.name for metric in codebook(STEADY).metrics}
TODAY = period_of(START)


def tear(world: World, table: str) -> None:
    """Make zeros of the sector that holds the oldest rows of a table. No client has the file open."""
    file = world.directory / "hubbub.sqlite3"
    connection = sqlite3.connect(file)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek(page * size - 512)
        opened.write(bytes(512))


def a_pass(world: World, day: int) -> Client:
    world.time.go_to(START + day * DAY + 50_000)
    world.transport.bundle = signed(STEADY, now=START + day * DAY)
    client = world.client()
    for _ in range(2):  # the first one may be the one that notices
        client.flush(0, now=True)
        client.record("theme", "dark")
        client.flush(0, now=True)
    client.close()
    return client


def torn(world: World, table: str, *, recorded: bool) -> Client:
    """The last client of a device whose table was torn on its first day, after four more days."""
    world.transport.bundle = signed(STEADY)
    with world.ready() as client:
        if recorded:
            client.record("theme", "dark")
            client.record("startup_ms", 5)
            if table == "outbox":
                client.flush(0)
    tear(world, table)
    clients = [a_pass(world, day) for day in range(5)]
    return clients[0]


def periods_of(world: World, name: str) -> list[int]:
    return sorted(header.period - TODAY for header, _ in world.opened() if NAMES[header.metric] == name)


@pytest.mark.parametrize(("table", "counted"), [("outbox", "dropped:damaged"), ("reductions", "lost:damaged")])
def test_a_torn_row_of_what_was_recorded_silences_no_other_metric_and_is_said_once(
    tmp_path: Path, table: str, counted: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = World(tmp_path / "recorded"), World(tmp_path / "nothing")
    with caplog.at_level(logging.WARNING, "hubbub_client"):
        client = torn(one, table, recorded=True)
    said = [record.message for record in caplog.records if "rows of the state file were damaged" in record.message]
    assert len(said) == 1
    assert client.stats()[counted] > 0
    torn(other, table, recorded=False)
    for world in (one, other):
        assert periods_of(world, "startup_ms") == [0, 1, 2, 3]
        assert periods_of(world, "theme")[-4:] == [1, 2, 3, 4]


def test_a_torn_pin_is_damage_whatever_was_recorded(tmp_path: Path) -> None:
    for recorded in (True, False):
        world = World(tmp_path / str(recorded))
        client = torn(world, "pins", recorded=recorded)
        assert client.stats()["state:quarantined"] == 1
        assert periods_of(world, "startup_ms") == [1, 2, 3]


def test_a_torn_row_that_cannot_be_deleted_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub_client._sending.cycle.delete_torn", lambda *_: None)
    world = World(tmp_path / "state")
    torn(world, "outbox", recorded=True)
    assert periods_of(world, "startup_ms") == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["fetched_at", "bundle", "occasional:failures"])
def test_a_fact_without_a_value_silences_nobody_for_good(tmp_path: Path, name: str) -> None:
    world = World(tmp_path / "state")
    a_pass(world, 0)
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, NULL)", (name,))
    connection.commit()
    connection.close()
    for day in (0, 1, 2):
        a_pass(world, day)
    assert periods_of(world, "theme") == [0, 1, 2]
