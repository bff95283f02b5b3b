"""The ledger: what is spent stays spent, through edits, restarts and clocks that are set back."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.period import Calendar
from hubbub_client import Outcome
from hubbub_client._budget.device_limits import NO_LIMITS
from hubbub_client._budget.ledger import Decision, Ledger, _write
from hubbub_client._integrity.checksum import renew
from hubbub_client._state.database import NoDurableState, State
from tests.client.world import DAY, HOURLY, START, TOML, World, codebook, period_of, rows, signed


def spends(world: World) -> list[tuple[str, int, str]]:
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    try:
        return connection.execute("SELECT metric, start, epsilon FROM ledger WHERE decision = 'spent'").fetchall()
    finally:
        connection.close()


def charges(world: World) -> Fraction:
    """All that was ever charged to a period, whether it was spent or not."""
    return sum((Fraction(epsilon) for *_, epsilon, _day in rows(world, "ledger") if epsilon), Fraction(0))


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
    world.time.now = START + DAY
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    edited = codebook(TOML.replace('"sepia", ', "")).metric("theme").id
    assert world.opened()[-1][0].metric == edited
    assert [(row[0], row[1]) for row in rows(world, "totals")] == [("startup_ms", "2"), ("theme", "4")]


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


def test_a_value_of_another_period_length_stops_no_report(world: World) -> None:
    """Counted in weeks, the index of an hour is beyond the year 9999."""
    world.transport.bundle = signed(HOURLY)
    client = world.ready()
    client.record("theme", "dark")
    renewed(world, HOURLY.replace('"1h"', '"1w"'))

    assert client.flush(0)
    assert rows(world, "reductions") == []
    world.time.now += 7 * DAY
    renewed(world, HOURLY.replace('"1h"', '"1w"'))
    assert client.flush(0)
    assert client.record("theme", "light") is Outcome.RECORDED
    assert client.flush(0, now=True)

    assert len(spends(world)) == 1


def test_the_device_epsilon_of_a_period_holds_over_renamed_metrics_too(world: World) -> None:
    """Five per period: theme 2 and startup 1 are charged to the day, and a renamed theme to an hour of it. Renamed
    again, in a period that holds them all, it would make seven."""
    toml = TOML.replace("device_epsilon = 4", "device_epsilon = 5")
    world.transport.bundle = signed(toml)
    client = world.ready()
    assert client.record("theme", "dark") is Outcome.RECORDED
    hourly = toml.replace('period = "1d"', 'period = "1h"\ngrace = "10m"')
    renewed(world, hourly.replace("metrics.theme", "metrics.look"))
    assert client.flush(0)
    assert client.record("look", "dark") is Outcome.RECORDED
    assert client.record("startup_ms", 3) is Outcome.OVER_BUDGET  # its day is charged
    assert client.flush(0)
    assert charges(world) == 5
    renewed(world, hourly.replace('"1h"', '"4h"').replace("metrics.theme", "metrics.style"))
    assert client.flush(0)

    assert client.record("style", "dark") is Outcome.OVER_BUDGET

    assert charges(world) == 5


def test_an_edit_inside_a_period_waits_for_the_next_and_opens_no_second_account_in_this_one(world: World) -> None:
    client = world.ready()
    renewed(world, TOML.replace("metrics.theme", "metrics.look"))
    assert client.flush(0)

    assert client.record("look", "dark") is Outcome.INVALID
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert charges(world) == 3

    world.time.now = START + DAY
    assert client.flush(0)
    assert client.record("look", "dark") is Outcome.RECORDED
    assert client.record("theme", "dark") is Outcome.INVALID
    assert charges(world) == 6


def test_max_epsilon_holds_per_utc_day_over_metrics_and_periods(world: World) -> None:
    """Three for each hour, whatever is recorded in it."""
    world.transport.bundle = signed(HOURLY)
    client = world.ready(max_epsilon=9)
    outcomes = []
    for hour in range(5):
        assert client.flush(0)
        outcomes.append(client.record("theme", "dark") if hour != 1 else None)
        world.time.now += 3_600

    assert outcomes == [Outcome.RECORDED, None, Outcome.RECORDED, Outcome.OVER_BUDGET, Outcome.OVER_BUDGET]
    assert charges(world) == 9
    world.time.now = START + DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED


def test_a_refusal_over_budget_is_final_for_its_period(world: World) -> None:
    """Else `missing` would speak for a value that was refused, or a later try would depend on luck with the clock."""
    world.transport.bundle = signed(TOML.replace('period = "1d"', 'period = "1w"'), first_periods=[0])
    world.time.now += 2 * DAY  # inside a week that goes on tomorrow
    client = world.client(max_epsilon=4)
    with client._state.transaction() as connection:  # an earlier codebook has spent today's budget
        connection.execute("INSERT INTO days VALUES (?, '4')", (int(world.time.now // DAY),))
        renew(connection, "days")
    for _ in range(3):
        assert client.flush(0)
        assert client.record("theme", "dark") is Outcome.OVER_BUDGET
        world.time.now += DAY
    assert charges(world) == 0


def test_a_codebook_that_spends_more_than_the_device_allows_is_refused_and_counted(world: World) -> None:
    client = world.ready(max_epsilon=2.9)

    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert client.record("startup_ms", 3) is Outcome.OVER_BUDGET

    assert client.stats()["codebook:over_budget"] == 1
    assert rows(world, "ledger") == rows(world, "pins") == []


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
    for later in (3 * DAY, 3_600):  # on the second look
        world.time.go_to(world.time.now + later)
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


@pytest.mark.parametrize("first", [True, False])
def test_no_decision_is_taken_and_no_charge_used_twice(tmp_path: Path, first: bool) -> None:
    """Whatever the coin says the second time."""
    state, ledger, period = State(tmp_path), Ledger(NO_LIMITS), Calendar(DAY).at(START)
    decided = Decision.CHARGED if first else Decision.OUT_OF_SHARE

    def decide(connection: sqlite3.Connection, *, in_share: bool) -> Decision:
        return ledger.decide(connection, "theme", period, Fraction(1), Fraction(4), START, in_share=in_share)

    with state.transaction() as connection:
        assert [decide(connection, in_share=coin) for coin in (first, not first, first)] == [decided] * 3
        assert [ledger.spend(connection, "theme", period) for _ in range(3)] == [first, False, False]
        spent = Decision.SPENT if first else Decision.OUT_OF_SHARE
        assert [decide(connection, in_share=coin) for coin in (True, False)] == [spent] * 2
        totals = connection.execute("SELECT * FROM totals").fetchall()
        assert totals == ([("theme", "1", 1)] if first else [])
    state.close()


def test_a_second_entry_for_a_period_is_an_error_even_of_code_that_forgot_to_look(tmp_path: Path) -> None:
    state, ledger, period = State(tmp_path), Ledger(NO_LIMITS), Calendar(DAY).at(START)
    with state.transaction() as connection:
        ledger.decide(connection, "theme", period, Fraction(1), Fraction(4), START, in_share=True)
    with pytest.raises(NoDurableState), state.transaction() as connection:
        _write(connection, "theme", period, Decision.CHARGED, "1", START // DAY)
    state.close()
