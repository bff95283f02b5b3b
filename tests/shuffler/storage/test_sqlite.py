"""The SQLite storage: its files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Plan, StorageError, Terms
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.backends import look_random
from tests.shuffler.world import files_of
from tests.support.clock import Clock
from tests.support.patience import PATIENCE, within

BUCKET = Bucket(bytes(16), 7, 1)
TERMS = Terms("theme", 64, 1_000, 2)


def connections_of(storage: AsyncStorage) -> list[sqlite3.Connection]:
    assert isinstance(storage.blocking, SqliteStorage)
    return storage.blocking._connections._all


def open_storage(directory: Path, clock: Clock) -> AsyncStorage:
    # remembers no closed bucket: even then it must know what is left to delete
    return AsyncStorage(SqliteStorage(directory / "reports.sqlite", clock=clock, entropy=os.urandom, forget_after=0))


async def test_a_process_knows_of_traces_that_another_one_left_behind(tmp_path: Path) -> None:
    """The other one died after it deleted and before it could cut the log."""
    clock = Clock(0)
    first, second = open_storage(tmp_path, clock), open_storage(tmp_path, clock)
    assert await second.forget()
    sealed = os.urandom(TERMS.size)
    await first.add([Arrivals(BUCKET, TERMS, [sealed])])
    clock.now = TERMS.closes_at
    await first.close((), due=clock.now)
    await first.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), 1, 0, discard=True))
    claim = await first.claim(60.0)
    assert claim
    assert await first.settle(claim, "accepted")

    reader = sqlite3.connect(tmp_path / "reports.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM buckets").fetchone()
    assert not await first.forget()
    reader.close()
    assert sealed in files_of(tmp_path)

    assert await second.forget()
    assert sealed not in files_of(tmp_path)
    await first.aclose()
    await second.aclose()


async def test_a_reader_that_pauses_keeps_no_trace_of_another_bucket(tmp_path: Path) -> None:
    """A large batch takes long to leave: meanwhile the log is cut all the same."""
    clock, other = Clock(0), Bucket(bytes(16), 7, 2)
    storage = open_storage(tmp_path, clock)
    large = [os.urandom(TERMS.size) for _ in range(40_000)]
    sealed = [os.urandom(TERMS.size) for _ in range(100)]
    await storage.add([Arrivals(BUCKET, TERMS, large), Arrivals(other, TERMS, sealed)])
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    reader = storage.read(BUCKET)
    found = [await anext(reader)]
    assert await storage.plan(other, Plan((os.urandom(16),), b"", 100, 0, discard=True))
    assert await storage.forget()
    left = files_of(tmp_path)
    assert not [each for each in sealed if each in left]
    found += [piece async for piece in reader]
    assert len(found) > 2
    assert b"".join(sorted(large)) == b"".join(sorted(_reports(b"".join(found))))
    await storage.aclose()


def _reports(raw: bytes) -> list[bytes]:
    return [raw[at : at + TERMS.size] for at in range(0, len(raw), TERMS.size)]


def test_the_driver_of_redis_is_not_loaded_for_a_file(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from hubbub_shuffler.storage import open_storage;"
        "open_storage(sys.argv[1], clock=time.time, entropy=os.urandom);"
        "assert 'redis' not in sys.modules; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "reports.sqlite")], check=True, timeout=PATIENCE)


async def test_files_that_anyone_could_read_are_made_private(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    first = open_storage(tmp_path, Clock(0))
    await first.check()
    assert modes() == {0o600}
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    second = open_storage(tmp_path, Clock(0))  # while the first still has its log
    assert len(list(tmp_path.iterdir())) == 5
    assert modes() == {0o600}
    await first.aclose()
    await second.aclose()


@pytest.mark.everyday("64")
@pytest.mark.parametrize("reports", [1, 2, 64])
async def test_where_reports_lie_in_the_file_does_not_predict_the_order_of_their_arrival(
    tmp_path: Path, reports: int
) -> None:
    """In the bytes of the files, among group commits of one size, with others of other sizes between them."""
    commits = [[os.urandom(TERMS.size) for _ in range(reports)] for _ in range(400)]

    storage = open_storage(tmp_path, Clock(0))
    for at in range(0, 400, 20):  # twenty at once, which is twenty commits but for the wait for the disk
        between = [Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size)] * (at % 6 + 3))]
        await storage.add([Arrivals(BUCKET, TERMS, sealed) for sealed in commits[at : at + 20]] + between)
    assert await storage.forget()
    raw = files_of(tmp_path)
    # the first of a commit that is not cut in two by the end of a page
    places = [next(at for each in sealed if (at := raw.find(each)) >= 0) for sealed in commits]
    assert all(raw.count(each) <= 1 for sealed in commits for each in sealed[:1])  # nor is there an older copy
    look_random(sorted(range(400), key=places.__getitem__))
    await storage.aclose()


async def test_the_log_is_cut_at_every_call_also_when_nothing_was_deleted(tmp_path: Path) -> None:
    storage, log = open_storage(tmp_path, Clock(0)), tmp_path / "reports.sqlite-wal"
    await storage.add([Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size)])])
    assert log.stat().st_size
    assert await storage.forget()
    assert not log.stat().st_size
    await storage.aclose()


async def test_a_reader_that_hangs_keeps_uploads_waiting_for_a_moment_only(tmp_path: Path) -> None:
    """It keeps the log from being cut; whoever cuts must not hold the file for as long as it would wait otherwise."""
    storage = open_storage(tmp_path, Clock(0))
    await storage.add([Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size)])])
    reader = sqlite3.connect(tmp_path / "reports.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM buckets").fetchone()
    await storage.add([Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size)])])
    with within(15):  # of the thirty seconds that SQLite may wait
        await asyncio.gather(storage.forget(), storage.add([Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size)])]))
    reader.close()
    await storage.aclose()


def test_a_file_of_an_older_layout_is_refused_at_the_start(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "reports.sqlite")
    old.execute("CREATE TABLE buckets (metric BLOB PRIMARY KEY, waiting TEXT NOT NULL)")
    old.close()
    with pytest.raises(StorageError, match="older version"):
        open_storage(tmp_path, Clock(0))


async def test_a_full_file_is_not_called_ready(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, Clock(0))
    await storage.check()
    for connection in connections_of(storage):
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    full = False
    while not full:
        try:
            await storage.add([Arrivals(BUCKET, TERMS, [os.urandom(TERMS.size) for _ in range(16)])])
        except StorageError:
            full = True
    with pytest.raises(StorageError, match="full"):
        await storage.check()
    await storage.aclose()
