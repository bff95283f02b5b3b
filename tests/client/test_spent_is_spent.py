"""What was spent stays spent when the state file loses a page, is replaced by an older copy, or meets a wrong clock."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hubbub_client import Client, Outcome, _guard
from hubbub_client._quarantine import last_seen
from hubbub_client._witness import Drawn, Witness, write_witness
from tests.client.world import DAY, START, World, period_of, rows, signed

TODAY = period_of(START)
CLOCKS_BEHIND = [-8.0, -7_200.0, -5.0 * DAY, -400.0 * DAY]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state")


def file(world: World) -> Path:
    return world.directory / "hubbub.sqlite3"


def witness(world: World) -> Path:
    return world.directory / "hubbub.witness"


def draws(world: World) -> Counter[int]:
    """Distinct reports of the theme, by period."""
    nonces = {(header.period, plaintext.nonce) for header, plaintext in world.opened()}
    return Counter(period for period, _ in nonces)


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


@pytest.mark.parametrize("table", ["ledger", "totals"])
def test_an_older_page_of_the_account_closes_what_had_begun(world: World, table: str) -> None:
    world.ready().close()
    charged = page_of(world, table)
    draw_today(world)
    put_page(world, table, charged)
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


@pytest.mark.parametrize("restore", [restore_in_place, restore_as_another_file])
def test_a_copy_from_before_today_was_drawn_starts_closed(
    world: World, restore: Callable[[World, bytes], None]
) -> None:
    world.ready().close()  # today is charged
    copy = file(world).read_bytes()
    draw_today(world)
    restore(world, copy)
    check_that_today_is_closed(world)


def test_a_copy_of_the_whole_directory_starts_closed(world: World) -> None:
    draw_today(world)
    aside = world.directory.with_name("aside")
    world.directory.rename(aside)
    shutil.copytree(aside, world.directory)
    check_that_today_is_closed(world)


def test_a_file_that_was_deleted_while_no_client_ran_starts_closed(world: World) -> None:
    draw_today(world)
    file(world).unlink()
    client = world.client()
    client.flush(0)
    assert try_again(client) is Outcome.OVER_BUDGET
    assert draws(world) == {TODAY: 1}


@pytest.mark.parametrize("content", [b"", b"{}", b"no witness"])
def test_a_witness_that_says_nothing_starts_closed(world: World, content: bytes) -> None:
    draw_today(world)
    witness(world).write_bytes(content)
    check_that_today_is_closed(world)


def test_a_copy_starts_closed_for_a_lifetime_limit(world: World) -> None:
    """What was spent since the copy was made is not known."""
    world.ready(lifetime_epsilon=100).close()
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


# -- what closes nothing ------------------------------------------------------------------------


def make_version_four(world: World) -> None:
    """The file as it was before it had checksums and a witness."""
    connection = sqlite3.connect(file(world))
    connection.execute("DELETE FROM facts WHERE name LIKE 'checksum:%' OR name LIKE 'drawn%'")
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


def test_a_file_that_nothing_was_ever_drawn_from_may_be_copied_or_deleted(world: World) -> None:
    world.ready().close()
    copy = file(world).read_bytes()
    restore_as_another_file(world, copy)
    world.ready().close()
    file(world).unlink()
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
            now.setattr(_guard, "write_witness", full_disk)
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
        now.setattr(_guard, "write_witness", full_disk)
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


def test_the_witness_of_one_lane_does_not_wait_for_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded must not show in when the steady lane sends."""
    written: list[Drawn] = []

    def noted(path: Path, drawn: Drawn, at: float) -> Witness:
        written.append(drawn)
        return write_witness(path, drawn, at)

    client = world.ready()
    monkeypatch.setattr(_guard, "write_witness", noted)
    client.record("theme", "dark")
    world.settle(client)
    client._state.attest("steady")
    assert written == []
    client._state.attest("occasional")
    assert written == [Drawn(steady=0, occasional=1)]


# -- clocks -------------------------------------------------------------------------------------


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


def test_the_times_of_the_files_count_by_the_clock_of_the_system(world: World) -> None:
    draw_today(world)
    for path in (file(world), witness(world)):
        os.utime(path, (START + 7, START + 7))
    said = json.loads(witness(world).read_text())["at"]
    assert last_seen(file(world), by_system_clock=False) == said
    os.utime(file(world), (START + 9 * DAY, START + 9 * DAY))
    assert last_seen(file(world), by_system_clock=True) == START + 9 * DAY
