"""Confirmation of the clock: when a second look counts, and that a clock which only runs confirms time that passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub_client import Client
from hubbub_client._state import confirm_elapsed
from hubbub_client._state.confirm_elapsed import Look, Moment
from tests.client.world import DAY, START, World, no_network, rows, signed

HOUR = 3_600.0
OVER = START + 3 * DAY
"""What was recorded at the start is over by then."""


def after(*moments: tuple[float, float, str]) -> float | None:
    """What the last of these looks says, which all find the same: until when that is sure."""
    look, over = Look.first(Moment(*moments[0])), None
    for moment in moments[1:]:
        assert over is None, "an earlier look counted"
        look, over = look.then(Moment(*moment))
    return over


def test_an_hour_of_running_lies_between_two_looks_of_one_run() -> None:
    assert after((0, 0, "a"), (HOUR, HOUR, "a")) == 0
    assert after((0, 50, "a"), (9 * DAY, 50 + HOUR - 1, "a")) is None
    assert after((0, 50, "a"), (9 * DAY, 51, "a"), (9 * DAY, 50 + HOUR, "a")) == 0
    assert after((0, 0, "a"), (1, HOUR, "a")) == 0  # a wall clock that was set back, and not behind the first look


def test_a_clock_before_the_first_look_begins_anew() -> None:
    assert after((5 * DAY, 0, "a"), (4 * DAY, HOUR, "a")) is None
    assert after((5 * DAY, 0, "a"), (4 * DAY, HOUR, "a"), (5 * DAY, 2 * HOUR, "a")) == 4 * DAY
    assert after((5 * DAY, 0, "a"), (4 * DAY, 0, "b"), (6 * DAY, 0, "c")) is None


def test_of_runs_that_stand_alone_the_third_counts_if_each_came_an_hour_after_the_last() -> None:
    assert after((0, 9, "a"), (DAY, 5, "b")) is None
    assert after((0, 9, "a"), (DAY, 5, "b"), (2 * DAY, 7, "c")) == 0
    assert after((0, 9, "a"), (60, 5, "b"), (120, 7, "c"), (180, 7, "d"), (240, 7, "e"), (300, 7, "f")) is None
    assert after((0, 9, "a"), (60, 5, "b"), (HOUR, 7, "c"), (HOUR + 60, 7, "d"), (2 * HOUR, 7, "e")) == 0


def test_a_run_counts_once_however_often_it_takes_turns_with_another() -> None:
    assert after((0, 0, "a"), (DAY, 0, "b"), (2 * DAY, 60, "a"), (3 * DAY, 60, "b"), (4 * DAY, 90, "a")) is None
    assert after((0, 0, "a"), (1_800, 0, "b"), (3_000, 3_000, "a"), (3_600, 1_800, "b"), (3_700, 3_700, "a")) == 0


def test_a_clock_that_runs_backwards_is_another_run() -> None:
    assert after((0, 100, "a"), (DAY, 5, "a"), (DAY + HOUR, 5 + HOUR, "a")) == DAY


def test_a_boot_has_one_name_and_a_process_has_one_where_boots_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("9e2c8d2e-0000-4000-8000-000000000000\n")
    named = []
    for there in (True, True, False, False):
        monkeypatch.setattr(confirm_elapsed, "_BOOT", boot if there else tmp_path / "none")
        confirm_elapsed.this_run.cache_clear()
        named.append(confirm_elapsed.this_run())
        assert confirm_elapsed.this_run() == named[-1]
    confirm_elapsed.this_run.cache_clear()
    assert named[0] == named[1] != named[2] != named[3]
    assert "9e2c8d2e" not in named[0]


def recorded(world: World) -> Client:
    world.transport.bundle = signed(lifetime=DAY)
    client = world.ready()
    client.record("startup_ms", 7)
    assert client.flush(0)
    assert rows(world, "reductions")
    return client


def test_an_app_that_runs_for_a_minute_a_day_deletes_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system that has no name for a boot."""
    world = World(tmp_path)
    recorded(world).close()
    world.transport.script.extend([no_network] * 9)
    there = []
    for day in range(4):
        monkeypatch.setattr("hubbub_client._sending.cycle.this_run", lambda day=day: f"run {day}")
        world.time.now, world.time.passed = OVER + day * DAY, 100.0 - day
        client = world.client()
        client.flush(0)
        client.close()
        there.append(bool(rows(world, "reductions")))
    assert there == [True, True, False, False]


@pytest.mark.parametrize("noted", [OVER - 5 * DAY, "[]", "what?"])
def test_a_look_that_an_earlier_version_noted_counts_for_nothing(tmp_path: Path, noted: float | str) -> None:
    world = World(tmp_path)
    client = recorded(world)
    with client._state.transaction() as connection:
        for name in ("late_since", "ahead_since", "look:late"):
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, noted))
    world.transport.script.extend([no_network] * 9)
    world.time.go_to(OVER)
    client.flush(0)
    assert rows(world, "reductions")
    world.time.go_to(OVER + HOUR)
    client.flush(0)
    assert not rows(world, "reductions")
    assert not [name for name, _ in rows(world, "facts") if name in {"late_since", "ahead_since"}]
    client.close()
