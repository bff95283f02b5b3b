"""The device's own limits: per day, for a lifetime, on periods and on codebooks; with clocks that jump."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.period import Calendar
from hubbub_client import Client, Outcome
from hubbub_client._limits import NO_LIMITS, Limits
from hubbub_client._schema import VERSION
from hubbub_client._state import State
from hubbub_client.ledger import Decision, Ledger
from hubbub_client.testing import MemoryTransport
from tests.client.world import ADDRESS, DAY, HOURLY, START, TOML, TRUST, World, period_of, rows, signed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


def a_report(client: Client) -> Outcome:
    outcome = client.record("theme", "dark")
    assert client.flush(0, now=True)
    return outcome


def test_a_device_has_a_limit_unless_the_app_says_otherwise(tmp_path: Path) -> None:
    def client(name: str, **limits: float | None) -> Client:
        arguments = {"trust": TRUST, "consent": True, "background": False, **limits}
        return Client(ADDRESS, state_dir=tmp_path / name, **arguments)  # type: ignore[arg-type]  # as they come

    assert client("default")._limits.max_epsilon == 8
    assert client("default")._limits.min_period == 3_600
    assert client("none", max_epsilon=None)._limits.max_epsilon is None


def test_a_lifetime_limit_ends_reporting_for_good(world: World) -> None:
    client = world.ready(lifetime_epsilon=5)
    outcomes = []
    for _ in range(4):
        outcomes.append(a_report(client))
        world.time.now += DAY
    assert outcomes == [Outcome.RECORDED] * 2 + [Outcome.OVER_BUDGET] * 2
    assert client.record("startup_ms", 3) is Outcome.RECORDED  # one is left, and that is what it costs
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert client.record("startup_ms", 3) is Outcome.OVER_BUDGET
    assert client.ledger().spent == 5.0
    client.close()
    assert world.client(lifetime_epsilon=5).record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_codebook_with_shorter_periods_than_allowed_is_refused_and_counted(world: World) -> None:
    world.transport.bundle = signed(HOURLY)
    client = world.ready(min_period="2h")
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert client.stats()["codebook:short_period"] == 1
    assert world.ready(min_period="1h").record("theme", "dark") is Outcome.RECORDED


def test_only_a_pinned_codebook_is_used(world: World) -> None:
    pin = Codebook.from_toml(TOML).id.hex()
    client = world.ready(pin=pin)
    assert client.record("theme", "dark") is Outcome.RECORDED
    edited = TOML.replace("epsilon = 2", "epsilon = 1.5")
    world.time.now += 3_601
    world.transport.bundle = signed(edited, now=int(world.time.now))

    client.flush(0, now=True)

    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.stats()["codebook:not_pinned"] == 1
    assert client.stats()["lost:unknown-metric"] == 1
    assert world.transport.reports == []
    assert world.ready(pin=[pin, Codebook.from_toml(edited).id.hex()]).record("theme", "dark") is Outcome.RECORDED


def test_when_a_refused_codebook_comes_into_force_nothing_falls_back_to_the_one_before(world: World) -> None:
    client = world.ready(max_epsilon=4)
    assert client.record("startup_ms", 3) is Outcome.RECORDED
    world.time.now += 3_601
    lavish = TOML.replace("epsilon = 2", "epsilon = 4").replace("device_epsilon = 4", "device_epsilon = 9")
    lavish = lavish.replace("epsilon = 1\n", "epsilon = 1.5\n")  # so that what was recorded is of the one before only
    world.transport.bundle = signed(TOML, lavish, now=int(world.time.now), first_periods=[0, period_of(START)])
    assert client.flush(0, now=True)
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert client.stats()["lost:codebook-refused"] == 1
    assert world.transport.reports == []


FIRST_AND_MISSING = TOML.replace("[metrics.theme]", '[metrics.theme]\nmissing = "other"').replace(
    "[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"
)


@pytest.mark.parametrize("max_epsilon", [3, 4, 5, None])
def test_whether_a_first_value_was_recorded_decides_no_refusal(tmp_path: Path, max_epsilon: float | None) -> None:
    """Everything that a declared `missing` stands for is charged at one time, in one order, recorded or not."""
    toml = FIRST_AND_MISSING.replace('period = "1d"', 'period = "1d"\ngrace = "4d"')
    reported = []
    for recorded in ((), ("theme",), ("startup_ms",), ("theme", "startup_ms")):
        world = World(tmp_path / "-".join(["of", *recorded]), transport=MemoryTransport(signed(toml)))
        client = world.ready(max_epsilon=max_epsilon)
        for day in (0, 1, 3):
            world.time.now = START + day * DAY + 5_000
            for name in recorded:
                client.record(name, "dark" if name == "theme" else 3_000)
            client.flush(0, now=True)
        world.time.now = START + 4 * DAY
        assert client.flush(0, now=True)
        reported.append(sorted((header.metric, header.period) for header, _ in world.opened()))
    assert reported == [reported[0]] * 4
    assert reported[0]


# -- clocks that jump ---------------------------------------------------------------------------


def test_a_clock_set_back_does_not_reopen_a_spent_day(world: World) -> None:
    world.transport.bundle = signed(HOURLY)
    client = world.ready(max_epsilon=4)
    for hour in range(3):
        world.time.now = START + hour * 3_600 + 5
        a_report(client)
    assert len(world.transport.reports) == 2
    world.time.now = START + DAY + 5
    a_report(client)
    assert len(world.transport.reports) == 3

    for hour in range(4, 10):  # yesterday again, in hours that nothing was recorded in
        world.time.now = START + hour * 3_600 + 5
        assert client.record("theme", "dark") is Outcome.OVER_BUDGET
        client.flush(0, now=True)
    assert len(world.transport.reports) == 3


def test_a_clock_that_was_years_ahead_once_silences_nothing_but_its_own_days(world: World) -> None:
    """With a bundle that is still valid then: else nothing would be reported anyway."""
    world.transport.bundle = signed(FIRST_AND_MISSING, lifetime=4_000 * DAY)
    client = world.ready(max_epsilon=3)
    client.record("startup_ms", 4)
    world.time.now = START + 3_000 * DAY
    a_report(client)
    client.record("startup_ms", 7)
    client.close()

    world.time.now = START + 5_000
    client = world.client(max_epsilon=3)
    for day in range(1, 6):
        world.time.now = START + day * DAY + 10
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    reported = {header.period - period_of(START) for header, _ in world.opened()}
    assert {1, 2, 3, 4} <= reported
    assert client.stats()["lost:clock"] == 2  # what was recorded in the year 2035


def test_missing_is_reported_though_the_clock_was_ahead_when_the_metric_became_known(world: World) -> None:
    world.transport.bundle = signed(FIRST_AND_MISSING)
    world.time.now = START + 20 * DAY
    world.ready().close()
    world.time.now = START + 5
    client = world.client()
    client.flush(0, now=True)
    world.time.now = START + DAY + 5
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2


# -- a file that does not grow ------------------------------------------------------------------


def spent_for(days: range, state: State, ledger: Ledger, metric: str = "theme") -> None:
    with state.transaction() as connection:
        for day in days:
            assert ledger.spend(connection, metric, Calendar(DAY).period(day), Fraction(1), Fraction(4), day * DAY)


def entries(state: State) -> list[tuple[str, int, int, str]]:
    with state.reading() as connection:
        found = connection.execute("SELECT metric, start, end, decision FROM ledger ORDER BY metric, start")
        return [(metric, start // DAY, end // DAY, decision) for metric, start, end, decision in found]


def test_old_decisions_are_merged_and_still_hold(tmp_path: Path) -> None:
    state, ledger = State(tmp_path), Ledger(Limits(lifetime_epsilon=Fraction(501)))
    spent_for(range(20_000, 20_500), state, ledger)
    with state.transaction() as connection:
        assert ledger.compact(connection, 20_500 * DAY) == 439
        assert ledger.compact(connection, 20_500 * DAY) == 0

    assert len(entries(state)) == 61
    assert entries(state)[0] == ("theme", 20_000, 20_440, "closed")
    with state.reading() as connection:
        for day in (20_000, 20_123, 20_439):
            assert ledger.decision(connection, "theme", Calendar(DAY).period(day)) is Decision.CLOSED
            other = Calendar(DAY).period(day)  # nor has a metric of another name room there: what was spent is merged
            assert not ledger.affords(connection, other, Fraction(1), Fraction(4), 20_500 * DAY)
        assert ledger.decision(connection, "theme", Calendar(DAY).period(20_500)) is None
        assert ledger.decision(connection, "theme", Calendar(DAY).period(19_999)) is None
        assert ledger.has_left(connection, Fraction(1))
        assert not ledger.has_left(connection, Fraction(2))  # five hundred were spent, merged or not
    state.close()


def test_merging_closes_nothing_between_now_and_a_future_that_a_wrong_clock_saw(tmp_path: Path) -> None:
    state, ledger = State(tmp_path), Ledger(NO_LIMITS)
    spent_for(range(20_000, 20_200), state, ledger)
    spent_for(range(25_000, 25_010), state, ledger)
    with state.transaction() as connection:
        assert ledger.compact(connection, 30_000 * DAY) > 0
    assert entries(state) == [("theme", 20_000, 20_200, "closed"), ("theme", 25_000, 25_010, "closed")]
    with state.reading() as connection:
        assert ledger.decision(connection, "theme", Calendar(DAY).period(20_200)) is None
    state.close()


def test_years_of_reports_leave_a_small_file(world: World) -> None:
    world.transport.bundle = signed(lifetime=4_000 * DAY, max_age=4_000 * DAY)
    client = world.ready()
    for day in range(400):
        world.time.now = START + day * DAY + 5
        client.record("theme", "dark")
        world.settle(client)
        if day % 50 == 0:
            assert client.flush(0, now=True)
    assert client.flush(0, now=True)
    assert len(rows(world, "ledger")) < 200
    assert client.ledger().spent == 800.0
    client.close()
    assert (world.directory / "hubbub.sqlite3").stat().st_size < 200_000


VERSION_2 = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE known (metric TEXT PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE reductions (
    id BLOB NOT NULL, period INTEGER NOT NULL, state TEXT NOT NULL, closes_at REAL NOT NULL, PRIMARY KEY (id, period)
) WITHOUT ROWID;
CREATE TABLE ledger (
    metric TEXT NOT NULL, end INTEGER NOT NULL, start INTEGER NOT NULL,
    decision TEXT NOT NULL, epsilon TEXT, day INTEGER, PRIMARY KEY (metric, end, start)
) WITHOUT ROWID;
CREATE INDEX ledger_day ON ledger (day);
CREATE INDEX ledger_end ON ledger (end);
CREATE TABLE outbox (
    nonce BLOB PRIMARY KEY, id BLOB NOT NULL, period INTEGER NOT NULL, payload BLOB NOT NULL,
    due_at REAL NOT NULL, send_at REAL NOT NULL, closes_at REAL NOT NULL, key INTEGER, sealed BLOB
) WITHOUT ROWID;
PRAGMA user_version = 2;
"""


def test_a_file_of_the_version_before_is_brought_up_to_date_with_all_that_it_spent(world: World) -> None:
    world.directory.mkdir()
    metric = Codebook.from_toml(TOML).metric("startup_ms")
    today = START // DAY
    old = sqlite3.connect(world.directory / "hubbub.sqlite3")
    old.executescript(VERSION_2)
    old.execute("INSERT INTO facts VALUES ('enabled_since', ?)", (START - 10.0,))
    old.execute("INSERT INTO ledger VALUES ('theme', ?, ?, 'spent', '2', ?)", (START + DAY, START, today))
    old.execute("INSERT INTO ledger VALUES ('theme', ?, ?, 'spent', '5/2', ?)", (START, START - DAY, today))
    state = '{"count": 1, "value": 9.0}'
    old.execute("INSERT INTO reductions VALUES (?, ?, ?, ?)", (metric.id, today, state, START + 2 * DAY))
    old.commit()
    old.close()

    client = world.ready(max_epsilon=5, lifetime_epsilon=5.5)

    account = client.ledger()
    assert (account.spent, account.spent_today) == (4.5, 4.5)
    assert client.record("theme", "dark") is Outcome.RECORDED  # spent: no effect
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert [header.metric for header, _ in world.opened()] == [metric.id]
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET  # of a lifetime, nothing is left
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


# -- an outbox that does not grow ---------------------------------------------------------------


@pytest.mark.parametrize("limit", [("MOST_REPORTS", 10), ("MOST_BYTES", 10 * 210)])
def test_the_outbox_keeps_the_newest_within_its_limits_and_counts_the_rest(
    world: World, limit: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"hubbub_client.outbox.{limit[0]}", limit[1])
    world.transport.bundle = signed(HOURLY.replace('period = "1h"', 'period = "1h"\ngrace = "40h"'))
    client = world.ready()
    for hour in range(20):
        world.time.now = START + hour * 3_600 + 1
        assert client.record("startup_ms", 3) is Outcome.RECORDED
    world.time.now = START + 20 * 3_600
    counts = world.settle(client)
    kept = sorted(row[2] - 24 * period_of(START) for row in rows(world, "outbox"))
    assert kept == list(range(20 - len(kept), 20))
    assert len(kept) in (9, 10)
    assert counts["dropped:outbox-full"] == 20 - len(kept)
    assert {row[3] for row in rows(world, "ledger")} == {"spent"}
    assert client.flush(0, now=True)
    assert client.stats()["acknowledged"] == len(kept)
