"""The tables of the SQLite backend, and how a connection to them is set up.

    buckets          one row per (metric, period, key): its terms, its state, its number of reports, its table
    waiting_<name>   the reports of one bucket: one blob per group commit under a random id, and later the seed
    batches          what is to be forwarded, under which lease
    counts           sums by metric name and what happened

Every bucket has a table of its own, so that no page of the file ever holds reports of two buckets: dropping the
table frees whole pages, and `secure_delete` overwrites freed pages. In a shared table, copies of a row that
SQLite moved while balancing could stay behind in pages that live on. Nothing has a rowid or a time of arrival.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

__all__ = ["connect", "create"]

BUSY_SECONDS = 30.0

_TABLES = """
CREATE TABLE IF NOT EXISTS buckets (
    metric BLOB NOT NULL, period INTEGER NOT NULL, key INTEGER NOT NULL,
    name TEXT NOT NULL, size INTEGER NOT NULL, closes_at INTEGER NOT NULL, minimum INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'planned', 'spent', 'gone')),
    revoked INTEGER NOT NULL, reports INTEGER NOT NULL, waiting TEXT NOT NULL,
    PRIMARY KEY (metric, period, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    id BLOB PRIMARY KEY,
    metric BLOB NOT NULL, period INTEGER NOT NULL, key INTEGER NOT NULL,
    kind TEXT NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL, reports INTEGER NOT NULL,
    sent INTEGER NOT NULL, attempts INTEGER NOT NULL, lease BLOB, due REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counts (
    name TEXT NOT NULL, what TEXT NOT NULL, reports INTEGER NOT NULL, batches INTEGER NOT NULL,
    PRIMARY KEY (name, what)
) WITHOUT ROWID;
"""


def connect(path: Path) -> sqlite3.Connection:
    """A connection on which a commit is durable and a deletion overwrites, to files that only their owner can read."""
    # SQLite gives new -wal and -shm files the mode of the database, so it must have it from the start. One that is
    # there is not opened here: closing it would cancel the locks that this process holds on it.
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(FileNotFoundError):
            file.chmod(0o600)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # a spill to a temporary file would be a copy nobody deletes
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Make the tables that are missing, all or none."""
    connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
