"""Witness and page repair: no spend is forgotten when the state file loses a page or is replaced by an older copy."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hubbub_client import Client, Outcome
from hubbub_client._codebooks.in_force import CodebooksInForce
from hubbub_client._integrity import forgotten_spends
from hubbub_client._integrity.quarantine import last_seen
from hubbub_client._integrity.witness import Counted, Witness, read_witness, write_witness
from hubbub_client._randomizing.randomize import Randomizer, Settled
from hubbub_client._sending.outbox import Lane
from hubbub_client._state.errors import NoDurableState
from hubbub_client._state.schema import upgrade
from hubbub_client._state.sqlite import VERSION_FUNCTION, connect, transaction
from tests.client.world import DAY, HOURLY, START, TOML, World, codebook, opened, period_of, rows, signed

STEADY = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")
TODAY = period_of(START)
CLOCKS_BEHIND = [-8.0, -7_200.0, -5.0 * DAY, -400.0 * DAY]


def file(world: World) -> Path:
    return world.directory / "hubbub.sqlite3"


def witness(world: World) -> Path:
    return world.directory / "hubbub.witness"


def draws(world: World) -> Counter[int]:
    """Distinct reports of the theme, by period."""
    nonces = {(header.period, plaintext.nonce) for header, plaintext in world.opened()}
    return Counter(period for period, _ in nonces)


def by_metric(world: World) -> dict[tuple[str, int], int]:
    """Distinct reports by metric and period, acknowledged or not."""
    names = {metric.id: metric.name for text in (TOML, HOURLY, STEADY) for metric in codebook(text).metrics}
    reports = [opened(report) for upload in world.uploads() for report in upload]
    return Counter(key[:2] for key in {(names[header.metric], header.period, plain.nonce) for header, plain in reports})


def draw_today(world: World, **limits: object) -> None:
    """A client that comes, has its value of today delivered, and goes."""
    with world.ready(**limits) as client:
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
    assert draws(world) == {TODAY: 1}


def try_again(client: Client) -> Outcome:
    """Record and send on the same day, twice, as the first pass may be the one that notices."""
    for _ in range(2):
        outcome = client.record("theme", "dark")
        client.flush(0, now=True)
    return outcome


def check_that_today_is_closed(world: World, **limits: object) -> Client:
    """Today is not drawn again, and tomorrow is."""
    client = world.client(**limits)
    client.flush(0)
    assert try_again(client) is Outcome.OVER_BUDGET
    assert client.stats()["state:quarantined"] == 1
    assert draws(world) == {TODAY: 1}
    world.time.now = START + DAY + 1_000
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)
    assert draws(world) == {TODAY: 1, TODAY + 1: 1}
    return client


# -- pages --------------------------------------------------------------------------------------


def place_of(world: World, table: str) -> tuple[int, int]:
    """Where the one page of a table is, from and to. No client has the file open."""
    connection = sqlite3.connect(file(world))
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    return (page - 1) * size, page * size


def page_of(world: World, table: str) -> bytes:
    begin, end = place_of(world, table)
    return file(world).read_bytes()[begin:end]


def put_page(world: World, table: str, content: bytes) -> None:
    with file(world).open("r+b") as opened:
        opened.seek(place_of(world, table)[0])
        opened.write(content)


def no_cells(page: bytes) -> bytes:
    """A page that SQLite reads as one without rows."""
    return page[:3] + b"\0\0" + page[5:]


def zeros(page: bytes) -> bytes:
    return bytes(len(page))


@pytest.mark.parametrize("harm", [no_cells, zeros])
@pytest.mark.parametrize("table", ["ledger", "days", "totals"])
def test_a_page_of_the_account_that_lost_its_rows_closes_what_had_begun(
    world: World, table: str, harm: Callable[[bytes], bytes]
) -> None:
    draw_today(world)
    put_page(world, table, harm(page_of(world, table)))
    check_that_today_is_closed(world)


def test_pages_that_all_lost_their_rows_close_what_had_begun(world: World) -> None:
    draw_today(world)
    for table in ("ledger", "ledger_end", "pins", "days", "totals"):
        put_page(world, table, no_cells(page_of(world, table)))
    check_that_today_is_closed(world)


@pytest.mark.everyday
@pytest.mark.parametrize("table", ["ledger", "totals", "facts"])
@pytest.mark.parametrize("recorded", [["theme"], ["theme", "startup_ms", "other"], []])
def test_an_older_page_that_lacks_nothing_but_spends_is_mended(world: World, table: str, recorded: list[str]) -> None:
    """As a disk leaves it that loses a write. A metric with `missing` goes on like where nothing was recorded."""
    another = STEADY.partition("[metrics.theme]")[2].partition("[metrics.startup_ms]")[0]
    world.transport.bundle = signed(STEADY + f"[metrics.other]{another}".replace("epsilon = 2", "epsilon = 1"))
    world.ready().close()
    charged = page_of(world, table)
    with world.ready() as client:
        for name in recorded:
            client.record(name, 3 if name == "startup_ms" else "dark")
        client.flush(0, now=True)
    before = Counter(header.metric for header, _ in world.opened())
    put_page(world, table, charged)
    world.time.now += 1_000
    with world.client() as client:
        for name in ("theme", "other"):
            client.record(name, "dark")
        client.flush(0, now=True)
        assert "state:quarantined" not in client.stats()
        assert ("state:mended" in client.stats()) is bool(recorded)
        again = Counter(header.metric for header, _ in world.opened())
        assert max(again.values()) == 1
        assert before <= again
        world.time.now = START + DAY + 50_000
        client.flush(0, now=True)
    steady = [
        header.period for header, _ in world.opened() if header.metric == codebook(STEADY).metric("startup_ms").id
    ]
    assert steady == [TODAY]


def test_an_older_page_that_lacks_charges_closes_what_had_begun(world: World) -> None:
    world.time.now -= DAY
    world.transport.bundle = signed(now=START - DAY)
    world.ready().close()
    world.time.now += DAY
    charged = page_of(world, "ledger")
    draw_today(world)
    put_page(world, "ledger", charged)
    check_that_today_is_closed(world)


@pytest.mark.parametrize("table", ["totals", "ledger"])
def test_a_lifetime_limit_stays_closed_when_a_page_of_the_account_was_lost(world: World, table: str) -> None:
    """Totals are carried over only if they are whole."""
    draw_today(world, lifetime_epsilon=100)
    put_page(world, table, no_cells(page_of(world, table)))
    client = world.client(lifetime_epsilon=100)
    client.flush(0)
    world.time.now += DAY
    client.flush(0)
    kept = table == "ledger"
    assert client.record("theme", "dark") is (Outcome.RECORDED if kept else Outcome.OVER_BUDGET)
    assert client.ledger().complete is kept


# -- older copies -------------------------------------------------------------------------------


def restore_in_place(world: World, copy: bytes) -> None:
    file(world).write_bytes(copy)


def restore_as_another_file(world: World, copy: bytes) -> None:
    made = world.directory / "restored"
    made.write_bytes(copy)
    made.replace(file(world))


def restore_the_file_alone(world: World, copy: bytes) -> None:
    restore_as_another_file(world, copy)
    witness(world).unlink()


@pytest.mark.parametrize("restore", [restore_in_place, restore_as_another_file, restore_the_file_alone])
def test_an_older_copy_of_the_file_starts_closed(world: World, restore: Callable[[World, bytes], None]) -> None:
    world.time.now -= DAY
    world.transport.bundle = signed(now=START - DAY)
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
    copy = file(world).read_bytes()
    world.transport.reports.clear()
    world.time.now += DAY
    draw_today(world)
    restore(world, copy)
    check_that_today_is_closed(world)


def test_a_copy_from_before_today_was_drawn_starts_closed(world: World) -> None:
    world.ready().close()  # today is charged
    copy = file(world).read_bytes()
    draw_today(world)
    restore_as_another_file(world, copy)
    check_that_today_is_closed(world)


def test_of_a_copy_that_lacks_only_what_was_recorded_only_that_is_closed(world: World) -> None:
    """Every charge is in it, so that no limit forgets anything; and a metric with `missing` goes on like on a device
    where nothing was recorded."""
    world.transport.bundle = signed(STEADY)
    world.ready(lifetime_epsilon=100).close()
    copy = file(world).read_bytes()
    draw_today(world, lifetime_epsilon=100)
    restore_in_place(world, copy)
    with world.client(lifetime_epsilon=100) as client:
        client.flush(0)
        assert try_again(client) is Outcome.OVER_BUDGET
        assert "state:quarantined" not in client.stats()
        assert client.record("startup_ms", 3) is Outcome.RECORDED
    with world.client(lifetime_epsilon=100) as client:
        world.time.now = START + DAY + 1_000
        client.flush(0, now=True)
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
        assert client.ledger().complete
    assert by_metric(world) == {("theme", TODAY): 1, ("startup_ms", TODAY): 1, ("theme", TODAY + 1): 1}


@pytest.mark.parametrize("with_witness", [True, False])
def test_a_backup_from_before_the_first_draw_starts_closed(world: World, with_witness: bool) -> None:
    """As long as something was charged. One from before the first bundle is like a directory that was deleted."""
    world.ready().close()
    backup = world.directory.with_name("backup")
    shutil.copytree(world.directory, backup)
    draw_today(world)
    world.directory.rename(world.directory.with_name("aside"))  # which keeps the inodes in use
    shutil.copytree(backup, world.directory)
    if not with_witness:
        witness(world).unlink()
    check_that_today_is_closed(world)


def move_to_another_disk(world: World, _: bytes) -> None:
    aside = world.directory.with_name("aside")
    world.directory.rename(aside)
    shutil.copytree(aside, world.directory)


@pytest.mark.everyday
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("restore", [restore_in_place, move_to_another_disk])
def test_whether_a_device_closes_does_not_tell_whether_something_was_recorded(
    tmp_path: Path, restore: Callable[[World, bytes], None], pinned: bool
) -> None:
    said: list[object] = []
    for recorded in (True, False):
        world = World(tmp_path / str(recorded) / "state")
        world.transport.bundle = signed(STEADY)
        world.client().close()
        if pinned:
            world.ready().close()
        copy = file(world).read_bytes()
        with world.ready() as client:
            if recorded:
                client.record("theme", "dark")
            client.flush(0, now=True)
        restore(world, copy)
        world.client().close()
        world.time.now = START + DAY + 100
        with world.client() as client:
            client.flush(0, now=True)
            client.flush(0, now=True)
        said.append({key for key in by_metric(world) if key[0] == "startup_ms"})
    assert said[0] == said[1]
    assert said[0] == ({("startup_ms", TODAY)} if pinned and restore is restore_in_place else set())


def test_a_copy_of_the_whole_directory_starts_closed(world: World) -> None:
    draw_today(world)
    aside = world.directory.with_name("aside")
    world.directory.rename(aside)
    shutil.copytree(aside, world.directory)
    check_that_today_is_closed(world)


def copy_as_others(world: World, backup: Path) -> None:
    world.directory.rename(world.directory.with_name(f"before {backup.name}"))  # which keeps the inodes in use
    shutil.copytree(backup, world.directory)


def copy_in_place(world: World, backup: Path) -> None:
    for saved in backup.iterdir():
        (world.directory / saved.name).write_bytes(saved.read_bytes())


@pytest.mark.everyday
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("restore", [copy_as_others, copy_in_place])
def test_a_directory_that_is_restored_a_second_time_starts_closed_again(
    world: World, restore: Callable[[World, Path], None], links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of a successor is no better known than that of any other file."""
    if not links:
        monkeypatch.setattr("os.link", full_disk)

    def day(number: int) -> None:
        world.time.now = START + number * DAY + 1_000
        with world.client() as client:
            client.flush(0)
            try_again(client)

    first, second = (world.directory.with_name(name) for name in ("first", "second"))
    day(0)
    shutil.copytree(world.directory, first)
    copy_as_others(world, first)
    day(0)  # closed, and nothing is charged to the successor yet
    shutil.copytree(world.directory, second)
    with witness(world).open("rb"):  # so that no later one has the same inode
        day(1)
        restore(world, second)
        day(1)
        day(2)
    assert draws(world) == {TODAY: 1, TODAY + 1: 1, TODAY + 2: 1}


def test_a_file_that_was_deleted_while_no_client_ran_starts_closed(world: World) -> None:
    draw_today(world)
    file(world).unlink()
    client = world.client()
    client.flush(0)
    assert try_again(client) is Outcome.OVER_BUDGET
    assert draws(world) == {TODAY: 1}


NUMBERS = b'{"database": 1, "itself": 1, "charged": %s, "steady": 1, "occasional": 1, "at": %s}'


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"no witness", None, NUMBERS % (b"1e999", b"1"), NUMBERS % (b"1", b"NaN")]
)
def test_a_witness_that_says_nothing_starts_closed(world: World, content: bytes | None) -> None:
    draw_today(world)
    if content is None:
        witness(world).unlink()
        witness(world).mkdir()
    else:
        witness(world).write_bytes(content)
    check_that_today_is_closed(world)


def test_a_copy_starts_closed_for_a_lifetime_limit(world: World) -> None:
    """What was spent since the copy was made is not known."""
    world.client(lifetime_epsilon=100).close()
    copy = file(world).read_bytes()
    draw_today(world, lifetime_epsilon=100)
    restore_in_place(world, copy)
    client = world.client(lifetime_epsilon=100)
    client.flush(0)
    world.time.now += DAY
    client.flush(0)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert client.ledger().complete is False


def test_a_file_of_the_version_before_the_witness_that_is_put_back_starts_closed(world: World) -> None:
    world.ready().close()
    make_version_four(world)
    copy = file(world).read_bytes()
    draw_today(world)
    restore_in_place(world, copy)
    check_that_today_is_closed(world)


# -- older copies under running clients ---------------------------------------------------------


@pytest.mark.parametrize("with_witness", [True, False])
def test_an_older_copy_that_is_written_over_a_file_in_use_is_noticed_before_anything_is_drawn(
    tmp_path: Path, with_witness: bool
) -> None:
    """By the steady lane, whatever was recorded."""
    reported: list[set[tuple[str, int]]] = []
    for recorded in (True, False):
        world = World(tmp_path / str(recorded) / "state")
        world.transport.bundle = signed(STEADY)
        clients = [world.ready(), world.ready()]
        assert clients[0]._state.scrub()
        copies = [(path, path.read_bytes()) for path in (file(world), witness(world))]
        for world.time.now in (START + 20_000, START + DAY + 20_000):
            for client in clients:
                if recorded:
                    client.record("theme", "dark")
                client.flush(0, now=True)
        drawn = by_metric(world)
        assert set(drawn.values()) == {1}
        assert clients[0]._state.scrub()
        for path, copy in copies[: 2 if with_witness else 1]:
            path.write_bytes(copy)  # the same inode
        for world.time.now in range(START + DAY + 30_000, START + 4 * DAY, 30_000):
            world.transport.bundle = signed(STEADY, now=int(world.time.now) // DAY * DAY)
            for client in clients:
                if recorded:
                    client.record("theme", "dark")
                client.flush(0, now=True)
        assert sum(client.stats().get("state:quarantined", 0) for client in clients) == 1
        assert set(by_metric(world).values()) == {1}
        reported.append({key for key in by_metric(world) if key[0] == "startup_ms"})
    assert reported[0] == reported[1]
    assert ("startup_ms", TODAY + 2) in reported[0]


def test_a_page_that_is_lost_under_a_running_client_is_noticed_before_anything_is_drawn_on_it(world: World) -> None:
    world.transport.bundle = signed(STEADY)
    with world.ready() as client:
        with client._state.transaction() as connection:
            connection.execute("DELETE FROM days")  # past the checksum
        world.time.now += DAY
        client.record("theme", "dark")
        with pytest.raises(NoDurableState), client._state.transaction() as connection:
            client._state.check(connection, "occasional")
        assert "state:quarantined" not in client.stats()  # else it could be seen that something was recorded
        client.flush(0, now=True)
        assert client.stats()["state:quarantined"] == 1


# -- what closes nothing ------------------------------------------------------------------------


def make_version_four(world: World) -> None:
    """The file as it was before it had checksums and a witness."""
    connection = sqlite3.connect(file(world))
    connection.execute("DELETE FROM facts WHERE name LIKE 'checksum:%' OR name LIKE 'counted%'")
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA user_version = 4")
    connection.commit()
    connection.close()
    witness(world).unlink()


def check_that_nothing_is_closed(world: World) -> None:
    """Today is spent and the other metric goes on; so does tomorrow."""
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED  # a later one, which changes nothing
        assert client.record("startup_ms", 3) is Outcome.RECORDED
        assert client.flush(0, now=True)
        assert draws(world) == {TODAY: 1}
        world.time.now = START + DAY + 1_000
        assert client.flush(0, now=True)
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
        assert draws(world) == {TODAY: 2, TODAY + 1: 1}  # with the mean of today
        assert "state:quarantined" not in client.stats()


def test_a_restart_closes_nothing(world: World) -> None:
    draw_today(world)
    check_that_nothing_is_closed(world)


def test_a_file_of_the_version_before_the_witness_goes_on(world: World) -> None:
    draw_today(world)
    make_version_four(world)
    check_that_nothing_is_closed(world)
    assert json.loads(witness(world).read_text())["occasional"] == 3 - 1


def test_a_file_that_nothing_was_ever_charged_to_may_be_copied_or_deleted(world: World) -> None:
    world.client().close()
    copy = file(world).read_bytes()
    restore_as_another_file(world, copy)
    world.client().close()
    file(world).unlink()
    draw_today(world)
    check_that_nothing_is_closed(world)


@pytest.mark.parametrize("tables", [["ledger"], ["ledger", "pins"], ["totals"], ["days"]])
def test_a_file_of_the_version_before_whose_totals_do_not_fit_its_rows_starts_closed(
    world: World, tables: list[str]
) -> None:
    draw_today(world)
    make_version_four(world)
    for table in tables:
        put_page(world, table, no_cells(page_of(world, table)))
    check_that_today_is_closed(world)


def old_rows(world: World, days: int) -> None:
    """What a device of the version before has after so many days, of which those more than 60 days ago are merged."""
    world.ready().close()
    make_version_four(world)
    today = int(START // DAY)
    connection = sqlite3.connect(file(world))
    first = today - days
    connection.execute(
        "INSERT INTO ledger VALUES ('theme', ?, ?, 'closed', NULL, NULL)", ((today - 60) * DAY, first * DAY)
    )
    for day in range(first, today):
        connection.execute("INSERT INTO days VALUES (?, '2')", (day,))
        if day >= today - 60:
            row = (day + 1) * DAY, day * DAY, day
            connection.execute("INSERT INTO ledger VALUES ('theme', ?, ?, 'spent', '2', ?)", row)
    spent = str(2 * (days + 1)), days
    connection.execute("UPDATE totals SET epsilon = ?, reports = ? WHERE metric = 'theme'", spent)
    connection.commit()
    connection.close()


def test_a_file_of_the_version_before_with_merged_rows_goes_on(world: World) -> None:
    old_rows(world, 200)
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert "state:quarantined" not in client.stats()
        assert client.ledger().spent == 2 * 201 + 1


def test_a_file_of_the_version_before_with_merged_rows_that_lost_others_starts_closed(world: World) -> None:
    old_rows(world, 200)
    connection = sqlite3.connect(file(world))
    connection.execute("DELETE FROM ledger WHERE decision <> 'closed'")
    connection.commit()
    connection.close()
    with world.client() as client:
        client.flush(0)
        assert try_again(client) is Outcome.OVER_BUDGET


def test_a_process_of_the_version_before_cannot_write_to_the_account_any_more(world: World) -> None:
    """One that has had the file open since before the update: it writes neither checksums nor a witness."""
    world.ready().close()
    make_version_four(world)
    old = sqlite3.connect(file(world), isolation_level=None)
    old.execute("UPDATE days SET epsilon = epsilon")
    world.ready().close()
    for table in ("ledger", "days", "totals"):
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET epsilon = epsilon"):  # noqa: S608  ours
            with pytest.raises(sqlite3.OperationalError, match=f"no such function: {VERSION_FUNCTION}"):
                old.execute(change)
    old.execute("DELETE FROM outbox")  # who opts out
    old.close()
    draw_today(world)
    check_that_nothing_is_closed(world)


def test_an_update_keeps_what_another_process_updates_at_the_same_time(world: World) -> None:
    world.ready().close()
    make_version_four(world)
    connection = connect(file(world), 0.0)
    with transaction(connection):
        upgrade(connection, 4, None)
    connection.close()
    draw_today(world)
    check_that_nothing_is_closed(world)


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_nothing_leaves_before_the_witness_knows_and_then_it_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between the two: the draw is on disk, and nobody has seen it."""
    with world.ready() as client:
        client.record("theme", "dark")
        with monkeypatch.context() as now:
            now.setattr(forgotten_spends, "write_witness", full_disk)
            assert client.flush(0, now=True) is False
        assert client.stats()["error:NoDurableState"] > 0
    assert world.transport.reports == []
    assert [row[3] for row in rows(world, "ledger") if row[0] == "theme"] == ["spent"]
    with world.ready() as client:
        assert client.flush(0, now=True)
    assert draws(world) == {TODAY: 1}
    check_that_nothing_is_closed(world)


def test_a_crash_before_the_first_witness_of_a_successor_closes_no_more_than_it_did(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_today(world)
    file(world).write_bytes(b"damaged" * 1_000)
    with monkeypatch.context() as now:
        now.setattr(forgotten_spends, "write_witness", full_disk)
        world.client().close()
    with world.client() as client:
        assert "state:quarantined" not in client.stats()
        client.flush(0)
        assert try_again(client) is Outcome.OVER_BUDGET
    world.time.now += DAY
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
    assert draws(world) == {TODAY: 1, TODAY + 1: 1}
    with world.client() as client:
        assert "state:quarantined" not in client.stats()


def test_a_first_witness_that_cannot_be_written_closes_nothing_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged without one."""
    with monkeypatch.context() as now:
        now.setattr(forgotten_spends, "write_witness", full_disk)
        with world.client() as client:
            client.flush(0)
            client.record("theme", "dark")
            assert client.flush(0, now=True) is False
            assert rows(world, "ledger") == []
            assert client.disable()
            assert client.enable()
    draw_today(world)
    check_that_nothing_is_closed(world)


def test_the_witness_of_one_lane_does_not_wait_for_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded must not show in when the steady lane sends."""
    written: list[Counted] = []

    def noted(path: Path, counted: Counted, at: float) -> Witness:
        written.append(counted)
        return write_witness(path, counted, at)

    client = world.ready()
    monkeypatch.setattr(forgotten_spends, "write_witness", noted)
    client.record("theme", "dark")
    world.settle(client)
    client._state.witness_draws("steady", client._state.generation)
    assert written == []
    client._state.witness_draws("occasional", client._state.generation)
    assert written == [Counted(charged=2, steady=0, occasional=1)]


def test_the_witness_of_one_lane_spares_the_other_no_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it show in whether that can be written."""
    world.transport.bundle = signed(STEADY)
    with world.ready() as client:
        client.record("theme", "dark")
        world.time.now = START + DAY + 5
        world.settle(client)
        client._state.witness_draws("occasional", client._state.generation)
        said = read_witness(file(world))
        assert said is not None
        assert (said.counted.steady, said.counted.occasional) == (0, 1)
        monkeypatch.setattr(forgotten_spends, "write_witness", full_disk)
        with pytest.raises(NoDurableState):
            client._state.witness_draws("steady", client._state.generation)


def test_a_witness_that_was_deleted_comes_back_by_a_pass_and_not_by_what_was_recorded(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    world.settle(client)
    witness(world).unlink()
    with pytest.raises(NoDurableState):
        client._state.witness_draws("occasional", client._state.generation)
    assert client.flush(0, now=True)
    assert witness(world).exists()
    client.close()
    check_that_nothing_is_closed(world)


def test_a_flush_waits_while_another_process_has_charged_and_not_witnessed_yet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two the witness is behind, or not there at all: here until this process has paused."""
    client = world.ready()
    settle, away = Randomizer.settle, witness(world).with_name("away")

    def behind(self: Randomizer, book: CodebooksInForce, lane: Lane, now: float) -> Settled:
        if lane is Lane.OCCASIONAL and not world.time.waits:
            witness(world).rename(away)
        try:
            return settle(self, book, lane, now)
        finally:
            if away.exists():
                away.rename(witness(world))

    client.record("theme", "dark")
    monkeypatch.setattr(Randomizer, "settle", behind)
    assert client.flush(60, now=True)
    assert world.time.waits
    assert "error:NoDurableState" not in client.stats()
    assert draws(world) == {TODAY: 1}


def test_reports_of_a_file_that_was_put_aside_are_not_vouched_for_by_the_next(world: World) -> None:
    client = world.ready()
    before = client._state.generation
    file(world).rename(file(world).with_name("elsewhere"))
    client.flush(0)
    with pytest.raises(NoDurableState):
        client._state.witness_draws("steady", before)


def test_what_kills_have_left_beside_the_witness_is_cleaned_up(world: World) -> None:
    world.client().close()
    (world.directory / "hubbub.witness.123-456").write_text("half")
    draw_today(world)
    assert sorted(path.name for path in world.directory.iterdir()) == ["hubbub.sqlite3", "hubbub.witness"]


def test_a_page_of_the_index_that_lost_its_rows_closes_what_had_begun(world: World) -> None:
    """By which budgets are added up."""
    draw_today(world)
    put_page(world, "ledger_end", no_cells(page_of(world, "ledger_end")))
    check_that_today_is_closed(world)


def test_merging_old_rows_hides_no_damage(world: World) -> None:
    with world.ready() as client:
        with client._state.transaction() as connection:
            for day in range(200):
                row = "theme", START - (day + 99) * DAY, START - (day + 100) * DAY
                connection.execute("INSERT INTO ledger VALUES (?, ?, ?, 'spent', '2', 0)", row)  # past the checksum
        with pytest.raises(NoDurableState), client._state.transaction() as connection:
            client._cycle.randomizer._ledger.compact(connection, world.time.now)
        assert client.stats()["state:quarantined"] == 1


# -- clocks -------------------------------------------------------------------------------------


@pytest.mark.everyday
@pytest.mark.parametrize("behind", CLOCKS_BEHIND)
@pytest.mark.parametrize("readable", [True, False])
def test_damage_that_is_found_by_a_clock_that_is_behind_leaves_nothing_open(
    world: World, behind: float, readable: bool
) -> None:
    draw_today(world)
    if readable:
        put_page(world, "outbox", b"\xff" * 4096)
    else:
        file(world).write_bytes(b"damaged" * 1_000)
    world.time.now += behind
    with world.client() as client:
        client.flush(0)
        client.flush(0)
    world.time.now = START + 5_000
    with world.client() as client:
        client.flush(0)
        assert try_again(client) is Outcome.OVER_BUDGET
        assert draws(world) == {TODAY: 1}
        world.time.now = START + DAY + 1_000
        assert client.flush(0)
        assert client.record("theme", "dark") is Outcome.RECORDED


@pytest.mark.parametrize("behind", CLOCKS_BEHIND)
def test_a_clock_that_falls_behind_reopens_nothing_that_damage_has_closed(world: World, behind: float) -> None:
    draw_today(world)
    file(world).write_bytes(b"damaged" * 1_000)
    client = world.client()
    client.flush(0)
    world.time.now += behind
    client.flush(0)
    world.time.now = START + 5_000
    client.flush(0)
    assert try_again(client) is Outcome.OVER_BUDGET
    assert draws(world) == {TODAY: 1}


def test_what_a_clock_far_ahead_has_spent_does_not_silence_for_years_after_damage(world: World) -> None:
    world.transport.bundle = signed(lifetime=1_000 * DAY)
    with world.ready() as client:
        world.time.now += 400 * DAY
        assert client.flush(0)
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert client.flush(0, now=True)
        far = period_of(world.time.now)
        world.time.now -= 400 * DAY
        client.flush(0)
        client.record("theme", "dark")
        client.flush(0, now=True)
    put_page(world, "outbox", b"\xff" * 4096)
    with world.client() as client:
        client.flush(0)
        assert client.stats()["state:quarantined"] == 1
    world.time.now += DAY
    with world.client() as client:
        client.flush(0)
        assert client.record("theme", "dark") is Outcome.RECORDED
        client.flush(0, now=True)
        assert draws(world)[TODAY + 1] == 1
        world.time.now = START + 400 * DAY + 1_000
        client.flush(0)
        client.record("theme", "dark")
        client.flush(0, now=True)
    assert draws(world)[far] == 1


def test_what_a_clock_ahead_has_spent_stays_spent_when_the_file_is_destroyed(world: World) -> None:
    """Also when the witness was written again since, by a clock that was right."""
    world.transport.bundle = signed(HOURLY)

    def draw() -> None:
        with world.client() as client:
            client.flush(0)
            try_again(client)

    draw()
    world.time.now += 7_200
    draw()
    world.time.now -= 3_600
    draw()
    file(world).write_bytes(b"damaged" * 1_000)
    draw()
    world.time.now += 3_600
    draw()
    assert set(by_metric(world).values()) == {1}
    world.time.now += 3_600
    draw()
    hour = int(START // 3_600)
    assert set(by_metric(world)) == {("theme", hour + number) for number in (0, 1, 2, 3)}


def test_a_look_at_a_clock_far_ahead_does_not_silence_after_damage(world: World) -> None:
    world.time.now += 400 * DAY  # the bundle is past its last day: nothing is drawn
    with world.client() as client:
        client.flush(0)
    world.time.now -= 400 * DAY
    file(world).write_bytes(b"damaged" * 1_000)
    with world.client() as client:
        client.flush(0)
    world.time.now += DAY
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED


def test_a_start_by_the_right_clock_takes_back_what_one_far_ahead_has_said(world: World) -> None:
    world.transport.bundle = signed(lifetime=1_000 * DAY)
    draw_today(world)
    world.time.now += 400 * DAY
    world.ready().close()
    world.time.now -= 400 * DAY
    world.client().close()
    file(world).write_bytes(b"damaged" * 1_000)
    with world.client() as client:
        client.flush(0)
    world.time.now += DAY
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED


def test_the_times_of_the_files_count_where_the_witness_does_not(world: World) -> None:
    draw_today(world)
    for path in (file(world), witness(world)):
        os.utime(path, (START + 9 * DAY, START + 9 * DAY))
    said = json.loads(witness(world).read_text())["at"]
    assert said == START + 1  # when the latest charged period began
    assert last_seen(file(world), by_system_clock=True) == said
    witness(world).write_bytes(b"?")
    assert last_seen(file(world), by_system_clock=False) == 0
    os.utime(file(world), (START + 9 * DAY, START + 9 * DAY))
    assert last_seen(file(world), by_system_clock=True) >= START + 9 * DAY
