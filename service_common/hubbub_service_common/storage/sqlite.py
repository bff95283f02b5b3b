"""SQLite as both services open it: durable commits, real deletion, files for their owner only, versioned tables."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hubbub_service_common.storage.kinds import StorageError, refuse_newer

__all__ = ["as_storage_error", "connect", "cut_log", "make_tables", "transaction"]

BUSY_SECONDS = 30.0
"""How long a write waits for another process."""
_DAMAGED = "The file is damaged: docs/how-to/monitor.md, HubbubStorageDamaged, says what to do"
_ADVICE = {
    sqlite3.SQLITE_FULL: "The disk is full: free some of it, and work goes on by itself",
    sqlite3.SQLITE_IOERR: "The disk is full or fails: look at its free space first",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
"""What to do about what SQLite says, by the first byte of its code."""
_CUT_SECONDS = 0.2
"""How long a cut of the log waits for others: everything else waits for it meanwhile, and it is tried again soon."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection on which a commit is durable and a deletion overwrites, to files that only their owner can read.

    Any thread may use it, one at a time.
    """
    # SQLite gives new -wal and -shm files the mode of the database, so it must have it from the start. One that is
    # there is not opened here: closing it would cancel the locks that this process holds on it.
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(FileNotFoundError):
            file.chmod(0o600)
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # a spill to a temporary file would be a copy nobody deletes
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """All of it or nothing, under the write lock from the start. `begin="BEGIN"`: one view of the file, for reading."""
    db.execute(begin)
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a failure may have ended it already
            db.execute("ROLLBACK")
        raise


def make_tables(
    db: sqlite3.Connection, schema: str, upgrades: Mapping[int, str], version: int, *, found: int, otherwise: str
) -> None:
    """Make the tables, or bring older ones up to date, inside a transaction of the caller.

    `upgrades`: by version, the statements that lead to the next one. `found`: the version that is there, 0 for an empty
    file. StorageError if it is newer than `version`, with `otherwise` for what to do.
    """
    refuse_newer(found, version, otherwise)
    steps = [schema] if found == 0 else [upgrades[old] for old in range(found, version)]
    for statement in ";".join(steps).split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {version}")


def cut_log(db: sqlite3.Connection) -> bool:
    """Cut the write-ahead log to nothing: until then it has pages as they were before they were overwritten.

    False if another reader or writer stands in the way.
    """
    db.execute(f"PRAGMA busy_timeout = {int(_CUT_SECONDS * 1_000)}")
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000)}")
    return not busy


@contextmanager
def as_storage_error() -> Iterator[None]:
    """What SQLite, the disk or another process does to us, under the one name that storages have for it."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        advice = _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            advice = _ADVICE[sqlite3.SQLITE_FULL]
        raise StorageError(f"{type(error).__name__}: {error}{f'. {advice}' if advice else ''}") from error
