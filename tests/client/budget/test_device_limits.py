"""The device's own limits: per day, for a lifetime, on periods and on codebooks; with clocks that jump."""

from __future__ import annotations

import sqlite3
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.period import Calendar
from hubbub.randomness import SystemRandomness
from hubbub.sealing import Sealer
from hubbub.wire import ReportHeader
from hubbub_client import Client, Outcome
from hubbub_client._budget.device_limits import NO_LIMITS, Limits
from hubbub_client._budget.ledger import Decision, Ledger
from hubbub_client._randomizing.draw import draw
from hubbub_client._sending.seal_and_send import seal
from hubbub_client._state.database import State
from hubbub_client._state.schema import VERSION
from hubbub_client.testing import MemoryTransport
from tests.client.world import ADDRESS, DAY, HOURLY, START, TOML, TRUST, World, period_of, rows, sealing_key, signed


def a_report(client: Client) -> Outcome:
    """Of a period that a pass has pinned."""
    assert client.flush(0, now=True)
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
    client = world.ready(lifetime_epsilon=7)
    outcomes = []
    for _ in range(5):
        outcomes.append((a_report(client), client.record("startup_ms", 3)))
        world.time.now += DAY
    assert outcomes == [
        (Outcome.RECORDED, Outcome.RECORDED),
        (Outcome.RECORDED, Outcome.RECORDED),
        (Outcome.OVER_BUDGET, Outcome.RECORDED),  # one is left, and that is what it costs
        (Outcome.OVER_BUDGET, Outcome.OVER_BUDGET),
        (Outcome.OVER_BUDGET, Outcome.OVER_BUDGET),
    ]
    assert client.flush(0, now=True)
    assert client.ledger().spent == 7.0
    assert len(world.transport.reports) == 5
    client.close()
    client = world.client(lifetime_epsilon=7)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert a_report(client) is Outcome.OVER_BUDGET


def test_a_codebook_with_shorter_periods_than_allowed_is_refused_and_counted(world: World) -> None:
    world.transport.bundle = signed(HOURLY)
    client = world.ready(min_period="2h")
    assert client.record("theme", "dark") is Outcome.SHORT_PERIOD
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

    assert client.record("theme", "dark") is Outcome.RECORDED  # a period keeps its page, and gets no report of another
    assert client.stats()["codebook:not_pinned"] == 1
    assert client.stats()["dropped:unknown-metric"] == 1
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert client.record("theme", "dark") is Outcome.NOT_PINNED
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert world.transport.reports == []
    assert {row[2] for row in rows(world, "pins")} == {Codebook.from_toml(TOML).id}
    assert world.ready(pin=[pin, Codebook.from_toml(edited).id.hex()]).record("theme", "dark") is Outcome.RECORDED


def test_when_a_refused_codebook_comes_into_force_nothing_falls_back_to_the_one_before(world: World) -> None:
    client = world.ready(max_epsilon=4)
    assert client.record("startup_ms", 3) is Outcome.RECORDED
    world.time.now = START + DAY
    assert client.record("startup_ms", 4) is Outcome.RECORDED  # by the one before: no other is known yet
    lavish = TOML.replace("epsilon = 2", "epsilon = 4").replace("device_epsilon = 4", "device_epsilon = 9")
    world.transport.bundle = signed(TOML, lavish, now=int(world.time.now), first_periods=[0, period_of(START) + 1])
    assert client.flush(0, now=True)
    assert client.record("startup_ms", 5) is client.record("theme", "dark") is Outcome.OVER_BUDGET
    for moment in (START + 2 * DAY, START + 3 * DAY, START + 3 * DAY + 3_600):
        world.time.go_to(moment)
        assert client.flush(0, now=True)
    assert rows(world, "reductions") == []
    assert sum(count for name, count in client.stats().items() if name.startswith("lost:")) == 1
    assert [header.period for header, _ in world.opened()] == [period_of(START)]
    assert {row[2] for row in rows(world, "ledger")} == {START}


def test_a_codebook_that_is_refused_later_keeps_its_period_and_is_not_reported_by(world: World) -> None:
    """An app that lowers its limits: no other page takes the place of the pinned one, and nothing more is spent."""
    with world.ready(max_epsilon=4) as client:
        assert client.record("startup_ms", 3) is Outcome.RECORDED
    pinned = rows(world, "pins")
    client = world.ready(max_epsilon=2)
    assert client.record("startup_ms", 3) is client.record("theme", "dark") is Outcome.OVER_BUDGET
    thrifty = TOML.replace("epsilon = 2", "epsilon = 1")
    world.time.now = START + DAY
    world.transport.bundle = signed(thrifty, now=int(world.time.now))
    assert client.flush(0, now=True)
    assert client.stats()["lost:codebook-refused"] == 1
    assert rows(world, "outbox") == world.uploads() == []
    assert rows(world, "pins")[:1] == pinned
    assert client.record("theme", "dark") is Outcome.RECORDED  # a new day, and a codebook that is allowed


FIRST_AND_MISSING = TOML.replace("[metrics.theme]", '[metrics.theme]\nmissing = "other"').replace(
    "[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"
)


@pytest.mark.everyday("None", "4")
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
    client = world.ready(max_epsilon=6)  # three for each hour
    for hour in range(3):
        world.time.now = START + hour * 3_600 + 5
        a_report(client)
    assert len(world.transport.reports) == 2
    world.time.now = START + DAY + 5
    a_report(client)
    assert len(world.transport.reports) == 3

    for hour in range(4, 10):  # yesterday again, in hours that nothing was recorded in
        world.time.now = START + hour * 3_600 + 5
        assert a_report(client) is Outcome.OVER_BUDGET
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
        world.time.go_to(START + day * DAY + 10)
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    reported = {header.period - period_of(START) for header, _ in world.opened()}
    assert {1, 2, 3, 4} <= reported
    assert client.stats()["lost:clock"] == 2  # what was recorded in the year 2035


def test_missing_is_reported_though_the_clock_was_ahead_when_the_client_began(world: World) -> None:
    world.transport.bundle = signed(FIRST_AND_MISSING)
    world.time.now = START + 20 * DAY
    world.ready().close()
    world.time.now = START + 5
    client = world.client()
    client.flush(0, now=True)
    world.time.go_to(START + DAY + 5)
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2


# -- a file that does not grow ------------------------------------------------------------------


def decided(
    connection: sqlite3.Connection, ledger: Ledger, metric: str, day: int, epsilon: int = 1, today: int | None = None
) -> Decision:
    now = DAY * (day if today is None else today)
    period = Calendar(DAY).period(day)
    return ledger.decide(connection, metric, period, Fraction(epsilon), Fraction(4), now, in_share=True)


def spent_for(days: range, state: State, ledger: Ledger, metric: str = "theme") -> None:
    with state.transaction() as connection:
        for day in days:
            assert decided(connection, ledger, metric, day) is Decision.CHARGED
            assert ledger.spend(connection, metric, Calendar(DAY).period(day))


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
    with state.transaction() as connection:
        for day in (20_000, 20_123, 20_439):
            assert decided(connection, ledger, "theme", day, today=20_500) is Decision.CLOSED
            # nor has a metric of another name room there: what was spent is merged
            assert decided(connection, ledger, "look", day, today=20_500) is Decision.REFUSED
        assert ledger.decision(connection, "theme", Calendar(DAY).period(20_500)) is None
        assert ledger.decision(connection, "theme", Calendar(DAY).period(19_999)) is None
        # five hundred were spent, merged or not
        assert decided(connection, ledger, "theme", 20_500, epsilon=2) is Decision.REFUSED
        assert decided(connection, ledger, "style", 20_500, epsilon=1) is Decision.CHARGED
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


@pytest.mark.full  # years take seconds; every day old decisions are merged below
def test_years_of_reports_leave_a_small_file(world: World) -> None:
    world.transport.bundle = signed(lifetime=4_000 * DAY, max_age=4_000 * DAY)
    client = world.ready()
    for day in range(400):
        world.time.go_to(START + day * DAY + 1_005)
        client.record("theme", "dark")
        world.settle(client)
        if day % 50 == 0:
            assert client.flush(0, now=True)
    for _ in range(2):  # what is over is deleted on the second look
        assert client.flush(0, now=True)
        world.time.go_to(world.time.now + 3_600)
    assert len(rows(world, "ledger")) < 240
    assert (len(rows(world, "pins")), len(rows(world, "pages"))) == (9, 1)
    assert client.ledger().spent == 1_200.0
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
VERSION_3 = VERSION_2.replace("CREATE INDEX ledger_day ON ledger (day);\n", "").replace(
    "PRAGMA user_version = 2;",
    """
ALTER TABLE reductions ADD COLUMN at REAL NOT NULL DEFAULT 0;
CREATE TABLE days (day INTEGER PRIMARY KEY, epsilon TEXT NOT NULL);
CREATE TABLE totals (metric TEXT PRIMARY KEY, epsilon TEXT NOT NULL, reports INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 3;
""",
)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_a_version_before_is_brought_up_to_date_with_all_that_it_spent(world: World, version: int) -> None:
    """Reports that wait are sent as they were drawn and sealed. Without a bundle that names their metric, values that
    were not randomized yet are dropped."""
    world.directory.mkdir()
    book = Codebook.from_toml(TOML)
    theme, startup = book.metric("theme"), book.metric("startup_ms")
    today = START // DAY
    waiting, sealed = (draw(theme, "dark", SystemRandomness()) for _ in range(2))
    as_sealed = seal(ReportHeader(theme.id, today - 1, 1), sealed, Sealer(sealing_key().public_key))
    old = sqlite3.connect(world.directory / "hubbub.sqlite3")
    old.executescript({2: VERSION_2, 3: VERSION_3}[version])
    old.execute("INSERT INTO facts VALUES ('enabled_since', ?)", (START - 10.0,))
    old.execute("INSERT INTO ledger VALUES ('theme', ?, ?, 'spent', '2', ?)", (START + DAY, START, today))
    old.execute("INSERT INTO ledger VALUES ('theme', ?, ?, 'spent', '5/2', ?)", (START, START - DAY, today))
    old.execute("INSERT INTO ledger VALUES ('startup_ms', ?, ?, 'in share', NULL, NULL)", (START + DAY, START))
    old.execute("INSERT INTO ledger VALUES ('startup_ms', ?, ?, 'out of share', NULL, NULL)", (START, START - DAY))
    if version == 3:
        old.execute("INSERT INTO days VALUES (?, '9/2')", (today,))
        old.execute("INSERT INTO totals VALUES ('theme', '9/2', 2)")
    state = '{"count": 1, "value": 9.0}'
    kept = startup.id, today, state, START + 2 * DAY
    old.execute("INSERT INTO reductions (id, period, state, closes_at) VALUES (?, ?, ?, ?)", kept)
    for drawn, period, *more in ((waiting, today, None, None), (sealed, today - 1, 1, as_sealed)):
        times = START - 10.0, START - 5.0, (period + 2) * DAY
        report = drawn.nonce, theme.id, period, drawn.payload, *times, *more
        old.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", report)
    old.commit()
    old.close()

    client = world.client(max_epsilon=6, lifetime_epsilon=5.5)

    account = client.ledger()
    assert (account.spent, account.spent_today) == (4.5, 4.5)
    assert [(entry.spent, entry.reports) for entry in account.metrics if entry.name == "theme"] == [(4.5, 2)]
    assert rows(world, "reductions") == []
    assert client.flush(0, now=True)
    assert client.record("theme", "dark") is Outcome.RECORDED  # spent: no effect
    assert client.record("startup_ms", 3) is Outcome.RECORDED  # of a lifetime one is left, and charged now
    assert client.ledger().spent == 5.5
    assert {(plaintext.nonce, plaintext.payload) for _, plaintext in world.opened()} == {waiting[::-1], sealed[::-1]}
    assert as_sealed in world.transport.reports
    decisions = {row[2]: row[3] for row in rows(world, "ledger") if row[0] == "startup_ms"}
    assert decisions == {START: "charged", START - DAY: "out of share"}
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert [header.metric for header, _ in world.opened()].count(startup.id) == 1
    assert client.record("theme", "dark") is client.record("startup_ms", 3) is Outcome.OVER_BUDGET
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


def test_values_of_a_version_before_keep_the_names_that_its_bundle_gives_them(world: World) -> None:
    """Else their period would report `missing` for them."""
    world.directory.mkdir()
    toml = TOML.replace("bounds = [0, 5000]\n", "bounds = [0, 5000]\nmissing = 0\n")
    world.transport.bundle = signed(toml)
    startup, theme = (Codebook.from_toml(toml).metric(name) for name in ("startup_ms", "theme"))
    old = sqlite3.connect(world.directory / "hubbub.sqlite3")
    old.executescript(VERSION_3)
    old.execute("INSERT INTO facts VALUES ('enabled_since', ?)", (START - 10.0,))
    old.execute("INSERT INTO facts VALUES ('bundle', ?)", (world.transport.bundle,))
    kept = startup.id, START // DAY, '{"count": 1, "value": 9.0}', START + 2 * DAY
    old.execute("INSERT INTO reductions (id, period, state, closes_at) VALUES (?, ?, ?, ?)", kept)
    for metric, value in ((startup, 9.0), (theme, "dark")):
        drawn = draw(metric, value, SystemRandomness())
        report = drawn.nonce, metric.id, START // DAY - 1, drawn.payload, START, START, START + DAY, None, None
        old.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", report)
    old.commit()
    old.close()

    world.client().close()

    assert [row[:4] for row in rows(world, "reductions")] == [("startup_ms", kept[1], "mean", kept[2])]
    assert {(row[2], row[1]) for row in rows(world, "outbox")} == {(startup.id, "steady"), (theme.id, "occasional")}


# -- an outbox that does not grow ---------------------------------------------------------------


@pytest.mark.parametrize("limit", [("MOST_REPORTS", 10), ("MOST_BYTES", 10 * 210)])
def test_the_outbox_keeps_the_newest_within_its_limits_and_counts_the_rest(
    world: World, limit: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"hubbub_client._sending.outbox.{limit[0]}", limit[1])
    world.transport.bundle = signed(HOURLY.replace('period = "1h"', 'period = "1h"\ngrace = "40h"'))
    client = world.ready()
    for hour in range(20):
        world.time.now = START + hour * 3_600 + 1
        assert client.record("startup_ms", 3) is Outcome.RECORDED
    world.time.now = START + 20 * 3_600
    counts = world.settle(client)
    kept = sorted(row[3] - 24 * period_of(START) for row in rows(world, "outbox"))
    assert kept == list(range(20 - len(kept), 20))
    assert len(kept) in (9, 10)
    assert counts["dropped:outbox-full"] == 20 - len(kept)
    ended = [row for row in rows(world, "ledger") if row[0] == "startup_ms" and row[1] <= world.time.now]
    assert [row[3] for row in ended] == ["spent"] * 20
    assert client.flush(0, now=True)
    assert client.stats()["acknowledged"] == len(kept)


def test_a_full_lane_of_the_outbox_takes_no_room_from_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what was recorded of one metric would show in what arrives of another, which reports in any case."""
    monkeypatch.setattr("hubbub_client._sending.outbox.MOST_REPORTS", 20)
    toml = HOURLY.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
    world.transport.bundle = signed(toml.replace('period = "1h"', 'period = "1h"\ngrace = "40h"'))
    client = world.ready()
    for hour in range(21):
        world.time.now = START + hour * 3_600 + 1
        assert client.record("theme", "dark") is Outcome.RECORDED
    assert world.settle(client)["dropped:outbox-full"] == 1
    assert Counter(row[1] for row in rows(world, "outbox")) == {"occasional": 20, "steady": 20}
