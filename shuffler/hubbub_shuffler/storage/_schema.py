"""The tables of the SQLite backend, and how a connection to them is set up.

    buckets            one row per (metric, period, key): its terms, its state, its number of reports, its tables
    waiting_<name>_0   the reports of one bucket that lie singly, in slots; _1: in pairs, _2: in fours, ...
    waiting_<name>_seed
    batches            what is to be forwarded, under which lease
    counts             sums by metric name and what happened
    crowds             by metric name: the last closed period, and how many reports it had
    held               one row: what the periods that have begun are held to
    probe              always empty: written to and emptied again, to see whether that is possible

Every bucket has tables of its own, so that no page of the file ever holds reports of two buckets: dropping a
table frees whole pages, and `secure_delete` overwrites freed pages. In a shared table, copies of a row that
SQLite moved while balancing could stay behind in pages that live on. Nothing has a time of arrival, and a slot's
number says nothing of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hubbub_shuffler.storage._version import FIRST, refuse_newer
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["BUSY_SECONDS", "THIS", "UPGRADES", "VERSION", "connect", "count", "create"]

THIS = "metric = ? AND period = ? AND key = ?"
"""Of one bucket, whose three fields are the parameters."""

BUSY_SECONDS = 30.0

VERSION = 2
_PERIODS = """
CREATE TABLE crowds (name TEXT PRIMARY KEY, period INTEGER NOT NULL, reports INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE held (body BLOB NOT NULL);
INSERT INTO held VALUES (x'')
"""
UPGRADES: dict[int, str] = {1: _PERIODS}
"""What the version after this one added, as statements."""

_TABLES = (
    """
CREATE TABLE buckets (
    metric BLOB NOT NULL, period INTEGER NOT NULL, key INTEGER NOT NULL,
    name TEXT NOT NULL, size INTEGER NOT NULL, closes_at INTEGER NOT NULL, minimum INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'planned', 'spent', 'gone')),
    revoked INTEGER NOT NULL, reports INTEGER NOT NULL, waiting TEXT NOT NULL, filled BLOB NOT NULL,
    PRIMARY KEY (metric, period, key)
) WITHOUT ROWID;
CREATE TABLE batches (
    id BLOB PRIMARY KEY,
    metric BLOB NOT NULL, period INTEGER NOT NULL, key INTEGER NOT NULL,
    kind TEXT NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL, reports INTEGER NOT NULL,
    sent INTEGER NOT NULL, attempts INTEGER NOT NULL, lease BLOB, due REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE counts (
    name TEXT NOT NULL, what TEXT NOT NULL, reports INTEGER NOT NULL, batches INTEGER NOT NULL,
    PRIMARY KEY (name, what)
) WITHOUT ROWID;
CREATE TABLE probe (body BLOB NOT NULL);
"""
    + _PERIODS
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection on which a commit is durable and a deletion overwrites, to files that only their owner can read."""
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
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # a spill to a temporary file would be a copy nobody deletes
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, or bring older ones up to date, all or none; StorageError if they are a newer software's."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _missing(connection):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _missing(connection: sqlite3.Connection) -> Iterator[str]:
    """The statements that lead from what is there to this version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    refuse_newer(found, VERSION)
    columns = {column[1] for column in connection.execute("PRAGMA table_info(buckets)")}
    if columns and "filled" not in columns:
        raise StorageError("the file is an older version's: let that one settle what is in it, then remove it")
    steps = [UPGRADES[old] for old in range(found or FIRST, VERSION)] if columns else [_TABLES]
    yield from ";".join(steps).split(";")


def count(db: sqlite3.Connection, name: str, what: str, *, reports: int, batches: int = 0) -> None:
    """Add to the sums of a metric."""
    if reports or batches:
        db.execute(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT (name, what) "
            "DO UPDATE SET reports = reports + excluded.reports, batches = batches + excluded.batches",
            (name, what, reports, batches),
        )
