"""`record`: never raises, never touches the network, and reports nothing that it cannot keep."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import threading
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import NoReturn

import pytest

from hubbub_client import Client, Outcome
from hubbub_client._recording.in_memory_queue import small_copy
from tests.client.world import DAY, HOURLY, START, TOML, World, no_network, period_of, reduced, rows, signed
from tests.support.patience import PATIENCE


def test_a_recorded_value_arrives_randomized_and_sealed_to_the_key_of_its_period(world: World) -> None:
    client = world.ready()

    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)

    ((header, plaintext),) = world.opened()
    assert header.period == plaintext.period == period_of(world.time.now)
    assert len(plaintext.payload) == 1
    assert client.stats()["acknowledged"] == 1
    assert client.stats()["outbox"] == 0


def test_recording_never_touches_the_network(world: World) -> None:
    client = world.ready()
    before = len(world.transport.requests)

    for value in ("dark", "light", 3, None):
        client.record("theme", value)

    assert len(world.transport.requests) == before


@pytest.mark.parametrize("value", [None, 3, b"dark", object(), [], float("nan")])
def test_what_a_metric_does_not_take_is_invalid_and_never_an_exception(world: World, value: object) -> None:
    client = world.ready()
    assert client.record("theme", value) is Outcome.INVALID
    assert client.record("no_such_metric", value) is Outcome.INVALID
    assert client.record("startup_ms", "fast") is Outcome.INVALID


def test_even_a_failing_clock_or_generator_does_not_reach_the_app(world: World) -> None:
    client = world.ready()
    world.time.now = float("nan")
    assert client.record("theme", "dark") is Outcome.INVALID
    assert client.flush(0) is False


def test_a_metric_switched_off_or_past_its_last_day_is_not_recorded(world: World) -> None:
    off = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nenabled = false").replace(
        "[metrics.theme]", "[metrics.theme]\nexpires = 2026-12-13"
    )
    world.transport.bundle = signed(off)
    client = world.ready()

    assert client.record("startup_ms", 3) is Outcome.DISABLED
    assert client.record("theme", "dark") is Outcome.EXPIRED
    assert START == 20_800 * DAY  # 2026-12-13


def test_first_is_randomized_at_the_next_pass_and_later_values_change_nothing(world: World) -> None:
    client = world.ready()
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.record("theme", "light") is Outcome.RECORDED
    assert [kept["value"] for kept in reduced(world)] == ["dark"]
    assert client.flush(0)
    before = rows(world, "outbox"), rows(world, "ledger")

    assert client.record("theme", "light") is Outcome.RECORDED

    assert (rows(world, "outbox"), rows(world, "ledger")) == before
    assert rows(world, "reductions") == []


def test_other_reducers_are_due_at_the_end_of_the_period(world: World) -> None:
    client = world.ready()
    for value in (100, 200, 300):
        assert client.record("startup_ms", value) is Outcome.RECORDED
    assert client.flush(0, now=True)
    assert world.transport.reports == []

    world.time.now = START + DAY + 1
    assert client.flush(0, now=True)

    ((header, _),) = world.opened()
    assert header.period == period_of(START)
    assert rows(world, "reductions") == []


def test_what_is_due_waits_for_a_delay_within_half_the_grace(world: World) -> None:
    """Drawn with the report and stored: over 150 periods it spreads over the whole range, and none is beyond."""
    world.transport.bundle = signed(HOURLY)
    client = world.ready()
    recorded = [world.time.now + hour * 3_600 for hour in range(150)]
    for world.time.now in recorded:
        assert client.record("theme", "dark") is Outcome.RECORDED
        world.settle(client)

    sends = sorted(send_at for *_, send_at, _closes_at, _key, _sealed in rows(world, "outbox"))
    delays = [send_at - time for send_at, time in zip(sends, recorded, strict=True)]

    assert 0 <= min(delays) < 180  # missed by chance less than once in seven million runs (0.9^150)
    assert 1_620 < max(delays) <= 1_800


def test_the_codebook_may_ask_for_a_shorter_delay(world: World) -> None:
    world.transport.bundle = signed(HOURLY.replace('"1h"', '"1h"\ndelay = "1m"'))
    client = world.ready()
    recorded = [world.time.now + hour * 3_600 for hour in range(40)]
    for world.time.now in recorded:
        client.record("theme", "dark")
        world.settle(client)
    sends = sorted(send_at for *_, send_at, _closes_at, _key, _sealed in rows(world, "outbox"))
    delays = [send_at - time for send_at, time in zip(sends, recorded, strict=True)]

    assert 0 <= min(delays) < max(delays) <= 60
    assert max(delays) > 20  # missed by chance less than once in 10^19 runs (3^-40)


def test_nothing_is_sent_before_its_delay_is_over(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    world.transport.script.append(no_network)
    client.flush(0, now=True)
    ((*_, send_at, _closes_at, _key, _sealed),) = rows(world, "outbox")

    world.time.now = send_at - 0.001
    assert client.flush(0)
    assert world.transport.reports == []

    world.time.now = send_at
    assert client.flush(0)
    assert len(world.transport.reports) == 1


def test_values_from_before_the_first_bundle_are_kept_in_memory_until_it_comes(world: World) -> None:
    client = world.client()
    assert client.record("theme", "dark") is Outcome.WAITING
    assert client.record("startup_ms", 5) is Outcome.WAITING

    assert client.flush(0, now=True)

    assert len(world.transport.reports) == 1
    assert len(rows(world, "reductions")) == 1
    assert client.stats()["late:recorded"] == 2


def test_what_finds_no_room_to_wait_is_not_called_waiting(world: World) -> None:
    client = world.client()
    outcomes = [client.record("startup_ms", value) for value in range(1_002)]

    assert outcomes == [Outcome.WAITING] * 1_000 + [Outcome.EXPIRED] * 2
    assert client.stats()["expired"] == client.stats()["lost:no-room"] == 2


def test_values_from_before_the_first_codebook_are_dropped_once_and_counted(world: World) -> None:
    world.transport.bundle = signed(first_periods=[period_of(START) + 1])
    client = world.client()
    assert client.record("theme", "dark") is Outcome.WAITING

    for _ in range(3):
        assert client.flush(0, now=True)

    assert client.stats()["late:invalid"] == 1
    assert client.record("theme", "dark") is Outcome.INVALID
    assert rows(world, "ledger") == []


def test_values_that_waited_for_the_bundle_longer_than_their_grace_charge_nothing_to_their_period(
    world: World,
) -> None:
    client = world.client()
    client.record("theme", "dark")
    world.time.now += 2 * DAY
    assert client.flush(0, now=True)
    assert client.stats()["late:expired"] == 1
    assert {(row[2], row[3]) for row in rows(world, "ledger")} == {  # those that are open are, recorded or not
        (START + DAY, "charged"),
        (START + 2 * DAY, "charged"),
    }
    assert rows(world, "reductions") == rows(world, "outbox") == world.uploads() == []


# -- on disk ------------------------------------------------------------------------------------


def test_the_state_is_readable_by_its_owner_only(world: World) -> None:
    with world.ready() as client:
        client.record("theme", "dark")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in world.directory.iterdir()}
    assert "hubbub.sqlite3" in modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(world.directory.stat().st_mode) == 0o700


def test_a_randomized_value_leaves_no_raw_one_on_disk(world: World) -> None:
    with world.ready() as client:
        client.record("startup_ms", 1234.5678)
        world.time.now += DAY
        assert client.flush(0, now=True)
    kept = b"".join(path.read_bytes() for path in world.directory.iterdir())
    assert b"1234.5678" not in kept


@pytest.mark.parametrize("restarted", [False, True])
def test_without_a_bundle_nothing_is_kept_beyond_its_grace(world: World, restarted: bool) -> None:
    world.transport.bundle = signed(lifetime=DAY)
    client = world.ready()
    client.record("startup_ms", 1234.5)
    client.record("theme", "dark")
    assert client.flush(0)
    world.transport.script.extend([no_network] * 9)
    world.time.now = START + 2 * DAY - 1
    assert not client.flush(0)
    assert [len(rows(world, table)) for table in ("reductions", "outbox")] == [1, 1]

    for moment in (START + 2 * DAY, START + 2 * DAY + 3_600):  # on the second look
        world.time.go_to(moment)
        assert [len(rows(world, table)) for table in ("reductions", "outbox")] == [1, 1]
        if restarted:
            client = world.client()
        else:
            assert not client.flush(0)

    assert rows(world, "reductions") == rows(world, "outbox") == []
    assert (client.stats()["lost:period-closed"], client.stats()["dropped:period-closed"]) == (1, 1)


def test_without_a_place_to_write_nothing_is_reported(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    client = world.client(state_dir=tmp_path / "file" / "state")

    assert client.record("theme", "dark") is Outcome.NO_DURABLE_STATE
    assert client.flush(0, now=True) is False
    assert world.transport.requests == []


def test_a_full_disk_stops_reporting_and_no_half_of_a_report_is_kept(world: World) -> None:
    world.transport.bundle = signed(HOURLY)
    client = world.ready()
    before = rows(world, "ledger")
    with client._state.glancing() as connection:  # a limit of this connection: as good as a small disk
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    outcomes = []
    for world.time.now in range(START, START + 25 * DAY, 3_600):
        outcomes.append(client.record("theme", "dark"))
        if outcomes[-1] is Outcome.NO_DURABLE_STATE:
            break

    assert outcomes[-1] is Outcome.NO_DURABLE_STATE
    assert len(rows(world, "reductions")) == outcomes.count(Outcome.RECORDED)
    assert rows(world, "ledger") == before  # a record decides and charges nothing


def test_a_disk_that_is_full_when_values_are_randomized_keeps_no_half_of_a_report(world: World) -> None:
    world.transport.bundle = signed(HOURLY.replace('period = "1h"', 'period = "1h"\ngrace = "30d"'))
    client = world.ready()
    for world.time.now in range(START, START + 60 * 3_600, 3_600):
        assert client.record("startup_ms", 7) is Outcome.RECORDED
    with client._state.reading() as connection:  # the last straw, in the middle of the transaction
        connection.execute(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON main.outbox WHEN (SELECT count(*) FROM main.outbox) >= 30 "
            "BEGIN SELECT RAISE(ABORT, 'full'); END"
        )

    assert not client.flush(0)

    assert rows(world, "outbox") == []
    assert {row[3] for row in rows(world, "ledger")} == {"charged"}
    assert {row[2] for row in rows(world, "totals")} == {0}
    assert len(rows(world, "reductions")) == 60


@pytest.mark.parametrize("table", ["pins", "ledger"])
def test_a_disk_that_is_full_when_periods_are_pinned_keeps_no_half_of_a_pin(world: World, table: str) -> None:
    world.transport.bundle = signed(HOURLY.replace('period = "1h"', 'period = "1h"\ngrace = "30d"'))
    client = world.ready()
    tables = ("pins", "ledger", "days", "totals")
    before = [rows(world, name) for name in tables]
    world.time.now = START + 60 * 3_600
    with client._state.reading() as connection:
        full = f"(SELECT count(*) FROM main.{table}) >= 30"  # noqa: S608  a table of ours
        connection.execute(
            f"CREATE TEMP TRIGGER full BEFORE INSERT ON main.{table} WHEN {full} BEGIN SELECT RAISE(ABORT, 'full'); END"
        )

    assert not client.flush(0)

    assert [rows(world, name) for name in tables] == before
    with client._state.reading() as connection:
        connection.execute("DROP TRIGGER full")
    assert client.flush(0)
    assert len(rows(world, "pins")) == 61


def test_a_read_only_directory_stops_reporting() -> None:
    """As someone whom the file system can stop: a child that is root turns into nobody first."""
    with tempfile.TemporaryDirectory() as closed:
        Path(closed).chmod(0o555)
        pid = os.fork()
        if pid == 0:
            if os.getuid() == 0:
                os.setuid(65534)
            client = Client("http://localhost:1", trust=None, consent=True, state_dir=Path(closed))
            outcome, flushed = client.record("theme", "dark"), client.flush(0)
            os._exit(0 if (outcome, flushed) == (Outcome.NO_DURABLE_STATE, False) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert list(Path(closed).iterdir()) == []


def test_a_closed_client_records_nothing(world: World) -> None:
    client = world.ready()
    client.close()
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.flush(0) is False


def test_a_closed_client_leaves_the_file_closed(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.close()

    assert client.stats()["recorded"] == 1

    names = {path.name for path in world.directory.iterdir()}
    assert names == {"hubbub.sqlite3", "hubbub.witness"}  # no log, so no connection


# -- forks --------------------------------------------------------------------------------------


def test_a_forked_child_uses_a_connection_of_its_own(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if client.record("theme", "light") is Outcome.RECORDED else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


def in_a_child(act: Callable[[], bool]) -> bool:
    """Whether `act` succeeds in a forked child, before it is too late."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
        succeeded = False
        try:
            succeeded = act()
        finally:
            os._exit(0 if succeeded else 1)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 warns, apps fork
def test_a_child_does_not_wait_for_locks_that_threads_of_its_parent_held(world: World) -> None:
    client = world.ready(background=True)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        assert client._worker is not None
        with client._counts._lock, client._runner.busy, client._worker._changed:
            held.set()
            over.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    try:
        assert in_a_child(lambda: client.record("theme", "dark") is Outcome.RECORDED and client.flush(PATIENCE))
    finally:
        over.set()
        thread.join()
    assert client.record("theme", "dark") is Outcome.RECORDED  # the parent's own locks are as they were


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 warns, apps fork
def test_a_child_of_a_process_that_is_writing_can_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite keeps its locks in memory too: forked inside a transaction, a child would find the file busy for ever."""
    monkeypatch.setattr(
        "hubbub_client._state.database._BUSY_SECONDS", PATIENCE
    )  # a write may take long on a busy machine
    client = world.ready()
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.01):
            with client._state.transaction() as connection:
                connection.execute("INSERT OR REPLACE INTO facts VALUES ('busy', 1)")
                over.wait(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert all(in_a_child(lambda: client.record("startup_ms", 1) is Outcome.RECORDED) for _ in range(5))
    finally:
        over.set()
        thread.join()


def test_values_that_wait_in_memory_are_recorded_by_the_parent_only(world: World) -> None:
    client = world.client()
    client.record("startup_ms", 5)

    assert in_a_child(lambda: client.flush(0))
    assert client.flush(0)

    assert [kept["count"] for kept in reduced(world)] == [1]


# -- a value that waits is the one that was recorded, or none ---------------------------------------


class _Odd(dict[str, object]):
    """A mapping that fails when it is looked into."""

    def items(self) -> NoReturn:
        raise OSError("gone")


LOOP: list[object] = ["a"]
LOOP.append(LOOP)
NOT_COPIED: list[object] = [
    [object(), "a"],
    ["a", None],
    ("a", b"b"),
    {"theme": "dark", "size": object()},
    {"theme": "dark", "size": ["small"]},
    {"theme": "dark", 3: "small"},
    {"theme": "dark", "x" * 2_001: "small"},
    {"theme": "dark", "size": {"inner": 1}},
    {str(place): place for place in range(17)},
    list(range(17)),
    [["a"]],
    LOOP,
    {"theme": LOOP},
    object(),
    None,
]


@pytest.mark.parametrize("value", NOT_COPIED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_copied_whole_does_not_wait_in_part(world: World, value: object) -> None:
    assert small_copy(value) is None
    assert world.client().record("theme", value) is Outcome.INVALID


def test_what_is_deep_or_fails_does_not_reach_the_app(world: World) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    client = world.client()
    assert client.record("theme", deep) is Outcome.INVALID
    assert client.record("theme", _Odd(a=1)) is Outcome.INVALID
    assert "error:RecursionError" not in client.stats()


def test_a_copy_is_the_value_and_is_out_of_the_hands_of_the_app() -> None:
    mapping: dict[str, object] = {"theme": "dark", "amount": 3.5, "on": True}
    copied = small_copy(mapping)
    assert copied == mapping
    mapping["theme"] = "light"
    assert copied == {"theme": "dark", "amount": 3.5, "on": True}
    assert small_copy(("a", 10**400, -(10**400))) == ["a", inf, -inf]
    assert small_copy("x" * 5_000) == "x" * 2_000
    assert small_copy([]) == []
    assert small_copy({}) == {}
