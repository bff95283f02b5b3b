"""Repeated damage, also beside other trouble: it costs reports of one bucket, and holds up no other."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hubbub_cli.commands.shuffler import shuffler
from hubbub_shuffler.ingest.admission import Admitted
from hubbub_shuffler.ingest.group_commit import Commits
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Damage, Plan, StorageError, Terms
from hubbub_shuffler.storage.repair_schedule import Repair
from hubbub_shuffler.storage.sqlite import erase
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.backends import BUCKET, OTHER
from tests.shuffler.storage.test_sqlite_damage import PAGE, adds_up, emptied
from tests.shuffler.world import unique
from tests.support.clock import Clock
from tests.support.small_disk import small_disk
from tests.support.unwrapped import unwrapped

REPORTS = 200
TERMS = Terms("theme", 200, 1_000, 2)
SOON = Terms("other", 200, 10, 2)
MOST_ROUNDS = 400
"""A leaf has 16 slots at least: 400 draws miss it with probability (200 / 600)^16 < 1e-7."""


class Worn:
    """A file with a bucket that is damaged, and another one beside it; all reports came one by one."""

    def __init__(self, directory: Path) -> None:
        self.path, self.clock = directory / "reports.sqlite", Clock(0)
        self.storage = self.opened()
        self.sealed, self.others = unique(REPORTS, TERMS.size), unique(20, SOON.size)
        for each in self.sealed:
            self.storage.add([Arrivals(BUCKET, TERMS, [each])])
        for each in self.others:
            self.storage.add([Arrivals(OTHER, SOON, [each])])

    def opened(self) -> SqliteStorage:
        return SqliteStorage(self.path, clock=self.clock, entropy=os.urandom, salvage_after=0.0)

    def damage(self, how: Callable[[bytes], bytes] = lambda _page: os.urandom(PAGE), length: int = 0) -> None:
        """One leaf of a table that the bucket has now: the one with 2^length reports in a slot."""
        self.storage.disconnect()
        with closing(sqlite3.connect(self.path)) as db:
            (waiting,) = db.execute("SELECT waiting FROM buckets WHERE key = ?", (BUCKET.key,)).fetchone()
            name = f"{waiting}_{length}"
            (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        body = self.path.read_bytes()
        page = body[(root - 1) * PAGE : root * PAGE]
        assert page[0] == 5, "it has no leaves"  # https://sqlite.org/fileformat.html: an interior page
        cell = int.from_bytes(page[12:14])
        start = (int.from_bytes(page[cell : cell + 4]) - 1) * PAGE
        with self.path.open("r+b") as file:
            file.seek(start)
            file.write(how(body[start : start + PAGE]))
        self.storage = self.opened()

    def add_until_it_is_met(self, at_once: int = 1) -> None:
        with pytest.raises(StorageError):  # noqa: PT012  each draws a slot
            for _ in range(400):
                self.storage.add([Arrivals(BUCKET, TERMS, unique(at_once, TERMS.size))])

    def discard_the_other(self) -> None:
        self.clock.now = SOON.closes_at
        assert [closed.bucket for closed in self.storage.close((), due=self.clock.now)] == [OTHER]
        assert self.storage.plan(OTHER, Plan((os.urandom(16),), b"", len(self.others), 0, discard=True))

    def has_others(self) -> bool:
        files = [self.path, self.path.with_name(f"{self.path.name}-wal")]
        found = b"".join(file.read_bytes() for file in files if file.exists())
        return any(each in found for each in self.others)


def halved(page: bytes) -> bytes:
    """An older copy of the page, which is no error to SQLite: rows are missing."""
    return page[:3] + (int.from_bytes(page[3:5]) // 2).to_bytes(2) + page[5:]


@pytest.mark.parametrize("how", [lambda _page: os.urandom(PAGE), emptied, halved], ids=["garbage", "emptied", "halved"])
def test_a_table_that_is_damaged_again_is_mended_again_and_deletion_goes_on(
    tmp_path: Path, how: Callable[[bytes], bytes]
) -> None:
    worn = Worn(tmp_path)
    for times in (1, 2, 3):
        worn.damage(how)
        worn.add_until_it_is_met()
        assert worn.storage.forget()
        overview = worn.storage.overview()
        assert overview.counts["theme", "damaged"].batches == times
        assert adds_up(overview)
    worn.discard_the_other()
    assert worn.storage.forget()
    assert not worn.has_others()
    assert worn.storage.repair.discard(BUCKET)
    assert worn.storage.forget()
    assert adds_up(worn.storage.overview())
    worn.storage.disconnect()


def test_a_bucket_that_can_not_be_deleted_holds_up_no_other_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worn = Worn(tmp_path)
    assert worn.storage.repair.discard(BUCKET)  # comes first
    worn.discard_the_other()

    def fail(db: sqlite3.Connection, bucket: list[Any], *given: Any) -> None:
        if bucket[2] == BUCKET.key:
            raise sqlite3.OperationalError("database or disk is full")
        delete(db, bucket, *given)

    delete = erase._delete
    monkeypatch.setattr(erase, "_delete", fail)
    with pytest.raises(StorageError, match="full"):
        worn.storage.forget()
    assert not worn.has_others()
    worn.storage.disconnect()


async def test_a_damaged_bucket_keeps_no_report_of_another_out(tmp_path: Path) -> None:
    """They share a group commit, which is one transaction."""
    worn = Worn(tmp_path)
    worn.damage()

    storage = AsyncStorage(worn.storage)
    commits, kept, rounds = Commits(storage), 0, 0
    while rounds < 50 or not 0 < kept < rounds:  # a slot is drawn at random: until a damaged one was met
        rounds += 1
        assert rounds <= MOST_ROUNDS
        uploads = [
            {Admitted(bucket, terms, terms.size + 25, terms.closes_at): unique(1, terms.size)}
            for bucket, terms in ((BUCKET, TERMS), (OTHER, SOON))
        ]
        outcomes = await asyncio.gather(*(commits.add(upload) for upload in uploads))
        assert outcomes[1] == {}
        assert outcomes[0] in ({}, "overloaded")
        kept += outcomes[0] == {}
    waiting = {bucket.name: bucket.reports for bucket in (await storage.overview()).waiting}
    assert waiting == {"theme": REPORTS + kept, "other": len(worn.others) + rounds}
    await storage.forget()
    await storage.aclose()


@pytest.mark.parametrize("way_out", ["room", "discard"])
def test_a_bucket_that_waits_for_room_holds_up_no_deletion_and_says_so(
    tmp_path: Path, way_out: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What can be read of it has to be copied, and is more than the disk has left."""
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(shuffler, ["damaged", *arguments, "--state-dir", str(tmp_path / "disk")])

    with small_disk(tmp_path / "disk", 24) as disk:
        worn = Worn(disk.path)
        for _ in range(12):
            worn.storage.add([Arrivals(BUCKET, TERMS, unique(2_048, TERMS.size))])
        worn.damage(length=11)
        worn.add_until_it_is_met(2_048)
        worn.discard_the_other()
        disk.fill(leaving=2**20 if way_out == "room" else 0)
        for _ in range(3):
            assert worn.storage.forget()
            assert not worn.has_others()
        assert caplog.text.count("WAITS FOR ROOM") == 1
        assert worn.path.with_name("reports.sqlite-wal").stat().st_size == 0
        (row,) = json.loads(run("list", "--json").stdout)["buckets"]
        assert row["lacks MiB"] > 0
        assert "make room" in run("list").stderr
        done = run("salvage")
        assert (done.exit_code, "WAITS FOR ROOM" in unwrapped(done.stderr)) == (1, True)
        if way_out == "room":
            disk.clear()
            assert worn.storage.forget()
            assert 0 < worn.storage.overview().counts["theme", "damaged"].reports < row["reports"]
        else:
            done = run("discard", "--yes")
            assert done.exit_code == 0, done.output
            assert not worn.storage.overview().waiting
        assert adds_up(worn.storage.overview())
        assert not worn.storage.repair.find()
        worn.storage.disconnect()


class Stubborn:
    """Mends one bucket, and fails with the other."""

    def __init__(self) -> None:
        self.mended: list[Bucket] = []

    def mend(self, bucket: Bucket) -> Damage | None:
        if bucket == BUCKET:
            raise StorageError("not now")
        self.mended.append(bucket)
        return None

    def _nothing(self, *_: object) -> Any:
        raise AssertionError

    find = discard = remains = look_at = is_on_its_way = _nothing


def test_a_bucket_that_can_not_be_mended_holds_up_no_other_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """On every storage: they share when a bucket is mended."""
    mender = Stubborn()
    repair = Repair(mender, 0.0, is_damage=lambda _: True)
    for _ in range(3):
        with pytest.raises(StorageError), repair.watching([BUCKET, OTHER]):
            raise StorageError
        repair.salvage()
    assert mender.mended == [OTHER] * 3
    assert caplog.text.count("not now") == 1
