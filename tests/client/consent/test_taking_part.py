"""Taking part: consent first, then the coin, and a declared value for silence."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hubbub.errors import InvalidParameter
from hubbub_client import Client, Outcome
from hubbub_client._http.transport import Answer
from hubbub_client.testing import MemoryTransport, Request
from tests.client.world import (
    ADDRESS,
    DAY,
    HOURLY,
    START,
    TOML,
    TRUST,
    World,
    no_network,
    period_of,
    problem,
    reduced,
    rows,
    signed,
)


def test_without_consent_nothing_is_kept_nor_sent_nor_even_a_file_made(world: World) -> None:
    client = world.client(consent=False)
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.flush(0, now=True) is False
    assert world.transport.requests == []
    assert not world.directory.exists()


@pytest.mark.parametrize("variable", ["DO_NOT_TRACK", "HUBBUB_DISABLED"])
def test_the_environment_wins_over_consent(world: World, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    assert world.client(consent=True).record("theme", "dark") is Outcome.DISABLED
    monkeypatch.setenv(variable, "0")
    assert world.client(consent=True).record("theme", "dark") is Outcome.WAITING


def test_consent_withdrawn_deletes_values_and_unsent_reports_but_no_spend(world: World) -> None:
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("theme", "dark")
    client.record("startup_ms", 7)
    assert client.flush(0)
    assert [len(rows(world, table)) for table in ("reductions", "outbox")] == [1, 1]

    answer = False
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert [len(rows(world, table)) for table in ("reductions", "outbox")] == [1, 1]  # a record acts on nothing
    account = rows(world, "ledger"), rows(world, "days"), rows(world, "totals"), rows(world, "pins")
    assert not client.flush(0)

    assert rows(world, "reductions") == []
    assert rows(world, "outbox") == []
    assert (rows(world, "ledger"), rows(world, "days"), rows(world, "totals"), rows(world, "pins")) == account
    assert [row[3] for row in rows(world, "ledger") if row[0] == "theme"] == ["spent"]
    answer = True
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    assert world.transport.reports == []


def test_close_acts_on_a_withdrawal_that_no_pass_has_noticed(world: World) -> None:
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("theme", "dark")
    client.record("startup_ms", 7)
    answer = False
    client.close()
    assert rows(world, "reductions") == rows(world, "outbox") == []


def on_disk(world: World) -> dict[str, bytes]:
    """Everything but the locks."""
    found = world.directory.iterdir() if world.directory.exists() else ()
    return {path.name: path.read_bytes() for path in found if not path.name.endswith("-shm")}


@pytest.mark.parametrize("before", ["never", "again"])
def test_consent_that_no_pass_has_noticed_yet_lets_values_wait_in_memory(world: World, before: str) -> None:
    """Nothing reaches the disk on the word of a `record`; and nothing that was recorded with consent is lost."""
    answer = before == "again"
    client = world.client(consent=lambda: answer)
    if before == "again":
        assert client.flush(0)
        answer = False
    assert not client.flush(0)
    answer = True
    before_it = on_disk(world)

    assert client.record("startup_ms", 7) is Outcome.WAITING

    assert on_disk(world) == before_it
    assert client.flush(0)
    assert reduced(world) == [{"count": 1, "value": 7.0}]


def test_a_withdrawal_that_could_not_be_written_comes_before_anything_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub_client._state.database._BUSY_SECONDS", 0.05)
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("theme", "dark")
    client.record("startup_ms", 7)
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    answer = False
    assert client.record("startup_ms", 7) is Outcome.DISABLED
    assert not client.flush(0)
    answer = True
    assert client.record("startup_ms", 8) is Outcome.RECORDED  # in memory: with consent, and nobody waits
    assert len(rows(world, "reductions")) == 2
    other.execute("ROLLBACK")
    other.close()

    assert client.flush(0, now=True)
    assert rows(world, "outbox") == world.uploads() == []
    assert reduced(world) == [{"count": 1, "value": 8.0}]


def test_consent_withdrawn_while_the_bundle_is_on_its_way_ends_the_flush(world: World) -> None:
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("startup_ms", 7)
    client.record("theme", "dark")
    world.time.now += DAY

    def withdrawn(request: Request) -> Answer:
        nonlocal answer
        answer = False
        return world.transport.accept(request)

    world.transport.script.append(withdrawn)
    assert not client.flush(0, now=True)

    assert world.uploads() == []
    assert rows(world, "reductions") == rows(world, "outbox") == []
    assert [row[3] for row in rows(world, "ledger") if row[0] == "startup_ms"] == ["charged"]  # nothing was drawn
    assert {row[2] for row in rows(world, "totals")} == {0}


@pytest.mark.parametrize("most", [1, 1_000])
def test_consent_withdrawn_between_two_requests_holds_back_the_second(
    world: World, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there are two because of our limit or because the shuffler asked for smaller ones."""
    monkeypatch.setattr("hubbub_client._sending.seal_and_send.MOST_REPORTS", most)
    answer = True
    client = world.ready(consent=lambda: answer)
    client.record("startup_ms", 7)
    world.time.now += DAY
    client.record("theme", "dark")

    def withdrawn(request: Request) -> Answer:
        nonlocal answer
        answer = False
        return world.transport.accept(request) if most == 1 else problem("too-large")(request)

    world.transport.script.extend([world.transport.accept, withdrawn])
    assert not client.flush(0, now=True)

    assert len(world.uploads()) == 1
    assert rows(world, "outbox") == []


def test_consent_withdrawn_while_early_values_are_recorded_stops_at_the_next(world: World) -> None:
    answer = True

    def until_the_first_is_on_disk() -> bool:
        nonlocal answer
        answer = answer and not (world.directory.exists() and rows(world, "reductions"))
        return answer

    client = world.client(consent=until_the_first_is_on_disk)
    for value in range(5):
        client.record("startup_ms", value)

    client.flush(0)

    assert client.stats()["late:recorded"] == 1
    assert rows(world, "reductions") == []


@pytest.mark.parametrize("still", [True, False])
def test_a_value_on_its_way_to_the_disk_does_not_get_there_after_a_withdrawal(world: World, still: bool) -> None:
    """Another process hears of it between the question and the write. The next pass asks anew: then the value is
    written with the answer, or forgotten."""
    race, given = False, True

    def answer() -> bool:
        nonlocal race
        if race:
            race = False
            world.client(consent=False).close()
        return given

    client = world.ready(consent=answer)
    race = True
    assert client.record("startup_ms", 7) is Outcome.WAITING
    assert rows(world, "reductions") == []
    given = still
    assert client.flush(0) is still
    assert len(client._intake.queue) == 0
    assert reduced(world) == ([{"count": 1, "value": 7.0}] if still else [])
    assert client.record("startup_ms", 7) is (Outcome.RECORDED if still else Outcome.DISABLED)


def test_a_value_on_its_way_into_memory_does_not_stay_there_after_a_withdrawal(world: World) -> None:
    answers = [True, True, False]  # when the client is made, before the value is kept, and after
    client = world.client(consent=lambda: answers.pop(0) if answers else True)
    assert client.record("startup_ms", 7) is Outcome.DISABLED
    assert client.flush(0)
    assert rows(world, "reductions") == []


def test_a_consent_function_that_fails_or_is_vague_has_not_said_yes(world: World) -> None:
    def failing() -> bool:
        raise RuntimeError("settings are gone")

    assert world.client(consent=failing).record("theme", "dark") is Outcome.DISABLED
    assert world.client(consent=lambda: "yes").record("theme", "dark") is Outcome.DISABLED


@pytest.mark.parametrize(
    "wrong",
    [
        {"consent": None},
        {"consent": "yes"},
        {"trust": "ed25519:short"},
        {"trust": None},
        {"trust": []},
        {"max_epsilon": 0},
        {"max_epsilon": float("nan")},
        {"max_epsilon": "4"},
        {"max_epsilon": True},
        {"lifetime_epsilon": 0},
        {"min_period": "1 hour"},
        {"min_period": 3600},
        {"pin": "theme"},
        {"pin": ["00"]},
    ],
)
def test_a_client_that_cannot_be_right_is_refused_when_it_is_made(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        world.client(**wrong)


@pytest.mark.parametrize("address", ["telemetry.example.com", "ftp://a", "http://", "http://a:x", "http://a/?b"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidParameter):
        Client(address, trust=TRUST, consent=True, state_dir=tmp_path)


def test_consent_has_no_default() -> None:
    with pytest.raises(TypeError, match="consent"):
        Client(ADDRESS, trust=TRUST, state_dir=Path())  # type: ignore[call-arg]  # what this test is about


# -- share and missing --------------------------------------------------------------------------


def test_the_share_coin_is_drawn_once_per_metric_and_period_by_a_pass_and_survives_restarts(world: World) -> None:
    world.transport.bundle = signed(HOURLY.replace("[metrics.theme]", "[metrics.theme]\nshare = 0.5"))
    hours = [START + hour * 3_600 for hour in range(1, 61)]
    runs: list[list[Outcome]] = []
    for _ in range(3):
        with world.ready() as client:
            outcomes = []
            for world.time.now in hours:
                assert runs or client.record("theme", "dark") is Outcome.RECORDED  # nobody knows yet
                world.settle(client)
                outcomes.append(client.record("theme", "dark"))
            runs.append(outcomes)
        world.time.now = START

    assert runs[0] == runs[1] == runs[2]
    decided = [row[3] for row in rows(world, "ledger") if row[0] == "theme" and row[2] in hours]
    assert [decision == "out of share" for decision in decided] == [
        outcome is Outcome.NOT_IN_SHARE for outcome in runs[0]
    ]
    taking_part = runs[0].count(Outcome.RECORDED)
    assert taking_part + runs[0].count(Outcome.NOT_IN_SHARE) == 60
    assert 10 <= taking_part <= 50  # outside by chance less than once in ten million runs


def with_missing(toml: str = TOML) -> str:
    return toml.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")


def test_a_period_without_a_value_reports_the_declared_missing_one_once(world: World) -> None:
    world.transport.bundle = signed(with_missing())
    client = world.ready()
    world.time.now += DAY

    assert client.flush(0, now=True)
    assert client.flush(0, now=True)

    assert [header.period for header, _ in world.opened()] == [period_of(START)]


def test_a_recorded_value_is_reported_and_not_missing_too(world: World) -> None:
    world.transport.bundle = signed(with_missing())
    client = world.ready()
    client.record("startup_ms", 4000)
    world.time.now += DAY

    assert client.flush(0, now=True)

    assert len(world.transport.reports) == 1


def test_missing_is_not_reported_for_periods_that_ended_without_consent_or_before_it(world: World) -> None:
    world.transport.bundle = signed(with_missing(TOML.replace('period = "1d"', 'period = "1d"\ngrace = "3d"')))
    answer = True
    client = world.ready(consent=lambda: answer)
    answer = False
    world.time.now += DAY
    client.flush(0, now=True)
    answer = True
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert world.transport.reports == []  # consent came after each of the days that have ended

    world.time.now += DAY
    assert client.flush(0, now=True)

    assert [header.period for header, _ in world.opened()] == [period_of(START + 2 * DAY)]


@pytest.mark.parametrize("recorded", [True, False])
def test_with_a_declared_missing_nothing_leaves_before_the_period_ends(world: World, recorded: bool) -> None:
    """Not even in a hurry: or the time of sending would tell who recorded something."""
    world.transport.bundle = signed(TOML.replace("[metrics.theme]", '[metrics.theme]\nmissing = "other"'))
    client = world.ready()
    if recorded:
        assert client.record("theme", "dark") is Outcome.RECORDED

    world.time.now = START + DAY - 1
    assert client.flush(0, now=True)
    assert world.transport.reports == []

    world.time.now = START + DAY
    world.transport.script.append(no_network)
    assert not client.flush(0, now=True)
    ((*_, send_at, _closes_at, _key, _sealed),) = rows(world, "outbox")
    assert START + DAY <= send_at <= START + DAY + DAY / 2
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


@pytest.mark.parametrize("max_epsilon", [None, 18])
def test_which_periods_are_reported_does_not_depend_on_what_was_recorded(
    tmp_path: Path, max_epsilon: float | None
) -> None:
    """A device that was off for 70 hours and catches up, with and without a budget that ends on the way."""
    toml = with_missing(HOURLY.replace('period = "1h"', 'period = "1h"\ngrace = "100h"'))
    reported = []
    for name, hours in {"none": [], "all": range(70), "old": range(10), "some": range(0, 70, 7)}.items():
        world = World(tmp_path / name, transport=MemoryTransport(signed(toml)))
        client = world.ready(max_epsilon=max_epsilon)
        for hour in hours:
            world.time.now = START + hour * 3_600 + 1_001
            assert client.record("startup_ms", 4_000) is Outcome.RECORDED
        world.time.now = START + 70 * 3_600
        assert client.flush(0, now=True)
        reported.append(sorted(header.period for header, _ in world.opened()))
        assert rows(world, "reductions") == []

    assert reported == [reported[0]] * 4
    # The first hour, which was pinned before; and of the others so many, or those for which three were left each.
    assert len(reported[0]) == (1 + 64 if max_epsilon is None else 1 + 5)


def test_a_start_on_a_full_disk_asks_for_the_same_whatever_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is too late by now is to be deleted, and that cannot be written."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    asked: list[list[str]] = []
    for recorded in (True, False):
        world = World(tmp_path / str(recorded))
        with world.ready() as client:
            if recorded:
                assert client.record("startup_ms", 3) is Outcome.RECORDED
        world.time.go_to(START + 3 * DAY)
        world.transport.requests.clear()
        with monkeypatch.context() as now:
            now.setattr("hubbub_client._state.confirm_elapsed.write", full)
            with world.client() as client:
                client.flush(0, now=True)
                assert ("error:NoDurableState" in client.stats()) is recorded
        asked.append([request.method for request in world.transport.requests])
    assert asked[0] == asked[1] == ["GET"]
