"""Real deletion in SQLite: reports are overwritten in the file, and cut from the log.

The log is cut at every call, even if nothing was deleted: until then it shows the order of group commits.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hubbub_service_common.storage.sqlite import cut_log, transaction
from hubbub_shuffler.storage.sqlite.salvage import is_broken, set_aside
from hubbub_shuffler.storage.sqlite.schema import THIS
from hubbub_shuffler.storage.sqlite.slots import tables

__all__ = ["REMAINS", "erase"]

REMAINS = "DAMAGED PAGES STAY IN THE FILE: once nothing waits, stop the shuffler and remove it. A table"
_LOG = logging.getLogger("hubbub_shuffler")

_AT_ONCE = 2**20
"""Bytes deleted in one transaction. Few, so that uploads never wait long for the file."""


_SHORT = 8 * _AT_ONCE
"""With fewer free bytes than this, the log is cut before every step, and steps are smaller."""
_SMALLEST = 32 * 2**10


def erase(db: sqlite3.Connection, forgotten: float, free: Callable[[], int]) -> bool:
    """Delete spent buckets, and the records of buckets that closed before `forgotten`. False if the log could not be
    cut.

    `free`: bytes that are free on the disk.
    """
    failed: sqlite3.DatabaseError | None = None
    for *bucket, size, waiting, filled in db.execute(
        "SELECT metric, period, key, size, waiting, filled FROM buckets WHERE state = 'spent'"
    ).fetchall():
        try:
            _delete(db, bucket, size, waiting, filled, free)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise  # not the fault of the bucket, and each of the others would wait as long
            failed = error  # delete the others and cut the log first
    clean = _cut_log(db)
    if db.execute(
        "SELECT 1 FROM buckets WHERE state = 'gone' AND waiting = '' AND closes_at <= ?", (forgotten,)
    ).fetchone():
        with transaction(db):
            db.execute(
                "DELETE FROM buckets WHERE state = 'gone' AND waiting = '' AND closes_at <= ? AND NOT EXISTS "
                "(SELECT 1 FROM batches AS b WHERE (b.metric, b.period, b.key) = "
                "(buckets.metric, buckets.period, buckets.key))",
                (forgotten,),
            )
    if failed is not None:
        raise failed
    return clean


def _delete(
    db: sqlite3.Connection, bucket: list[object], size: int, waiting: str, filled: bytes, free: Callable[[], int]
) -> None:
    """Delete the reports of one spent bucket. Tables that can't be read are set aside."""
    own = tables(waiting, filled)
    try:
        for length, table in own.items():
            _empty(db, table, size << length, free)
        with transaction(db):
            for table in (*own.values(), f"{waiting}_seed"):
                db.execute(f"DROP TABLE IF EXISTS {table}")
            db.execute(f"UPDATE buckets SET state = 'gone' WHERE {THIS} AND state = 'spent'", bucket)  # noqa: S608  constant
    except sqlite3.DatabaseError as error:
        if not is_broken(error):
            raise
        _LOG.error("%s of a bucket that was forwarded or discarded can't be deleted: %s", REMAINS, error)
        with transaction(db):
            set_aside(db, (*own.values(), f"{waiting}_seed"))
            db.execute(f"UPDATE buckets SET state = 'gone' WHERE {THIS} AND state = 'spent'", bucket)  # noqa: S608  constant


def _empty(db: sqlite3.Connection, table: str, each: int, free: Callable[[], int]) -> None:
    """Delete in steps: one large deletion would keep uploads waiting for the file, and would need room in the log."""
    deleted = 1
    while deleted:
        if (room := free()) < _SHORT:
            cut_log(db)
            room = free()
        at_once = max(1, min(_AT_ONCE, max(_SMALLEST, room // 4)) // each)
        with transaction(db):
            try:
                deleted = db.execute(
                    f"DELETE FROM {table} WHERE slot IN (SELECT slot FROM {table} LIMIT {at_once})"  # noqa: S608  our own name
                ).rowcount
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                deleted = 0  # another process was faster


def _cut_log(db: sqlite3.Connection) -> bool:
    """Cut the log. Overwriting in the file is not enough: the log holds the old pages until it is cut.

    A bucket that is gone keeps the name of its table until then, so that any process can finish this.
    """
    traces = db.execute("SELECT metric, period, key FROM buckets WHERE state = 'gone' AND waiting != ''").fetchall()
    if not traces and not _has_log(db):
        return True
    if not cut_log(db):
        return not traces
    if traces:
        with transaction(db):
            # only those from before the cut: another process may have deleted more since
            db.executemany(f"UPDATE buckets SET waiting = '' WHERE {THIS} AND state = 'gone'", traces)  # noqa: S608  constant
    return True


def _has_log(db: sqlite3.Connection) -> bool:
    (_, _, path), *_ = db.execute("PRAGMA database_list")
    log = Path(f"{path}-wal")
    return log.exists() and log.stat().st_size > 0
