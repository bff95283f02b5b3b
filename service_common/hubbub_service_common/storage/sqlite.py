"""SQLite as both services open it: durable commits, real deletion, files for their owner only, versioned tables."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hubbub_service_common.storage.kinds_and_errors import StorageError, refuse_newer

__all__ = ["as_storage_error", "connect", "cut_log", "make_tables", "transaction"]

BUSY_SECONDS = 30.0
"""Seconds that a write waits for another process."""
_DAMAGED = "The file is damaged: docs/how-to/monitor.md, HubbubStorageDamaged, says what to do"
_ADVICE = {
    sqlite3.SQLITE_FULL: "The disk is full: free some of it, and work goes on by itself",
    sqlite3.SQLITE_IOERR: "The disk is full or fails: look at its free space first",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
"""What to do about an SQLite error, by its primary error code."""
_CUT_SECONDS = 0.2
"""Seconds that a cut of the log waits for other users of the file. Few: all other work waits meanwhile, and the cut is
tried again soon."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection on which commits are durable and deletions overwrite, to files that only their owner can read.

    Any thread may use it, one at a time.
    """
    # SQLite gives new -wal and -shm files the mode of the database, so that must be right from the start. An existing
    # database is not opened here: closing it would cancel the locks that this process holds on it.
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
        connection.execute("PRAGMA temp_store = MEMORY")  # a temporary file would be a copy that is never deleted
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """All or nothing, under the write lock from the start. `begin="BEGIN"`: one view of the file, for reading."""
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
    """Make the tables, or bring older ones up to date, inside the caller's transaction.

    `upgrades`: by version, the statements that lead to the next one. `found`: the version in the file, 0 for an empty
    one. StorageError if it is newer than `version`; `otherwise` is then the advice.
    """
    refuse_newer(found, version, otherwise)
    steps = [schema] if found == 0 else [upgrades[old] for old in range(found, version)]
    for statement in ";".join(steps).split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {version}")


def cut_log(db: sqlite3.Connection) -> bool:
    """Cut the write-ahead log to nothing: until then it holds pages as they were before they were overwritten.

    False if another reader or writer is in the way.
    """
    db.execute(f"PRAGMA busy_timeout = {int(_CUT_SECONDS * 1_000)}")
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1_000)}")
    return not busy


@contextmanager
def as_storage_error() -> Iterator[None]:
    """Turn errors of SQLite and the operating system into StorageError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        advice = _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            advice = _ADVICE[sqlite3.SQLITE_FULL]
        raise StorageError(f"{type(error).__name__}: {error}{f'. {advice}' if advice else ''}") from error
