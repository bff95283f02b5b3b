"""Taking part: consent first, then the coin, and a declared value for silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hubbub.problems import InvalidParameter
from hubbub_client import Client, Outcome
from tests.client.world import ADDRESS, DAY, HOURLY, START, TOML, TRUST, World, period_of, rows, signed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


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

    answer = False
    assert client.record("theme", "dark") is Outcome.DISABLED

    assert rows(world, "reductions") == []
    assert rows(world, "outbox") == []
    assert [row[3] for row in rows(world, "ledger") if row[0] == "theme"] == ["spent"]
    answer = True
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    assert world.transport.reports == []


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


def test_the_share_coin_is_drawn_once_per_metric_and_period_and_survives_restarts(world: World) -> None:
    world.transport.bundle = signed(HOURLY.replace("[metrics.theme]", "[metrics.theme]\nshare = 0.5"))
    hours = [START + hour * 3_600 for hour in range(60)]
    runs: list[list[Outcome]] = []
    for _ in range(3):
        with world.ready() as client:
            outcomes = []
            for world.time.now in hours:
                outcomes.append(client.record("theme", "dark"))
            runs.append(outcomes)
        world.time.now = START

    assert runs[0] == runs[1] == runs[2]
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


def test_missing_is_not_reported_for_periods_before_the_metric_was_known_nor_without_consent(world: World) -> None:
    world.transport.bundle = signed(with_missing(TOML.replace('period = "1d"', 'period = "1d"\ngrace = "3d"')))
    answer = True
    client = world.ready(consent=lambda: answer)
    answer = False
    world.time.now += DAY
    client.flush(0, now=True)
    answer = True
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert world.transport.reports == []  # off, or unknown, on each of the days that have ended

    world.time.now += DAY
    assert client.flush(0, now=True)

    assert [header.period for header, _ in world.opened()] == [period_of(START + 2 * DAY)]
