"""The ledger: what is spent stays spent, whatever is edited, restarted or set back."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.period import Calendar
from hubbub_client import Outcome
from hubbub_client._limits import NO_LIMITS
from hubbub_client._state import State
from hubbub_client.ledger import Decision, Ledger
from tests.client.world import DAY, HOURLY, START, TOML, World, period_of, rows, signed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


def spends(world: World) -> list[tuple[str, int, str]]:
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    try:
        return connection.execute("SELECT metric, start, epsilon FROM ledger WHERE decision = 'spent'").fetchall()
    finally:
        connection.close()


def renewed(world: World, toml: str) -> None:
    """The aggregator publishes an edit, and the device's copy goes stale."""
    world.time.now += 3_601
    world.transport.bundle = signed(toml, now=int(world.time.now))


def test_an_edited_metric_has_a_new_id_and_no_new_budget(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    renewed(world, TOML.replace('"sepia", ', ""))
    assert client.flush(0, now=True)

    client.record("theme", "dark")
    assert client.flush(0, now=True)

    assert [name for name, _, _ in spends(world)] == ["theme"]
    assert len({plaintext.nonce for _, plaintext in world.opened()}) <= 1


def test_another_period_length_does_not_reopen_the_time_that_was_spent(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    renewed(world, HOURLY)
    assert client.flush(0)

    for _ in range(5):
        client.record("theme", "dark")
        assert client.flush(0)
        world.time.now += 3_600

    assert len(spends(world)) == 1


def test_the_device_epsilon_of_a_period_holds_over_renamed_metrics_too(world: World) -> None:
    """Four per period: theme 2 and startup 1 are spent, a renamed theme would make five."""
    client = world.ready()
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.flush(0)
    renewed(world, TOML.replace("metrics.theme", "metrics.look"))
    assert client.flush(0)
    assert client.record("look", "dark") is Outcome.RECORDED
    assert client.flush(0)
    renewed(world, TOML.replace("metrics.theme", "metrics.style"))
    assert client.flush(0)

    assert client.record("style", "dark") is Outcome.OVER_BUDGET

    assert sum(Fraction(epsilon) for _, _, epsilon in spends(world)) == 4


def test_max_epsilon_holds_per_utc_day_over_metrics_and_periods(world: World) -> None:
    world.transport.bundle = signed(HOURLY)
    client = world.ready(max_epsilon=6)
    outcomes = []
    for _ in range(5):
        outcomes.append(client.record("theme", "dark"))
        client.flush(0)
        world.time.now += 3_600

    assert outcomes == [Outcome.RECORDED] * 3 + [Outcome.OVER_BUDGET] * 2
    world.time.now = START + DAY
    assert client.record("theme", "dark") is Outcome.RECORDED


def test_a_refusal_over_budget_is_final_for_its_period(world: World) -> None:
    """Else `missing` would speak for a value that was refused, or a later try would depend on luck with the clock."""
    world.transport.bundle = signed(TOML.replace('period = "1d"', 'period = "1w"'), first_periods=[0])
    world.time.now += 2 * DAY  # inside a week that goes on tomorrow
    client = world.ready(max_epsilon=4)
    with client._state.transaction() as connection:  # an earlier codebook has spent today's budget
        connection.execute("INSERT INTO days VALUES (?, '4')", (int(world.time.now // DAY),))
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    world.time.now += DAY
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_codebook_that_spends_more_than_the_device_allows_is_refused_and_counted(world: World) -> None:
    client = world.ready(max_epsilon=2.9)

    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert client.record("startup_ms", 3) is Outcome.OVER_BUDGET

    assert client.stats()["codebook:over_budget"] == 1
    assert spends(world) == []


def test_a_decimal_limit_means_what_is_written(world: World) -> None:
    """Three tenths of three metrics of a tenth each; the float 0.3 is a little less."""
    world.transport.bundle = signed(
        TOML.replace("epsilon = 2", "epsilon = 0.2").replace("epsilon = 1\n", "epsilon = 0.1\n")
    )
    assert world.ready(max_epsilon=0.3).record("theme", "dark") is Outcome.RECORDED


def test_a_clock_set_back_does_not_reopen_a_spent_period(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.record("startup_ms", 9)
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2

    world.time.now = START + 2_000
    assert client.record("theme", "light") is Outcome.RECORDED  # taken, and without effect
    assert client.record("startup_ms", 9) is Outcome.OVER_BUDGET
    world.time.now += DAY
    client.record("theme", "light")
    assert client.flush(0, now=True)

    periods = [(header.metric, header.period) for header, _ in world.opened()]
    assert len(periods) == len(set(periods)) == 3


def test_a_dropped_report_refunds_nothing(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    world.time.now += 3 * DAY
    assert client.flush(0, now=True)
    assert client.stats()["dropped:period-closed"] == 1
    assert [name for name, start, _ in spends(world) if start == period_of(START) * DAY] == ["theme"]


def test_a_lost_outbox_refunds_nothing(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    assert len(rows(world, "outbox")) == 1
    with client._state.transaction() as connection:
        connection.execute("DELETE FROM outbox")
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    assert world.transport.reports == []


def test_no_final_decision_is_taken_twice(tmp_path: Path) -> None:
    """Even by code that forgot to look first."""
    state, ledger, period = State(tmp_path), Ledger(NO_LIMITS), Calendar(DAY).at(START)
    with state.transaction() as connection:
        assert ledger.spend(connection, "theme", period, Fraction(1), Fraction(4), START)
    with pytest.raises(RuntimeError), state.transaction() as connection:
        ledger.spend(connection, "theme", period, Fraction(1), Fraction(4), START)
    with state.reading() as connection:
        assert ledger.decision(connection, "theme", period) is Decision.SPENT
    state.close()
