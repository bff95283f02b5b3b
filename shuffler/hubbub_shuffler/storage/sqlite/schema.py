"""The tables of the SQLite backend.

    buckets            one row per (metric, period, key): its terms, its state, its number of reports, its tables
    waiting_<name>_0   the reports of one bucket that lie singly, in slots; _1: in pairs, _2: in fours, ...
    waiting_<name>_seed
    batches            what is to be forwarded, and its lease; if held: why, since when and until when
    counts             sums by metric name and what happened
    crowds             by metric name: the last closed period, and how many reports it had
    held               one row: what begun periods are held to
    probe              always empty: a row is written and deleted, to check that the file can be written

Every bucket has its own tables, so that no page of the file ever holds reports of two buckets: dropping a table frees
whole pages, and `secure_delete` overwrites freed pages. In a shared table, copies of a row that SQLite moved while
balancing could stay behind in pages that live on. No table has a time of arrival, and a slot's number says nothing
about it.
"""

from __future__ import annotations

import sqlite3

from hubbub_service_common.storage.kinds_and_errors import StorageError
from hubbub_service_common.storage.sqlite import make_tables, transaction
from hubbub_shuffler.storage.protocol import OTHERWISE

__all__ = ["THIS", "UPGRADES", "VERSION", "count", "create"]

THIS = "metric = ? AND period = ? AND key = ?"
"""Selects one bucket, whose three fields are the parameters."""

VERSION = 3
_FIRST = 1
"""The version of a file that was made before versions were written into it."""
_PERIODS = """
CREATE TABLE crowds (name TEXT PRIMARY KEY, period INTEGER NOT NULL, reports INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE held (body BLOB NOT NULL);
INSERT INTO held VALUES (x'')
"""
_HELD = """
ALTER TABLE batches ADD COLUMN held TEXT NOT NULL DEFAULT '';
ALTER TABLE batches ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE batches ADD COLUMN until INTEGER NOT NULL DEFAULT 0
"""
UPGRADES: dict[int, str] = {1: _PERIODS, 2: _HELD}
"""By version: the statements that lead to the next one."""

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
    + ";"
    + _HELD
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables, or bring older ones up to date, all or none; StorageError if newer software wrote them."""
    with transaction(db):
        (found,) = db.execute("PRAGMA user_version").fetchone()
        columns = {column[1] for column in db.execute("PRAGMA table_info(buckets)")}
        if not found and columns and "filled" not in columns:
            raise StorageError("an older version wrote the file: let that version settle what is in it, then remove it")
        there = found or (_FIRST if columns else 0)
        make_tables(db, _TABLES, UPGRADES, VERSION, found=there, otherwise=OTHERWISE)


def count(db: sqlite3.Connection, name: str, what: str, *, reports: int, batches: int = 0) -> None:
    """Add to the sums of a metric."""
    if reports or batches:
        db.execute(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT (name, what) "
            "DO UPDATE SET reports = reports + excluded.reports, batches = batches + excluded.batches",
            (name, what, reports, batches),
        )
