"""Backups: a restored aggregator gives the same answers, holds no key unless asked, and rolls nothing back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hubbub.bundle import verify
from hubbub.errors import BundleError, InvalidParameter
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.operations.backup_and_restore import backup
from hubbub_aggregator.publication.keys import IDENTITY, KeyRing, new_identity
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import SqliteStorage
from hubbub_cli.commands.aggregator import aggregator
from tests.aggregator.api.test_batches import problem
from tests.aggregator.publication.test_begun_periods import refuse_if_changed
from tests.aggregator.world import CODEBOOK, START, Site, whole
from tests.support.clock import Clock
from tests.support.patience import PATIENCE
from tests.support.unwrapped import unwrapped

QUESTIONS = [
    "/v1/metrics",
    "/v1/metrics/dark_mode/estimate",
    "/v1/metrics/theme/estimate?confidence=0.9&simultaneous=true&postprocess=norm_sub",
    "/v1/releases",
]


def command(*arguments: object) -> Result:
    return CliRunner().invoke(aggregator, [str(argument) for argument in arguments])


def answers(site: Site) -> list[bytes]:
    found = [site.get(path) for path in QUESTIONS]
    assert [answer.status_code for answer in found] == [200] * len(QUESTIONS)
    return [answer.content for answer in found]


def secrets(site: Site) -> list[bytes]:
    keys = [key.private_key for key in site.service.storage.sealing_keys() if key.private_key is not None]
    return [*keys, (site.state_dir / IDENTITY).read_bytes()]


@pytest.fixture
def filled(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr("time.time", site.clock)  # of the command, too: what has begun depends on it
    site.settle(site.batch("dark_mode", [True] * 250))
    site.settle(site.batch("theme", ["light", "dark"] * 300))
    site.settle(site.batch("dark_mode", [True] * 3))
    return site


@pytest.fixture
def restored(tmp_path: Path, pool: Pool) -> Iterator[Any]:
    """Opens an aggregator on a state directory that a command filled."""
    sites: list[Site] = []

    def open_(old: Site) -> Site:
        root = tmp_path / "new"
        settings = Settings(codebook=old.codebook, state_dir=root / "state")
        sites.append(Site(root / "state", old.codebook, Clock(old.clock.now), settings, pool))
        return sites[-1]

    (tmp_path / "new").mkdir()
    yield open_
    for site in sites:
        site.close()


def test_a_restored_aggregator_gives_the_same_bytes(filled: Site, restored: Any, tmp_path: Path) -> None:
    before, file, state = answers(filled), tmp_path / "copy", tmp_path / "new" / "state"
    made = command("backup", file, "--state-dir", filled.state_dir, "--with-keys")
    assert made.exit_code == 0, made.output
    assert "holds every private key" in made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    done = command("restore", file, "--state-dir", state)
    assert done.exit_code == 0, done.output
    assert "0 sealing keys were revoked" in unwrapped(done.output)
    new = restored(filled)

    assert answers(new) == before
    assert new.service.anchor == filled.service.anchor
    assert set(secrets(new)) > set(secrets(filled))  # and those of one key more
    assert new.service.storage.tallied() == filled.service.storage.tallied()
    for path in state.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_what_was_counted_before_the_backup_is_not_counted_again_after_it(
    site: Site, restored: Any, tmp_path: Path
) -> None:
    plaintexts, name = site.plaintexts("dark_mode", [True] * 250), os.urandom(16)
    header = site.header("dark_mode", 250)
    body = whole(header, site.seal(header, plaintexts))
    first = site.settle(body, name)
    made = command("backup", tmp_path / "copy", "--state-dir", site.state_dir, "--with-keys", "--json")
    assert json.loads(made.stdout) == {"file": str(tmp_path / "copy"), "with_keys": True}
    done = command("restore", tmp_path / "copy", "--state-dir", tmp_path / "new" / "state", "--json")
    assert json.loads(done.stdout)["revoked"] == 0
    new = restored(site)
    assert new.put(body, name).json() == first
    assert new.settle(whole(header, site.seal(header, plaintexts)))["invalid"] == {"duplicate": 250}


def test_without_being_asked_a_backup_holds_no_private_key(filled: Site, restored: Any, tmp_path: Path) -> None:
    file, state = tmp_path / "copy", tmp_path / "new" / "state"
    assert command("backup", file, "--state-dir", filled.state_dir).exit_code == 0
    raw = file.read_bytes()
    for secret in secrets(filled):
        assert secret not in raw
    old = filled.bundle()

    refused = command("restore", file, "--state-dir", state)
    assert isinstance(refused.exception, InvalidParameter)
    assert "devices trust no other" in str(refused.exception)
    state.mkdir(exist_ok=True)
    (state / IDENTITY).write_bytes((filled.state_dir / IDENTITY).read_bytes())
    (state / IDENTITY).chmod(0o600)
    assert "3 sealing keys were revoked" in unwrapped(command("restore", file, "--state-dir", state).output)

    filled.clock.now += 60
    new = restored(filled)
    after = verify(new.get("/v1/bundle").content, [new.service.anchor], new.clock(), old.seen)
    ids = {key.id for key in old.body.keys}
    assert {key.id for key in after.body.keys if key.state == "revoked"} == ids
    refuse_if_changed(old.body, after.body, new.clock())
    assert after.body.key_for(new.period) is None  # it has begun: another key would split its crowd
    key = after.body.key_for(new.period + 1)
    assert key is not None
    assert key.id not in ids  # devices see that it is gone
    problem(new.put(filled.batch("dark_mode", [True] * 250)), "revoked-key")
    new.clock.now += 24 * 3600
    new.service.tick()
    assert new.settle(new.batch("dark_mode", [False] * 250))["state"] == "accepted"


@pytest.mark.everyday(1)
@pytest.mark.parametrize("keys", [["--with-keys"], []])
def test_with_the_newest_bundle_a_restored_aggregator_forgets_nothing_that_was_published(
    filled: Site, restored: Any, tmp_path: Path, keys: list[str]
) -> None:
    """Keys, a revocation and a codebook of after the copy: else a shuffler would refuse what is published next."""
    state, relayed = tmp_path / "new" / "state", tmp_path / "bundle"
    command("backup", tmp_path / "copy", "--state-dir", filled.state_dir, *keys)
    filled.service.ring.revoke(1, filled.clock())
    filled.service.codebooks.switch("theme", off=True)
    for _ in range(3):
        filled.clock.now += 24 * 3600
        filled.service.tick()
    filled.reopen(CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark"))
    newest = filled.bundle()
    relayed.write_bytes(filled.get("/v1/bundle").content)
    state.mkdir()
    shutil.copy(filled.state_dir / IDENTITY, state / IDENTITY)

    done = command("restore", tmp_path / "copy", "--state-dir", state, "--bundle", relayed)
    assert done.exit_code == 0, done.output
    filled.clock.now += 60
    new = restored(filled)

    after = verify(new.get("/v1/bundle").content, [new.service.anchor], new.clock(), newest.seen).body
    refuse_if_changed(newest.body, after, new.clock())
    assert after.codebooks == newest.body.codebooks
    assert after.off == newest.body.off != frozenset()
    assert new.service.storage.switched_off() == {"theme"}
    states = {key.id: key.state for key in after.keys}
    assert states[1] == states[5] == "revoked"
    assert states[0] == ("active" if keys else "revoked")
    assert after.key_for(new.period) is None
    assert after.key_for(new.period + 1) is not None


def test_a_bundle_of_another_identity_is_not_believed(filled: Site, tmp_path: Path) -> None:
    command("backup", tmp_path / "copy", "--state-dir", filled.state_dir, "--with-keys")
    (tmp_path / "bundle").write_bytes(filled.get("/v1/bundle").content.replace(b"ed25519:", b"ed25519:A", 1))
    state = tmp_path / "elsewhere"
    refused = command("restore", tmp_path / "copy", "--state-dir", state, "--bundle", tmp_path / "bundle")
    assert isinstance(refused.exception, BundleError)
    assert not (state / DATABASE).exists()


def test_what_reading_a_refused_batch_cost_is_in_the_copy(filled: Site, restored: Any, tmp_path: Path) -> None:
    header = filled.header("dark_mode", 300)
    few = filled.seal(header, filled.plaintexts("dark_mode", [True] * 30))
    filled.settle(whole(header, [*few, *(os.urandom(header.size) for _ in range(270))]))
    before = filled.json("/v1/privacy")
    assert before["opened_and_refused"] == 1
    command("backup", tmp_path / "copy", "--state-dir", filled.state_dir, "--with-keys")
    command("restore", tmp_path / "copy", "--state-dir", tmp_path / "new" / "state")
    assert restored(filled).json("/v1/privacy") == before


def test_a_restore_without_keys_says_when_reports_are_collected_again(
    tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(START + 3600)
    short = CODEBOOK.replace('"1d"', '"10s"')
    site = Site.open(tmp_path, pool, short, clock=clock)
    monkeypatch.setattr(time, "time", clock)
    state = tmp_path / "new" / "state"
    state.mkdir(parents=True, mode=0o700)
    shutil.copy2(site.state_dir / IDENTITY, state / IDENTITY)
    command("backup", tmp_path / "copy", "--state-dir", site.state_dir)
    said = command("restore", tmp_path / "copy", "--state-dir", state).output
    site.close()

    again = f"{datetime.fromtimestamp(START + 3600 + 2 * 3600, UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert f"reports are collected again from {again} on" in said
    assert "(2h)" in said
    new = Site(state, site.codebook, clock, Settings(codebook=site.codebook, state_dir=state), pool)
    (warning,) = new.get("/readyz").json()["warnings"]
    assert warning["name"] == "keys"
    assert f"no live key for the present period until {again}" in warning["detail"]
    clock.now += 2 * 3600
    new.service.tick()
    assert new.get("/readyz").json() == {"ok": True}
    new.close()


def test_a_restored_aggregator_can_not_roll_the_bundle_back(filled: Site, restored: Any, tmp_path: Path) -> None:
    command("backup", tmp_path / "copy", "--state-dir", filled.state_dir, "--with-keys")
    for hours in (1, 24):  # devices get newer bundles before the disk is lost
        filled.clock.now += hours * 3600
        filled.service.ring.rotate(filled.clock())
        filled.service.tick()
    seen = filled.bundle().seen
    command("restore", tmp_path / "copy", "--state-dir", tmp_path / "new" / "state")
    filled.clock.now += 60
    new = restored(filled)
    new.service.tick()
    found = verify(new.get("/v1/bundle").content, [new.service.anchor], new.clock(), seen)
    assert found.body.sequence >= new.clock() > seen.sequence


@pytest.mark.everyday(1)
@pytest.mark.parametrize("keys", [["--with-keys"], []])
def test_no_key_id_comes_back_that_a_key_made_after_the_copy_had(
    filled: Site, restored: Any, tmp_path: Path, keys: list[str]
) -> None:
    """Devices may have sealed with that key: the same id would mix what opens with what never will."""
    state = tmp_path / "new" / "state"
    command("backup", tmp_path / "copy", "--state-dir", filled.state_dir, *keys)
    before = {key.id for key in filled.bundle().body.keys}
    for _ in range(5):
        filled.clock.now += 24 * 3600
        filled.service.tick()
    lost = {key.id for key in filled.bundle().body.keys} - before
    assert len(lost) == 5
    state.mkdir()
    shutil.copy(filled.state_dir / IDENTITY, state / IDENTITY)
    assert command("restore", tmp_path / "copy", "--state-dir", state).exit_code == 0
    new = restored(filled)
    new.service.tick()
    found = new.bundle().body
    assert {key.id for key in found.keys}.isdisjoint(lost)
    assert found.key_for(new.period + 2) is not None


def test_a_restore_that_fails_half_way_leaves_no_database_and_can_be_done_again(
    filled: Site, restored: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, state = tmp_path / "copy", tmp_path / "new" / "state"
    command("backup", file, "--state-dir", filled.state_dir, "--with-keys")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space is left")

    with monkeypatch.context() as broken:
        broken.setattr(KeyRing, "ensure", fail)
        assert isinstance(command("restore", file, "--state-dir", state).exception, OSError)
    assert sorted(path.name for path in state.iterdir()) == [IDENTITY, "lock"]
    assert command("restore", file, "--state-dir", state).exit_code == 0
    assert answers(restored(filled)) == answers(filled)


def test_a_backup_is_not_brought_back_under_another_identity(filled: Site, tmp_path: Path) -> None:
    file, state = tmp_path / "copy", tmp_path / "elsewhere"
    command("backup", file, "--state-dir", filled.state_dir)
    new_identity(state)
    refused = command("restore", file, "--state-dir", state)
    assert "another identity" in str(refused.exception)
    assert not (state / DATABASE).exists()


def test_a_batch_that_waited_is_asked_for_again(site: Site, restored: Any, tmp_path: Path) -> None:
    body, name = site.batch("dark_mode", [True] * 250), os.urandom(16)
    site.put(body, name)
    command("backup", tmp_path / "copy", "--state-dir", site.state_dir, "--with-keys")
    command("restore", tmp_path / "copy", "--state-dir", tmp_path / "new" / "state")
    new = restored(site)
    new.work()
    problem(new.get(f"/v1/batches/{name.hex()}"), "not-found")
    assert new.settle(body, name)["state"] == "accepted"


def test_a_copy_made_while_it_works_is_whole(site: Site, tmp_path: Path) -> None:
    """Verdicts, counts and nonces of each batch are in it together or not at all."""
    bodies = [site.batch("dark_mode", [True] * 150, seed=seed) for seed in range(8)]
    stop = threading.Event()
    copies: list[Path] = []

    def copy() -> None:
        while not stop.is_set():
            copies.append(tmp_path / f"copy-{len(copies)}")
            backup(site.state_dir / DATABASE, copies[-1])

    copying = threading.Thread(target=copy)
    copying.start()
    try:
        for body in bodies:
            site.settle(body)
    finally:
        stop.set()
        copying.join()
    assert len(copies) > 1
    for file in copies:
        with closing(sqlite3.connect(file)) as database:
            accepted = database.execute("SELECT id FROM batches WHERE state = 'accepted' ORDER BY id").fetchall()
            released = database.execute("SELECT id FROM releases ORDER BY id").fetchall()
            (version,) = database.execute("SELECT coalesce(max(version), 0) FROM batches").fetchone()
            counted = database.execute("SELECT DISTINCT batch FROM nonces ORDER BY batch").fetchall()
        assert accepted == released == counted
        assert version == len(released)


def test_a_service_that_writes_all_the_time_does_not_hold_up_its_copy(tmp_path: Path) -> None:
    """Nor does the copy hold up the service: what is written in between is not in it."""
    path = tmp_path / DATABASE
    storage = SqliteStorage(path)
    with closing(sqlite3.connect(path)) as large, large:
        large.executemany("INSERT INTO codebooks VALUES (?, ?)", ((n, bytes(2**20)) for n in range(32)))
    copied, written = threading.Event(), 0

    def copy() -> None:
        backup(path, tmp_path / "copy")
        copied.set()

    copying = threading.Thread(target=copy)
    copying.start()
    until = time.monotonic() + PATIENCE
    while not copied.is_set() and time.monotonic() < until:
        written += 1
        storage.remember("number", written)
    done = copied.is_set()
    copying.join()
    storage.close()
    assert done


def test_nothing_is_overwritten_and_no_other_file_is_taken(filled: Site, tmp_path: Path) -> None:
    file = tmp_path / "copy"
    file.write_text("precious")
    assert isinstance(command("backup", file, "--state-dir", filled.state_dir).exception, InvalidParameter)
    assert file.read_text() == "precious"
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy"]
    for wrong in (file, tmp_path / "missing", filled.state_dir / DATABASE):
        result = command("restore", wrong, "--state-dir", tmp_path / "empty")
        assert isinstance(result.exception, InvalidParameter), wrong
    assert not (tmp_path / "empty" / DATABASE).exists()
    good = tmp_path / "good"
    command("backup", good, "--state-dir", filled.state_dir, "--with-keys")
    assert "exists already" in str(command("restore", good, "--state-dir", filled.state_dir).exception)
    assert isinstance(command("backup", tmp_path / "x", "--state-dir", tmp_path / "none").exception, InvalidParameter)


def test_a_redis_is_copied_by_its_own_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_AGGREGATOR_STORAGE", "redis://:a-password@127.0.0.1:1/0")
    for name in ("backup", "restore"):
        result = command(name, tmp_path / "copy", "--state-dir", tmp_path)
        assert "append-only file" in str(result.exception)
        assert "a-password" not in str(result.exception) + result.output
