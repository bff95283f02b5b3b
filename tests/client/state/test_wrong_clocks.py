"""A device whose clock is wrong for a minute: it goes on reporting, loses nothing, and draws nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hubbub_client import Client
from tests.client.world import DAY, START, TOML, World, codebook, opened, period_of, problem, rows, signed

FULL = pytest.mark.full
HOUR = 3_600
OFFSETS = [
    pytest.param(sign * seconds, marks=() if seconds > DAY else FULL)
    for seconds in (8, 2 * HOUR, 5 * DAY, 400 * DAY)
    for sign in (1, -1)
]
NOON = START + DAY // 2 + 1_000
HOURLY = TOML.replace('period = "1d"', 'period = "1h"\ngrace = "1h"')
STEADY = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
"""With a metric that reports each period, recorded or not."""
NAMES = {metric.id: metric.name for text in (TOML, HOURLY, STEADY) for metric in codebook(text).metrics}


def made(world: World, **limits: object) -> Client:
    return world.client(**{"max_epsilon": 8.0, **limits})


def record_and_flush(world: World, client: Client, *, times: int = 3) -> None:
    """For a minute."""
    for _ in range(times):
        client.record("theme", "dark")
        client.flush(0, now=True)
        world.time.sleep(20)


def draws(world: World) -> Counter[tuple[str, int]]:
    """Distinct randomizations by metric and period, in everything that was uploaded."""
    uploaded = [opened(report) for upload in world.uploads() for report in upload]
    distinct = {(NAMES[header.metric], header.period, plaintext.nonce) for header, plaintext in uploaded}
    return Counter((name, period) for name, period, _ in distinct)


def acknowledged(world: World) -> set[tuple[str, int]]:
    return {(NAMES[header.metric], header.period) for header, _ in world.opened()}


def a_minute_of(world: World, client: Client, offset: int, *, restarts: bool, **limits: object) -> Client:
    """The clock is set, and set right again; a restart may come with each."""
    for change in (offset, -offset):
        world.time.now += change
        if restarts:
            client.close()
            client = made(world, **limits)
        record_and_flush(world, client)
    return client


@pytest.mark.parametrize("restarts", [pytest.param(False, marks=FULL), True])
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("toml", [pytest.param(TOML, id="daily"), pytest.param(HOURLY, id="hourly", marks=FULL)])
def test_a_device_goes_on_reporting_when_its_clock_is_right_again(
    toml: str, offset: int, restarts: bool, tmp_path: Path
) -> None:
    """Also what it had recorded before its clock was wrong."""
    length, limits = (DAY, {}) if toml == TOML else (HOUR, {"max_epsilon": None})
    world = World(tmp_path)
    world.transport.bundle, world.time.now = signed(toml), NOON
    client = made(world, **limits)
    assert client.flush(0)
    client.record("startup_ms", 7)
    client = a_minute_of(world, client, offset, restarts=restarts, **limits)
    first = NOON // length
    for later in range(1, 4):
        world.time.now = NOON + later * length
        assert client.flush(0)
        client.record("theme", "dark")
        client.record("startup_ms", 7)
        assert client.flush(0, now=True)
    reported = {("theme", first + later) for later in range(4)} | {("startup_ms", first + later) for later in range(3)}
    assert reported <= acknowledged(world)
    assert set(draws(world).values()) == {1}


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_device_whose_clock_was_wrong_when_it_began_reports_the_period_that_nothing_was_decided_for(
    offset: int, tmp_path: Path
) -> None:
    world = World(tmp_path)
    world.transport.bundle, world.time.now = signed(STEADY), NOON + offset
    client = made(world)
    record_and_flush(world, client)
    world.time.now = NOON
    record_and_flush(world, client)
    assert ("theme", period_of(NOON)) in acknowledged(world)
    for moment in (NOON + HOUR + 100, NOON + DAY, NOON + DAY + HOUR + 100):
        world.time.go_to(moment)
        client.flush(0, now=True)
    assert client.record("theme", "dark") == "recorded"
    assert client.flush(0, now=True)
    assert {("startup_ms", period_of(NOON)), ("theme", period_of(NOON) + 1)} <= acknowledged(world)
    assert set(draws(world).values()) == {1}


def test_two_looks_at_wrong_times_within_a_minute_delete_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transport.bundle, world.time.now = signed(), NOON
    client = made(world)
    assert client.flush(0)
    client.record("startup_ms", 7)
    for offset in (5 * DAY, 5 * DAY + 2 * HOUR, 6 * DAY, 400 * DAY):
        world.time.now = NOON + offset
        client.flush(0, now=True)
        client.close()
        client = made(world)  # in the same run: the machine was not started anew
    world.time.now = NOON + 60
    client.flush(0, now=True)
    for later in (DAY, DAY + 3 * HOUR):
        world.time.go_to(NOON + later)
        client.flush(0, now=True)
    assert ("startup_ms", period_of(NOON)) in acknowledged(world)


def test_what_was_recorded_does_not_decide_when_anything_else_is_deleted(tmp_path: Path) -> None:
    """Twins: one has a value that is over for long when the pins of both get old."""
    old, seen = NOON + 7 * DAY, dict[bool, list[int]]()
    for recorded in (False, True):
        world = World(tmp_path / str(recorded))
        world.time.now = NOON
        client = made(world)
        with client._state.transaction() as connection:
            connection.execute("INSERT INTO pins VALUES (0, ?, x'00', ?, NULL, NULL)", (NOON, NOON))
            if recorded:
                connection.execute("INSERT INTO reductions VALUES ('theme', 1, 'last', '{}', ?, ?)", (NOON, NOON))
        seen[recorded] = []
        for minutes in (-30, 0, 45, 65, 105):
            world.time.go_to(old + 60 * minutes)
            client._cycle._sweep(world.time.now)
            seen[recorded].append(len(rows(world, "pins")))
        client.close()
    assert seen[True] == seen[False] == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("offset", OFFSETS)
def test_no_clock_lets_a_device_report_what_was_before_its_consent(offset: int, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transport.bundle, world.time.now = signed(STEADY.replace('"1d"', '"1d"\ngrace = "10d"')), NOON
    client = made(world)
    assert client.flush(0)
    client = a_minute_of(world, client, offset, restarts=False)
    world.time.now = NOON + DAY
    assert client.flush(0, now=True)
    past = {period for _, period in acknowledged(world) if period < period_of(NOON)}
    assert past <= {period_of(NOON + offset)}  # what was recorded under that clock


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_wish_to_be_left_alone_that_came_under_a_wrong_clock_ends_when_it_should(offset: int, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.transport.bundle, world.time.now = signed(), NOON
    client = made(world)
    assert client.flush(0)
    world.time.now += offset
    world.transport.script.extend([problem("overloaded", retry_after="3600")] * 3)
    record_and_flush(world, client)
    world.transport.script.clear()
    world.time.now = NOON + 60
    client.close()
    client = made(world)
    world.time.sleep(HOUR)  # no longer than it was asked for
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    world.time.now = NOON + 4 * HOUR  # what was recorded two hours ahead is due, too
    assert client.flush(0, now=True)
    assert ("theme", period_of(NOON)) in acknowledged(world)
    assert set(draws(world).values()) == {1}
