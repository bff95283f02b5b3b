"""Damage of the SQLite file: an unreadable page or a missing log. What is left goes on, and the loss is logged."""

from __future__ import annotations

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
from hubbub_shuffler.ingest.high_water_mark import HighWater
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Overview, Plan, StorageError
from hubbub_shuffler.storage.sqlite import salvage
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.backends import BUCKET, TERMS
from tests.shuffler.operations.test_metrics import Operated
from tests.shuffler.storage_processes import killed_after_adding
from tests.shuffler.world import CLOSES, METRIC, NOW, THEME, THEME_SEALED, unique, upload
from tests.support.clock import Clock

PAGE = 4_096


def opened(path: Path, clock: Callable[[], float], salvage_after: float = 0.0) -> AsyncStorage:
    return AsyncStorage(SqliteStorage(path, clock=clock, entropy=os.urandom, salvage_after=salvage_after))


def spoil(path: Path, report: bytes, how: Callable[[bytes], bytes] = lambda _page: os.urandom(PAGE)) -> None:
    """Damage the page that has this report."""
    body = path.read_bytes()
    start = body.index(report) // PAGE * PAGE
    with path.open("r+b") as file:
        file.seek(start)
        file.write(how(body[start : start + PAGE]))


def emptied(page: bytes) -> bytes:
    """A sector that came back as zeros: the page says that nothing is on it, which is not an error to SQLite."""
    return page[:3] + bytes(2) + page[5:]


def adds_up(overview: Overview) -> bool:
    """Whether every report that was taken is somewhere."""
    inside = sum(bucket.reports for bucket in overview.waiting)
    counts = overview.counts
    taken = sum(count.reports for (_, what), count in counts.items() if what == "ingested")
    gone = sum(count.reports for (_, what), count in counts.items() if what not in {"ingested", "lost"})
    return taken == gone + inside


COUNT = 150
_SEALED, _OTHERS = unique(COUNT), unique(5, THEME_SEALED)
_FILLED: dict[str, bytes] = {}
"""The files of a storage that has these, once made."""


class Damaged:
    """A bucket of reports that came one by one, and one of another metric; one page of the first is damaged."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.path, self.clock = directory, directory / "reports.sqlite", Clock(NOW)
        self.sealed, self.others = _SEALED, _OTHERS

    async def fill(self) -> None:
        if _FILLED:
            for name, body in _FILLED.items():
                (self.directory / name).write_bytes(body)
            return
        await self._fill()
        _FILLED.update((path.name, path.read_bytes()) for path in self.directory.iterdir())

    async def _fill(self) -> None:
        async with Operated(self.directory, clock=self.clock, storage=opened(self.path, self.clock)) as world:
            for each in self.sealed:
                assert (await world.post(upload([each]))).status_code == 202
            assert (await world.post(upload(self.others, metric=THEME))).status_code == 202

    def world(self, salvage_after: float = 0.0) -> Operated:
        return Operated(self.directory, clock=self.clock, storage=opened(self.path, self.clock, salvage_after))


@pytest.mark.parametrize("how", [lambda _page: os.urandom(PAGE), emptied], ids=["garbage", "emptied"])
async def test_what_can_be_read_of_a_damaged_bucket_goes_on_and_the_rest_is_counted_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: Callable[[bytes], bytes]
) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    spoil(damaged.path, damaged.sealed[0], how)
    async with damaged.world() as world:
        damaged.clock.now = CLOSES
        await world.settle_all()
        delivered = set(world.aggregator.delivered())
        assert delivered >= set(damaged.others), "it held up another bucket"
        kept = delivered & set(damaged.sealed)
        assert damaged.sealed[0] not in kept
        assert COUNT // 2 < len(kept) < COUNT, "one page of five or so"
        overview = await world.storage.overview()
        assert overview.counts["dark_mode", "damaged"] == (COUNT - len(kept), 1)
        assert adds_up(overview)
        assert (await world.metrics())["damaged_buckets_total", "dark_mode"] == 1
        status = await world.client.get("/v1/status")
        assert "damaged" not in status.text
        await world.admin.aclose()
    said = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert sum("ARE LOST" in line for line in said) == 1
    assert len(said) == 2, said  # that it could not be planned, and what became of it


async def test_too_few_readable_reports_are_discarded_as_ever(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    spoil(damaged.path, damaged.sealed[0])
    async with Operated(tmp_path, clock=damaged.clock, storage=opened(damaged.path, damaged.clock)) as world:
        damaged.clock.now = CLOSES
        world.batcher = world.worker(min_batch_floor=COUNT - 1)
        await world.settle_all()
        overview = await world.storage.overview()
        assert not world.aggregator.delivered()
        assert overview.counts["dark_mode", "discarded"].reports > COUNT // 2
        assert adds_up(overview)
        await world.admin.aclose()


async def test_a_page_that_can_be_read_again_costs_nothing(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    before = damaged.path.read_bytes()
    spoil(damaged.path, damaged.sealed[0])
    damaged.clock.now = CLOSES
    storage = opened(damaged.path, damaged.clock)
    closed = [each.bucket for each in await storage.close((), due=CLOSES) if each.bucket.metric == METRIC]
    with pytest.raises(StorageError):
        [piece async for piece in storage.read(closed[0])]
    await storage.aclose()  # what it wrote is in the file
    start = before.index(damaged.sealed[0]) // PAGE * PAGE
    with damaged.path.open("r+b") as file:
        file.seek(start)
        file.write(before[start : start + PAGE])
    async with damaged.world() as world:
        await world.settle_all()
        assert set(world.aggregator.delivered()) == {*damaged.sealed, *damaged.others}
        assert ("dark_mode", "damaged") not in (await world.storage.overview()).counts
        await world.admin.aclose()


async def test_one_look_decides_nothing(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    spoil(damaged.path, damaged.sealed[0])
    async with damaged.world(salvage_after=1_000.0) as world:
        damaged.clock.now = CLOSES
        for _ in range(3):
            await world.batcher.tick()
        overview = await world.storage.overview()
        assert [bucket.reports for bucket in overview.waiting if bucket.name == "dark_mode"] == [COUNT]
        await world.admin.aclose()


async def test_an_open_bucket_with_a_damaged_page_takes_reports_again(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    spoil(damaged.path, damaged.sealed[0])
    async with damaged.world() as world:
        refused, more = 0, unique(200)
        for each in more:  # each moves one of the others, drawn at random: one of five is on the page
            while (answer := await world.post(upload([each]))).status_code != 202:
                assert answer.status_code == 503
                refused += 1
                await world.batcher.tick()
        assert refused == 1
        damaged.clock.now = CLOSES
        await world.settle_all()
        delivered = set(world.aggregator.delivered())
        assert delivered >= set(more), "acknowledged after the damage, and lost"
        assert adds_up(await world.storage.overview())
        await world.admin.aclose()


async def test_a_bucket_that_is_damaged_after_its_plan_is_planned_again(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    damaged.clock.now = CLOSES
    storage = opened(damaged.path, damaged.clock)
    for closed in await storage.close((), due=CLOSES):
        count = COUNT if closed.bucket.metric == METRIC else 5
        assert await storage.plan(closed.bucket, Plan((os.urandom(16),), os.urandom(32), count, 0))
    await storage.aclose()
    spoil(damaged.path, damaged.sealed[0])
    async with damaged.world() as world:
        await world.settle_all()
        delivered = set(world.aggregator.delivered())
        assert COUNT // 2 < len(delivered & set(damaged.sealed)) < COUNT
        assert adds_up(await world.storage.overview())
        await world.admin.aclose()


async def test_damage_of_what_is_to_be_deleted_holds_up_nothing(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    damaged.clock.now = CLOSES
    storage = opened(damaged.path, damaged.clock)
    for closed in await storage.close((), due=CLOSES):
        assert await storage.plan(closed.bucket, Plan((os.urandom(16),), b"", 5, 0, discard=True))
    await storage.aclose()
    spoil(damaged.path, damaged.sealed[0])
    async with damaged.world() as world:
        await world.settle_all()
        assert await world.storage.forget()
        await world.admin.aclose()


async def test_a_bucket_on_its_way_is_read_once_and_under_nobodys_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It can't be mended, so that would be for nothing: uploads wait for the lock meanwhile."""
    damaged = Damaged(tmp_path)
    await damaged.fill()
    damaged.clock.now = CLOSES
    storage = opened(damaged.path, damaged.clock)
    (bucket,) = [each.bucket for each in await storage.close((), due=CLOSES) if each.bucket.metric == METRIC]
    ids = (os.urandom(16), os.urandom(16))
    assert await storage.plan(bucket, Plan(ids, os.urandom(32), COUNT, 0))
    claim = await storage.claim(60.0)
    assert claim
    assert await storage.settle(claim, "accepted")
    await storage.aclose()
    spoil(damaged.path, damaged.sealed[0])
    scans = 0

    def scan(*given: Any) -> dict[int, list[int]]:
        nonlocal scans
        scans += 1
        with closing(sqlite3.connect(damaged.path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        return readable(*given)

    readable = salvage._readable
    monkeypatch.setattr(salvage, "_readable", scan)
    storage = opened(damaged.path, damaged.clock)
    for _ in range(4):
        with pytest.raises(StorageError):
            [piece async for piece in storage.read(bucket)]
        assert await storage.forget()
    assert scans == 1
    storage.blocking.repair.discard(bucket)
    assert await storage.forget()
    await storage.aclose()
    assert caplog.text.count("Give it up with") == 1


async def test_a_bucket_that_came_back_from_its_way_is_mended(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    damaged.clock.now = CLOSES
    storage = opened(damaged.path, damaged.clock)
    (bucket,) = [each.bucket for each in await storage.close((), due=CLOSES) if each.bucket.metric == METRIC]
    assert await storage.plan(bucket, Plan((os.urandom(16),), os.urandom(32), COUNT, 0))
    for sent in (True, False):
        claim = await storage.claim(60.0)
        assert claim
        assert await storage.postpone(claim, 0.0, sent=sent)
        if sent:
            await storage.aclose()
            spoil(damaged.path, damaged.sealed[0])
            storage = opened(damaged.path, damaged.clock)
        for _ in range(2):
            with pytest.raises(StorageError):
                [piece async for piece in storage.read(bucket)]
            await storage.forget()
            if not sent and ("dark_mode", "damaged") in (await storage.overview()).counts:
                break
        assert (("dark_mode", "damaged") in (await storage.overview()).counts) is not sent
    await storage.aclose()


# -- the log ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["buckets", "batches"])
async def test_damaged_records_stop_ingest_and_readiness(tmp_path: Path, table: str) -> None:
    """Nothing could leave again, so that nothing more is acknowledged; and who asks is told what to do."""
    path, clock = tmp_path / "reports.sqlite", Clock(0)
    storage = opened(path, clock)
    await storage.add([Arrivals(BUCKET, TERMS, unique(10, TERMS.size))])
    await storage.aclose()
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    storage = opened(path, clock)
    with pytest.raises(StorageError, match=r"The file is damaged: docs/how-to/monitor\.md"):
        await storage.check()
    with pytest.raises(StorageError):
        await HighWater(storage).admit([Arrivals(BUCKET, TERMS, unique(1, TERMS.size))])
    await storage.aclose()


@pytest.mark.parametrize("missing", [True, False], ids=["deleted", "there"])
async def test_a_log_that_is_gone_after_a_kill_is_noticed_with_how_many_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, missing: bool
) -> None:
    path = tmp_path / "reports.sqlite"
    killed_after_adding(path, before_the_cut=30, after_it=48)
    log = path.with_name("reports.sqlite-wal")
    assert log.stat().st_size > 0
    if missing:
        log.unlink()
        path.with_name("reports.sqlite-shm").unlink()

    async with Operated(tmp_path, storage=opened(path, Clock(0))) as world:
        overview = await world.storage.overview()
        assert sum(bucket.reports for bucket in overview.waiting) == (30 if missing else 78)
        assert (await world.metrics())["storage_losses_total",] == int(missing)
        assert overview.counts.get(("", "lost")) == ((48, 1) if missing else None)
        await world.admin.aclose()
    again = opened(path, Clock(0))  # said once
    await again.aclose()
    said = [record.message for record in caplog.records if "LOST ACKNOWLEDGED REPORTS" in record.message]
    assert len(said) == int(missing)
    assert not missing or ("-wal" in said[0] and "48 are missing" in said[0])


async def test_a_clean_end_leaves_no_log_and_no_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    assert not damaged.path.with_name("reports.sqlite-wal").exists()
    storage = opened(damaged.path, damaged.clock)
    second = opened(damaged.path, damaged.clock)
    await storage.aclose()
    await second.aclose()
    with closing(sqlite3.connect(damaged.path)) as database:
        assert database.execute("SELECT count(*) FROM counts WHERE what = 'lost'").fetchone() == (0,)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_older_copy_of_the_file_is_noticed_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    older = damaged.path.read_bytes()
    async with damaged.world() as world:
        await world.post(upload(unique(7)))
        await world.admin.aclose()
    damaged.path.write_bytes(older)
    await opened(damaged.path, damaged.clock).aclose()
    assert any("7 are missing" in record.message for record in caplog.records)


# -- the operator -----------------------------------------------------------------------------------


async def test_an_operator_sees_salvages_and_gives_up_damaged_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is on its way to the aggregator: that one can only be given up, and the counts still add up."""
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(shuffler, ["damaged", *arguments, "--state-dir", str(tmp_path)])

    async def prepare(*, sent: bool) -> None:
        damaged = Damaged(tmp_path)
        await damaged.fill()
        damaged.clock.now = CLOSES
        storage = opened(damaged.path, damaged.clock, 1_000.0)
        for closed in await storage.close((), due=CLOSES):
            if closed.bucket.metric == METRIC:
                assert await storage.plan(closed.bucket, Plan((os.urandom(16),), os.urandom(32), COUNT, 0))
        claim = await storage.claim(60.0)
        assert claim
        assert await storage.postpone(claim, 0.0, sent=sent)
        await storage.aclose()
        spoil(damaged.path, damaged.sealed[0])

    await prepare(sent=False)
    listed = json.loads(run("list", "--json").stdout)["buckets"]
    assert [(row["metric"], row["reports"], row["on its way"]) for row in listed] == [("dark_mode", COUNT, "no")]
    unreadable = listed[0]["unreadable"]
    done = run("salvage")
    assert done.exit_code == 0, done.output
    assert f"{unreadable} are lost" in done.stderr
    assert "can be read" in run("list").stderr
    assert f"dark_mode: {unreadable} reports were lost before" in run("list").stderr

    await prepare(sent=True)
    (left,) = json.loads(run("list", "--json").stdout)["buckets"]
    refused = run("salvage", "--json")
    assert refused.exit_code == 1
    assert [(one["bucket"], "discarded" in one["left"]) for one in json.loads(refused.stdout)["buckets"]] == [
        (left["bucket"], True)
    ]
    assert run("discard", "0:0:0", "--yes").exit_code == 2
    done = run("discard", "--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"buckets": [{"bucket": left["bucket"], "lost": COUNT}]})
    storage = opened(tmp_path / "reports.sqlite", Clock(NOW))
    overview = await storage.overview()
    assert overview.counts["dark_mode", "damaged"] == (COUNT, 1)
    assert adds_up(overview)
    assert not any(overview.batches.values())
    await storage.aclose()


@pytest.mark.parametrize("meanwhile", ["settled", "mended"])
async def test_a_bucket_that_goes_or_is_mended_during_a_look_is_not_taken_for_damaged(
    tmp_path: Path, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = Damaged(tmp_path)
    await damaged.fill()
    if meanwhile == "mended":
        spoil(damaged.path, damaged.sealed[0])
    damaged.clock.now = CLOSES
    storage, other = opened(damaged.path, damaged.clock), opened(damaged.path, damaged.clock)
    (bucket,) = [each.bucket for each in await storage.close((), due=CLOSES) if each.bucket.metric == METRIC]
    assert await storage.plan(bucket, Plan((os.urandom(16),), os.urandom(32), COUNT, 0))
    done: list[object] = []

    def scan(db: sqlite3.Connection, row: Any) -> dict[int, list[int]]:
        if not done:
            done.append(meanwhile)
            if meanwhile == "mended":
                assert other.blocking.repair.mend(bucket)
            else:
                claim = other.blocking.claim(60.0)
                assert claim
                assert other.blocking.settle(claim, "accepted")
                assert other.blocking.forget()
        return readable(db, row)

    readable = salvage._readable
    monkeypatch.setattr(salvage, "_readable", scan)
    assert storage.blocking.repair.find() == []
    assert done
    await storage.aclose()
    await other.aclose()


def test_a_wrong_state_directory_is_said_and_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        monkeypatch.delenv(name)
    for directory in (tmp_path, tmp_path / "none"):
        for command in (["list"], ["salvage"], ["discard", "--yes"]):
            done = CliRunner().invoke(shuffler, ["damaged", *command, "--state-dir", str(directory)])
            assert done.exit_code != 0
            assert "reports.sqlite does not exist" in str(done.exception)
    assert not list(tmp_path.iterdir())
