"""What the SDK keeps on disk: one SQLite file, private to its owner, on stable storage before a transaction ends."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hubbub_client._fork import Forkable

__all__ = ["NoDurableState", "State"]

FILE_NAME = "hubbub.sqlite3"
_VERSION = 2
_BUSY_SECONDS = 1.0
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE known (metric TEXT PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE reductions (
    id BLOB NOT NULL, period INTEGER NOT NULL, state TEXT NOT NULL, closes_at REAL NOT NULL, PRIMARY KEY (id, period)
) WITHOUT ROWID;
CREATE TABLE ledger (
    metric TEXT NOT NULL, end INTEGER NOT NULL, start INTEGER NOT NULL,
    decision TEXT NOT NULL, epsilon TEXT, day INTEGER, PRIMARY KEY (metric, end, start)
) WITHOUT ROWID;
CREATE INDEX ledger_day ON ledger (day);
CREATE INDEX ledger_end ON ledger (end);
CREATE TABLE outbox (
    nonce BLOB PRIMARY KEY, id BLOB NOT NULL, period INTEGER NOT NULL, payload BLOB NOT NULL,
    due_at REAL NOT NULL, send_at REAL NOT NULL, closes_at REAL NOT NULL, key INTEGER, sealed BLOB
) WITHOUT ROWID;
"""


class NoDurableState(Exception):
    """Nothing can be kept, so nothing may be reported."""


class State(Forkable):
    """One file, many threads and processes.

    A transaction that ended without an error is on disk (WAL, synchronous=FULL); any other left no trace.
    """

    def __init__(self, directory: Path | str) -> None:
        self._path = Path(directory) / FILE_NAME
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._abandoned: list[sqlite3.Connection] = []
        self._survive_forks()

    def exists(self) -> bool:
        """Whether anything was ever kept."""
        return self._path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A look without a promise; NoDurableState when there is nothing to look at."""
        with self._lock:
            try:
                yield self._open()
            except (sqlite3.Error, OSError) as error:
                raise NoDurableState(str(error)) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, alone among threads and processes, on disk when it ends; NoDurableState if that fails."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Empty the log into the file, so that what was deleted is gone from both."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                try:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                except sqlite3.Error:
                    pass  # another process is reading: the last one to close does it
                finally:
                    self._connection.close()
            self._connection = None

    def _before_fork(self) -> None:
        """Let a transaction of another thread end: in a child, SQLite would believe for ever that it goes on."""
        self._lock.acquire(timeout=_BUSY_SECONDS)

    def _after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._lock = threading.RLock()
            return
        with suppress(RuntimeError):  # it was not to be had in time
            self._lock.release()

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._owner != os.getpid():
            # After a fork the connection is the parent's: using it, or closing it, would break the parent's locks.
            self._abandoned.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection, self._owner = _connect(self._path), os.getpid()
        return self._connection


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # before SQLite, which would use the umask
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={_VERSION}")
        connection.execute("COMMIT")
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"{path.name} was written by another version of the SDK")
    except BaseException:
        connection.close()
        raise
    return connection
