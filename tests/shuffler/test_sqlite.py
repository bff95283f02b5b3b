"""What only the SQLite backend has to promise: its files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

from hubbub_shuffler.storage import Arrivals, Bucket, Plan, Terms
from hubbub_shuffler.storage.sqlite import SqliteStorage
from tests.shuffler.world import Clock, files_of

BUCKET = Bucket(bytes(16), 7, 1)
TERMS = Terms("theme", 64, 1_000, 2)


def open_storage(directory: Path, clock: Clock) -> SqliteStorage:
    # remembers no closed bucket: even then it must know what is left to delete
    return SqliteStorage(directory / "reports.sqlite", clock=clock, entropy=os.urandom, forget_after=0)


def test_a_process_knows_of_traces_that_another_one_left_behind(tmp_path: Path) -> None:
    """The other one died after it deleted and before it could cut the log."""

    async def main() -> None:
        clock = Clock(0)
        first, second = open_storage(tmp_path, clock), open_storage(tmp_path, clock)
        assert await second.forget()
        sealed = os.urandom(TERMS.size)
        await first.add([Arrivals(BUCKET, TERMS, [sealed])])
        clock.now = TERMS.closes_at
        await first.close(())
        await first.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), 1, 0, discard=True))
        claim = await first.claim(60.0)
        assert claim
        assert await first.settle(claim, "accepted")

        reader = sqlite3.connect(tmp_path / "reports.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM buckets").fetchone()
        first._rest.db.execute("PRAGMA busy_timeout = 0")  # does not wait for the reader
        assert not await first.forget()
        reader.close()
        assert sealed in files_of(tmp_path)

        assert await second.forget()
        assert sealed not in files_of(tmp_path)
        await first.aclose()
        await second.aclose()

    asyncio.run(main())


def test_files_that_anyone_could_read_are_made_private(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    async def main() -> None:
        first = open_storage(tmp_path, Clock(0))
        assert modes() == {0o600}
        for path in tmp_path.iterdir():
            path.chmod(0o644)
        second = open_storage(tmp_path, Clock(0))  # while the first still has its log
        assert len(list(tmp_path.iterdir())) == 3
        assert modes() == {0o600}
        await first.aclose()
        await second.aclose()

    asyncio.run(main())
