"""Small helpers around one SQLite connection and its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["VERSION_FUNCTION", "connect", "identity", "transaction", "version_of"]

VERSION_FUNCTION = "hubbub_5"
"""An SQL function that connections of this version have and older ones lack. Triggers on the account call it. So a
process of an older SDK that has the file open during an update can no longer write there: it would write without
checksums and witness, and the file would be taken for damaged."""


def connect(path: Path, patience: float) -> sqlite3.Connection:
    """A connection without implicit transactions. Callers make sure that one thread uses it at a time."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.create_function(VERSION_FUNCTION, 0, lambda: None)
    connection.execute("PRAGMA trusted_schema=ON")  # or no trigger could call it; the file is the device's own
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
