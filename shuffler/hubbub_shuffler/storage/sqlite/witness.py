"""A witness outside the SQLite file: how many reports the file has taken in all, and whether it was closed properly.

A killed process leaves the log of the database behind, with everything acknowledged since the log was last cut. If that
log is missing at the next start, SQLite silently opens an older state. The witness is written without waiting for the
disk, so it costs an upload nothing and survives the death of the process. After a power cut it may be older than the
database but never newer, so it raises no false alarm.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path
from threading import local

from hubbub_service_common.storage.sqlite import transaction
from hubbub_shuffler.storage.sqlite.schema import count

__all__ = ["NOBODYS", "Witness"]

NOBODYS = ""
"""In place of a metric's name: which metrics the lost reports belonged to is lost with them."""
_LOG = logging.getLogger("hubbub_shuffler")
_RECORD = struct.Struct(">8s?Q")
_MAGIC = b"hubbub-1"


class Witness:
    """The file beside the database. Where several processes share the database, each writes what it saw last.

    Construction, `begin`, `rest` and `end` run in one process at a time (`open_close_lock`): between looking at the log
    and recording what was seen, no process may close the database, which deletes the log.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._path = database.with_name(f"{database.name}-witness")
        self._file: int | None = None
        # Read the witness first: if it says "running", the log existed when it was written. In the other order, another
        # process's first commit between the two looks would pass for a missing log.
        self._found = self._read()
        self._had_log = self._log.exists()
        self._last, self._running = 0, False
        self._summed = local()

    def begin(self, db: sqlite3.Connection) -> None:
        """Compare, log an error about missing reports, and continue from what is there."""
        running, before = self._found
        total = _sum(db)
        gone = running and not self._had_log
        if gone or before > total:
            lost = max(0, before - total)
            _LOG.error(
                "THE STORAGE LOST ACKNOWLEDGED REPORTS%s: %s. It goes on with what is there",
                ": ITS LOG (-wal) IS GONE" if gone else "",
                f"{lost} are missing" if lost else "how many is not known",
            )
            with transaction(db):
                count(db, NOBODYS, "lost", reports=lost, batches=1)
        with suppress(OSError):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            os.fchmod(self._file, 0o600)
        self._last = total

    def rest(self) -> None:
        """Record that this process has nothing in the log. If there is a log, another process is using it."""
        running = self._log.exists()
        self._write(running=running)
        if not running and self._log.exists():  # another process has just begun, and may have recorded it before us
            self._write(running=True)

    def total(self, db: sqlite3.Connection, taken: int) -> tuple[int, int]:
        """How many reports were ever taken, for `saw`. Runs inside the caller's transaction, which has counted `taken`.

        The sum is computed again only if another connection has written since.
        """
        (version,) = db.execute("PRAGMA data_version").fetchone()
        before, total = getattr(self._summed, "last", (None, 0))
        return version, total + taken if version == before else _sum(db)

    def saw(self, total: tuple[int, int]) -> None:
        """Record how many reports were acknowledged in all."""
        first, self._running = not self._running, True
        self._summed.last = total
        self._last = total[1]
        self._write(running=True)
        if first and self._file is not None:  # once: that there is a log must be known even after a power cut
            with suppress(OSError):
                os.fsync(self._file)

    def end(self) -> None:
        """Record that the database was closed properly, unless another process still uses it: then there is a log."""
        if self._file is not None:
            self.rest()
            os.close(self._file)
            self._file = None

    def _read(self) -> tuple[bool, int]:
        found = b""
        with suppress(OSError):
            found = self._path.read_bytes()
        if len(found) != _RECORD.size:
            return False, 0
        magic, running, total = _RECORD.unpack(found)
        return (running, total) if magic == _MAGIC else (False, 0)

    def _write(self, *, running: bool) -> None:
        if self._file is not None:
            with suppress(OSError):  # the witness guards against a failure, and must not cause one
                os.pwrite(self._file, _RECORD.pack(_MAGIC, running, self._last), 0)


def _sum(db: sqlite3.Connection) -> int:
    (found,) = db.execute("SELECT coalesce(sum(reports), 0) FROM counts WHERE what = 'ingested'").fetchone()
    return int(found)
