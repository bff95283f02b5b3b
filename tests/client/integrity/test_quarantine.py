"""Quarantine: a damaged state file is put aside and counted, and is never a reason to spend twice."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hubbub_client import Client, Outcome
from hubbub_client._display.inspection import inspect
from hubbub_client._state import database
from tests.client.world import DAY, HOURLY, START, TOML, World, period_of, rows, signed

STEADY = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")


def damaged(world: World) -> Path:
    return world.directory / "hubbub.sqlite3.damaged"


def damage(world: World, start: int = 0, text: bytes = b"not a database" * 100) -> None:
    """Overwrite a part of the file, as a failing disk would. No client has it open."""
    with (world.directory / "hubbub.sqlite3").open("r+b") as file:
        file.seek(start)
        file.write(text)


def harm(world: World, table: str) -> None:
    """Overwrite a table that is no part of the account: what was spent can still be read."""
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    damage(world, (page - 1) * size, b"\xff" * size)


def spent_today(world: World, **limits: object) -> Client:
    """A client that has sent a report of today, and whose file is damaged then."""
    with world.ready(**limits) as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1
    damage(world)
    return world.client(**limits)


def test_a_damaged_file_is_put_aside_and_counted_and_the_app_goes_on(world: World) -> None:
    client = spent_today(world)
    assert client.stats()["state:quarantined"] == 1
    assert damaged(world).read_bytes().startswith(b"not a database")
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET  # today


def test_what_may_have_been_spent_before_the_damage_is_not_spent_again(world: World) -> None:
    client = spent_today(world)
    assert client.flush(0)
    for world.time.now in range(START + 2_000, START + DAY, 20_000):
        client.record("theme", "dark")
        client.record("startup_ms", 3)
        client.flush(0, now=True)
    assert len(world.transport.reports) == 1

    world.time.now = START + DAY
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)
    assert [header.period for header, _ in world.opened()] == [period_of(START), period_of(START) + 1]


def test_with_a_limit_per_day_the_rest_of_the_day_counts_as_spent(world: World) -> None:
    """Shorter periods begin after the damage, but what the day has spent before is not known."""
    world.transport.bundle = signed(HOURLY)
    client = spent_today(world, max_epsilon=100)
    assert client.flush(0)
    world.time.now += 2 * 3_600
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    world.time.now = START + DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED


def test_a_lifetime_limit_stays_closed_when_what_was_spent_can_no_longer_be_read(world: World) -> None:
    client = spent_today(world, lifetime_epsilon=100)
    assert client.flush(0)
    world.time.now += 10 * DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert client.ledger().complete is False


def test_between_the_damaged_file_and_its_successor_the_account_is_incomplete(world: World) -> None:
    """The cycle that finds the damage makes no successor, and an app may never run another one."""
    with world.ready() as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
        assert client.ledger().complete
    harm(world, "pages")
    world.time.now += DAY

    client = world.client()
    client.flush(0)
    assert damaged(world).exists()
    assert not (world.directory / "hubbub.sqlite3").exists()
    assert client.ledger().complete is False
    assert inspect(world.directory, world.time.now).account.complete is False

    unwilling = world.client(consent=False)  # another process, which makes no file, and deletes the damaged one
    assert not damaged(world).exists()
    assert unwilling.ledger().complete is False  # the witness still knows
    assert inspect(world.directory, world.time.now).account.complete is False


def test_totals_that_can_still_be_read_are_carried_over(world: World) -> None:
    with world.ready(lifetime_epsilon=7) as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    harm(world, "outbox")

    client = world.client(lifetime_epsilon=7)
    assert client.flush(0) or client.flush(0)

    assert client.stats()["state:quarantined"] == 1
    account = client.ledger()
    assert (account.complete, account.spent) == (True, 3.0)
    world.time.now += DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert client.flush(0, now=True)
    world.time.now += DAY
    assert client.flush(0)
    assert client.record("startup_ms", 3) is Outcome.RECORDED
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET  # nine, of seven


def test_a_process_that_has_the_damaged_file_open_moves_on_with_the_others(world: World) -> None:
    first, second = world.ready(), world.ready()
    (world.directory / "hubbub.sqlite3").rename(damaged(world))
    for ending in ("-wal", "-shm"):
        (world.directory / f"hubbub.sqlite3{ending}").unlink(missing_ok=True)
    world.time.now += 5

    for client in (first, second):
        client.flush(0)
        assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    world.time.now = START + DAY
    for client in (first, second):
        assert client.record("theme", "dark") is Outcome.RECORDED
    assert all(client.flush(5, now=True) for client in (first, second))
    assert len({plaintext.nonce for _, plaintext in world.opened()}) == 1


@pytest.mark.parametrize("step", ["identity", "connect", "version_of"])
def test_a_process_that_opens_a_file_while_another_puts_it_aside_moves_on_with_it(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its steps that comes after: it stays with no file that was put aside."""
    world.transport.bundle = signed(STEADY)
    world.ready().close()
    world.directory.rename(world.directory.with_name("aside"))
    shutil.copytree(world.directory.with_name("aside"), world.directory)
    clients: list[Client] = []
    real = getattr(database, step)

    def slow(*given: Any) -> Any:
        done = real(*given)
        monkeypatch.setattr(database, step, real)
        clients.append(world.client())  # which finds that the directory is a copy
        clients[0].flush(0)
        return done

    monkeypatch.setattr(database, step, slow)
    clients.append(world.client())
    assert clients[0].stats()["state:quarantined"] == 1
    for day in (1, 2, 3):
        world.time.now = START + day * DAY + 50_000
        world.transport.bundle = signed(STEADY, now=START + day * DAY)
        for client in clients:
            client.flush(0, now=True)
    periods = [header.period - period_of(START) for header, _ in world.opened()]
    assert sorted(periods) == [1, 2]


def test_a_file_that_someone_deletes_while_it_is_open_counts_as_lost(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0, now=True)
    for path in world.directory.iterdir():
        path.unlink()
    client.flush(0)
    client.flush(0, now=True)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


@pytest.mark.parametrize("limit", [None, 100])
def test_a_file_that_is_found_empty_has_lost_what_it_held(world: World, limit: float | None) -> None:
    with world.ready(lifetime_epsilon=limit) as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    (world.directory / "hubbub.sqlite3").write_bytes(b"")

    client = world.client(lifetime_epsilon=limit)
    assert client.flush(0)
    assert client.stats()["state:quarantined"] == 1
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    world.time.now += DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is (Outcome.RECORDED if limit is None else Outcome.OVER_BUDGET)


def test_a_new_file_is_private_and_leaves_nothing_but_its_witness_beside_it(world: World) -> None:
    world.ready().close()
    files = sorted(world.directory.iterdir())
    assert [file.name for file in files] == ["hubbub.sqlite3", "hubbub.witness"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_file_system_without_links_will_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refused)
    with world.ready() as client:
        assert client.record("theme", "dark") is Outcome.RECORDED
        assert (world.directory / "hubbub.sqlite3").stat().st_mode & 0o777 == 0o600
    assert "state:quarantined" not in client.stats()


def test_a_crash_between_putting_aside_and_starting_anew_forgets_nothing(world: World) -> None:
    client = spent_today(world)
    client.close()
    for path in world.directory.glob("hubbub.sqlite3*"):
        if path != damaged(world):
            path.unlink()
    client = world.ready()
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_crash_between_putting_aside_and_starting_anew_keeps_totals_that_can_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a device with a limit for its lifetime would report no more."""
    with world.ready(lifetime_epsilon=100) as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    harm(world, "outbox")

    def killed(*_: object) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as now:
        now.setattr(database, "create", killed)
        with world.client(lifetime_epsilon=100) as client:
            client.flush(0)
    assert damaged(world).exists()
    assert not (world.directory / "hubbub.sqlite3").exists()

    client = world.client(lifetime_epsilon=100)
    client.flush(0)
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET
    assert (client.ledger().complete, client.ledger().spent) == (True, 3.0)
    world.time.now += DAY
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED


def test_an_older_damaged_file_does_not_speak_for_one_that_is_gone(world: World) -> None:
    with world.ready(lifetime_epsilon=100) as client:
        client.record("theme", "dark")
        assert client.flush(0, now=True)
    harm(world, "outbox")
    with world.client(lifetime_epsilon=100) as client:
        assert client.flush(0) or client.flush(0)
        world.time.now += DAY
        assert client.flush(0)
    (world.directory / "hubbub.sqlite3").unlink()
    client = world.client(lifetime_epsilon=100)
    world.time.now += DAY
    client.flush(0)
    assert client.ledger().complete is False
    assert client.record("theme", "dark") is Outcome.OVER_BUDGET


def test_a_clock_that_was_far_ahead_when_the_file_was_damaged_does_not_silence_for_years(world: World) -> None:
    world.ready().close()
    damage(world)
    world.time.now = START + 3_000 * DAY
    world.client().close()

    world.time.now = START + 2_000
    client = world.client()
    client.flush(0)
    world.time.go_to(world.time.now + DAY)
    assert client.flush(0)
    assert client.record("theme", "dark") is Outcome.RECORDED


def test_withdrawing_consent_deletes_the_damaged_file_too(world: World) -> None:
    client = spent_today(world)
    assert damaged(world).exists()
    client.disable()
    assert not damaged(world).exists()


def test_a_file_of_a_newer_version_is_left_alone_and_nothing_is_reported(world: World) -> None:
    with world.ready() as client:
        client.record("theme", "dark")
    before = [rows(world, table) for table in ("ledger", "pins", "outbox", "totals")]
    connection = sqlite3.connect(world.directory / "hubbub.sqlite3")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    client = world.client()

    assert client.record("theme", "dark") is Outcome.NO_DURABLE_STATE
    assert client.flush(0, now=True) is False
    assert client.stats()["state:newer-version"] >= 1
    assert not damaged(world).exists()
    assert [rows(world, table) for table in ("ledger", "pins", "outbox", "totals")] == before
