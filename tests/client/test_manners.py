"""Manners: quick, quiet, never a value in any text, and plain speech to a developer who asked for it."""

from __future__ import annotations

import logging
import math
import signal
import sqlite3
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.errors import CodebookError, HubbubError, InvalidParameter, InvalidValue
from hubbub.mechanisms import Bounds
from hubbub.metric_types import MetricType
from hubbub.metric_types.boolean import Boolean
from hubbub.metric_types.category import Category
from hubbub.metric_types.mean import Mean
from hubbub_client import Outcome, UnknownMetric, WrongValue
from hubbub_client._recording.in_memory_queue import QueuedValue
from tests.client.world import DAY, START, TOML, World, no_network, period_of, reduced, rows, signed

NUMBER = Mean(Bounds(Fraction(0), Fraction(5)))
SECRET = "a-very-private-word"  # noqa: S105  a value to look for


# -- quick --------------------------------------------------------------------------------------


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


# -- plain speech -------------------------------------------------------------------------------


def test_a_strict_client_says_which_name_was_meant(world: World) -> None:
    client = world.ready(strict=True)
    with pytest.raises(UnknownMetric, match="did you mean 'startup_ms'"):
        client.record("startup_m", 3)
    assert client.stats()["invalid"] == 1


@pytest.mark.parametrize(("metric", "value"), [("theme", 3), ("startup_ms", "fast"), ("startup_ms", float("nan"))])
def test_a_strict_client_says_what_a_metric_takes(world: World, metric: str, value: object) -> None:
    client = world.ready(strict=True)
    with pytest.raises(WrongValue, match=rf"'{metric}' takes"):
        client.record(metric, value)


def test_the_environment_can_make_a_client_strict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_STRICT", "1")
    with pytest.raises(UnknownMetric):
        world.ready().record("no_such_metric", 3)
    assert world.ready(strict=False).record("no_such_metric", 3) is Outcome.INVALID


def test_strict_is_about_mistakes_and_not_about_the_world(world: World) -> None:
    client = world.client(strict=True)
    assert client.record("anything", 3) is Outcome.WAITING
    world.transport.script.extend([no_network] * 3)
    assert client.flush(0) is False
    assert world.client(strict=True, consent=False).record("no_such_metric", None) is Outcome.DISABLED


def test_out_of_bounds_and_unheard_of_are_values_like_any_other(world: World) -> None:
    client = world.ready(strict=True)
    assert client.record("startup_ms", 1e300) is Outcome.RECORDED
    assert client.record("startup_ms", float("-inf")) is Outcome.RECORDED
    assert client.record("theme", "never heard of") is Outcome.RECORDED
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2


@pytest.mark.parametrize("missing", [True, False])
def test_what_is_no_number_reports_as_nothing_would(world: World, missing: bool) -> None:
    """With a `missing` the device reports all the same; without one it is silent, which can be seen: hence the lint."""
    if missing:
        world.transport.bundle = signed(TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"))
    client = world.ready()
    assert client.record("startup_ms", float("nan")) is Outcome.INVALID
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == int(missing)


# -- quiet --------------------------------------------------------------------------------------


def test_nothing_that_is_said_or_raised_names_a_value(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.bundle = signed(TOML.replace('other = "other"\n', ""))
    caplog.set_level(logging.DEBUG)
    client = world.ready()
    strict = world.ready(strict=True)
    texts = []
    for metric in ("theme", "startup_ms", "them"):
        client.record(metric, SECRET)
        try:
            strict.record(metric, SECRET)
        except HubbubError as error:
            texts += [*traceback.format_exception(error), repr(error)]
    assert len(caplog.records) == 6
    assert {record.name for record in caplog.records} == {"hubbub_client"}
    assert SECRET not in "".join(texts) + caplog.text + repr(client.stats()) + repr(QueuedValue(0.0, "theme", SECRET))
    assert len(texts) > 3


def test_each_thing_is_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.ready()
    for _ in range(50):
        client.record("them", "dark")
    assert [record.getMessage() for record in caplog.records] == ["no metric is named 'them': did you mean 'theme'?"]


def test_an_app_without_logging_hears_nothing(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.client.world import World\n"
        "client = World(Path(sys.argv[1])).ready()\n"
        "print(client.record('them', 'dark'))\n"
    )
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", code, str(world.directory)], check=True, cwd=root)
    assert capfd.readouterr() == ("invalid\n", "")


def test_an_error_of_our_own_is_counted_by_its_type_and_goes_no_further(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.ready()

    def broken(*_: object, **__: object) -> Outcome:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(client._intake, "take", broken)
    assert client.record("theme", SECRET) is Outcome.INVALID
    assert client.stats()["error:ZeroDivisionError"] == 1
    assert SECRET not in caplog.text


# -- a codebook that comes with the app ---------------------------------------------------------


@pytest.mark.parametrize("form", ["toml", "compiled", "object"])
def test_a_packaged_codebook_takes_values_before_the_first_bundle_and_sends_nothing(
    world: World, tmp_path: Path, form: str
) -> None:
    codebook = Codebook.from_toml(TOML)
    (tmp_path / "metrics.toml").write_text(TOML)
    (tmp_path / "codebook.json").write_bytes(codebook.to_bytes())
    shipped = {"toml": tmp_path / "metrics.toml", "compiled": str(tmp_path / "codebook.json"), "object": codebook}[form]
    client = world.client(codebook=shipped)
    world.transport.script.append(no_network)

    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.record("startup_ms", 3) is Outcome.RECORDED
    assert not client.flush(0, now=True)
    assert rows(world, "outbox") == []
    assert len(rows(world, "reductions")) == 2
    client.close()

    client = world.client(codebook=shipped)  # what was recorded survives a restart, bundle or not
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert {header.period for header, _ in world.opened()} == {period_of(START)}
    assert len(world.transport.reports) == 2


def test_values_of_a_packaged_metric_whose_name_the_bundle_does_not_list_are_dropped(world: World) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML.replace("metrics.theme", "metrics.look")))
    assert client.record("look", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)
    assert world.transport.reports == rows(world, "reductions") == []
    assert client.stats()["lost:unknown-metric"] == 1


def test_values_of_a_packaged_metric_are_reported_as_the_bundle_has_it_and_never_by_the_packaged_page(
    world: World,
) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML.replace("epsilon = 2", "epsilon = 1")))
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert rows(world, "pins") == rows(world, "ledger") == []
    assert client.flush(0, now=True)
    assert [header.metric for header, _ in world.opened()] == [Codebook.from_toml(TOML).metric("theme").id]
    theme = client.ledger().metric("theme")
    assert theme is not None
    assert theme.spent == 2.0


@pytest.mark.parametrize(
    "edit",
    [
        ('"light", "dark", "sepia", "other"]\nother = "other"', '"light", "sepia"]'),
        ('type = "category"', 'type = "category"\nreduce = "last"'),
    ],
)
def test_values_of_a_packaged_metric_that_do_not_fit_the_one_of_the_bundle_are_dropped(
    world: World, edit: tuple[str, str]
) -> None:
    world.transport.bundle = signed(TOML.replace(*edit))
    client = world.client(codebook=Codebook.from_toml(TOML))
    assert client.record("theme", "dark") is Outcome.RECORDED
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert world.transport.reports == rows(world, "reductions") == []
    assert client.stats()["lost:invalid"] == 1


def test_a_packaged_codebook_is_held_to_the_limits_of_the_device(world: World) -> None:
    client = world.client(codebook=Codebook.from_toml(TOML), max_epsilon=2.5)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_packaged_codebook_that_is_none_is_an_error_at_once(world: World, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be read"):
        world.client(codebook=tmp_path / "missing.json")
    (tmp_path / "broken.toml").write_text("[collection")
    with pytest.raises(CodebookError):
        world.client(codebook=tmp_path / "broken.toml")


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("shipped", [True, False])
def test_with_a_packaged_codebook_or_none_silence_is_reported_from_the_first_day_too(
    world: World, shipped: bool, recorded: bool
) -> None:
    """Else who recorded something on the day before the first bundle could be told from who did not."""
    toml = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
    world.transport.bundle = signed(toml)
    client = world.client(codebook=Codebook.from_toml(toml) if shipped else None)
    if recorded:
        assert client.record("startup_ms", 3) is (Outcome.RECORDED if shipped else Outcome.WAITING)
    world.time.now = START + DAY
    assert client.flush(0, now=True)
    assert [header.period for header, _ in world.opened()] == [period_of(START)]
