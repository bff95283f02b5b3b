"""Cost of a record: it waits for no disk and no lock, keeps little in memory, and looks at no more than it must."""

from __future__ import annotations

import math
import signal
import sqlite3
import statistics
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.errors import InvalidValue
from hubbub.mechanisms import Bounds
from hubbub.metric_types import MetricType
from hubbub.metric_types.boolean import Boolean
from hubbub.metric_types.category import Category
from hubbub.metric_types.mean import Mean
from hubbub_client import Outcome
from tests.client.world import TOML, World, reduced, rows, signed

NUMBER = Mean(Bounds(Fraction(0), Fraction(5)))


class Bare:
    """The smallest transaction there is, without a sync."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute("PRAGMA wal_autocheckpoint=0")
        self.connection.execute("CREATE TABLE t (a PRIMARY KEY, b)")

    def commit(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT OR REPLACE INTO t VALUES (1, 2)")
        self.connection.execute("COMMIT")


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@pytest.mark.parametrize(("metric", "value"), [("startup_ms", 812.0), ("theme", "dark")])
def test_a_record_waits_for_no_disk(world: World, tmp_path: Path, metric: str, value: object) -> None:
    """The log of a database reaches the disk only by a sync of its file; 2,000 records make none, and cost a few times
    a commit that makes none either."""
    client, bare = world.ready(), Bare(tmp_path / "bare.sqlite3")
    records, commits = [], []
    for _ in range(2_000):
        records.append(timed(lambda: client.record(metric, value)))
        commits.append(timed(bare.commit))
    bare.connection.close()
    assert client.stats()["recorded"] == 2_000
    assert statistics.median(records) < 8 * statistics.median(commits)
    with client._state.glancing() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)


@pytest.mark.parametrize("metric", ["startup_ms", "theme"])
def test_a_record_does_not_wait_for_someone_who_writes(world: World, metric: str) -> None:
    """It is kept in memory, in order, and written by the next pass."""
    client = world.ready()
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    values = [1, 2, 3] if metric == "startup_ms" else ["dark", "light", "sepia"]
    times = []
    for value in values:
        began = time.perf_counter()
        assert client.record(metric, value) is Outcome.RECORDED
        times.append(time.perf_counter() - began)
    assert rows(world, "reductions") == []
    other.execute("ROLLBACK")
    other.close()
    assert min(times) < 0.1  # a wait for the lock would be a second

    assert client.flush(0)

    assert client.stats()["late:recorded"] == 3
    if metric == "theme":
        assert len(rows(world, "outbox")) == 1
    else:
        assert reduced(world) == [{"count": 3, "value": 2.0}]


def test_a_later_record_writes_what_waits_and_keeps_the_order(world: World) -> None:
    client = world.ready()
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client.record("theme", "dark")
    other.execute("ROLLBACK")
    other.close()
    assert client.record("theme", "light") is Outcome.RECORDED
    assert [kept["value"] for kept in reduced(world)] == ["dark"]


def test_what_finds_no_room_in_memory_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub_client._recording.in_memory_queue.MOST_VALUES", 3)
    client = world.ready()
    other = sqlite3.connect(world.directory / "hubbub.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    outcomes = [client.record("startup_ms", 1) for _ in range(5)]
    other.execute("ROLLBACK")
    other.close()
    assert outcomes == [Outcome.RECORDED] * 3 + [Outcome.EXPIRED] * 2
    assert client.stats()["lost:no-room"] == 2


def test_what_waits_takes_little_memory_and_means_the_same(world: World) -> None:
    client = world.client()
    for value in (1 << 8_000_000, -(1 << 8_000_000), 1 << 1023):
        assert client.record("startup_ms", value) is Outcome.WAITING
    assert client.record("theme", "x" * 1_000_000) is Outcome.WAITING
    assert client.record("y" * 1_000_000, 1) is Outcome.WAITING
    kept = client._intake.queue._values
    assert sum(sys.getsizeof(early.name) + sys.getsizeof(early.value) for early in kept) < 10_000

    assert client.flush(0)

    assert client.stats()["late:recorded"] == 4
    assert client.stats()["late:invalid"] == 1
    direct = world.client(state_dir=world.directory / "direct")
    assert direct.flush(0)
    for value in (1 << 8_000_000, -(1 << 8_000_000), 1 << 1023):
        assert direct.record("startup_ms", value) is Outcome.RECORDED
    shown = [client.preview().pending[-1].value, direct.preview().pending[-1].value]
    assert shown[0] == shown[1]


def test_a_whole_text_as_a_name_costs_and_says_no_more_than_a_word(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.ready()
    assert client.record("startup_ms " * 100_000, 1) is Outcome.INVALID
    assert len(caplog.text) < 500


def test_a_mistake_that_is_made_all_the_time_costs_no_search_each_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def search(word: str, _: object) -> str:
        searched.append(word)
        return ""

    world.transport.bundle = signed(TOML.replace('other = "other"\n', ""))
    client = world.ready()
    for module in ("hubbub_client._recording.intake", "hubbub.metric_types.category"):
        monkeypatch.setattr(f"{module}.did_you_mean", search)
    for count in range(300):
        assert client.record("startup_m", 3) is Outcome.INVALID
        assert client.record("theme", "never heard of") is Outcome.INVALID
        assert client.record(f"name {count}", 3) is Outcome.INVALID
    assert len(searched) == 100


class Untouchable:
    """Such as a database query, which runs when it is printed."""

    def __repr__(self) -> str:
        raise AssertionError("someone looked")


@pytest.mark.parametrize("metric", ["theme", "startup_ms", "dark_mode", Untouchable()])
def test_what_is_no_value_is_not_even_looked_at(world: World, metric: str) -> None:
    more = '\n[metrics.dark_mode]\ntype = "boolean"\nepsilon = 1\nmechanism = "rr"\nmin_batch = 100\n'
    world.transport.bundle = signed(TOML + more)
    client = world.ready()
    assert client.record(metric, Untouchable()) is Outcome.INVALID
    assert not any(name.startswith("error:") for name in client.stats())


VALUES: tuple[object, ...] = (
    True,
    0,
    1,
    -7,
    1 << 5_000,
    2.5,
    math.inf,
    math.nan,
    "dark",
    "x",
    "",
    "se\u0301pia",
    None,
    b"dark",
    [],
    1j,
)


@pytest.mark.parametrize("values", [Boolean(), Category(("dark", "s\u00e9pia")), Category(("dark", "x"), "x"), NUMBER])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_metric_takes_what_it_keeps(values: MetricType, value: object) -> None:
    try:
        values.recorded(value)
    except InvalidValue:
        assert not values.takes(value)
    else:
        assert values.takes(value)


def test_hundreds_of_threads_record_and_nothing_is_lost(world: World) -> None:
    client = world.ready()

    def work() -> None:
        for _ in range(5):
            assert client.record("startup_ms", 1) is Outcome.RECORDED

    threads = [threading.Thread(target=work) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.flush(0)
    assert [kept["count"] for kept in reduced(world)] == [1_000]


def test_a_signal_handler_may_record_in_the_middle_of_a_record(world: World) -> None:
    client = world.ready()
    handled: list[Outcome] = []
    over = False

    def handle(*_: object) -> None:
        if not over:  # one may come while the timer is switched off: it would go off again under the handler of before
            handled.append(client.record("startup_ms", 1))
            signal.setitimer(signal.ITIMER_REAL, 0.001)  # only now: on a slow machine they would pile up

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        outcomes = [client.record("startup_ms", 1) for _ in range(1_000)]
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(outcomes) == set(handled) == {Outcome.RECORDED}
    assert client.flush(0)
    assert [kept["count"] for kept in reduced(world)] == [1_000 + len(handled)]
