"""A witness outside the SQLite file: how many reports it had in all, and whether it was closed in good order.

A process that was killed leaves the log of the database behind, with what was acknowledged since the log was last cut.
If that file is gone at the next start, SQLite opens an older state and says nothing. The witness is written without
waiting for the disk, so it costs an upload nothing: it survives the death of the process. After a power cut it may be
older than the database, never newer, so it raises no false alarm.
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
"""In place of a metric's name: of which metrics they were is lost with them."""
_LOG = logging.getLogger("hubbub_shuffler")
_RECORD = struct.Struct(">8s?Q")
_MAGIC = b"hubbub-1"


class Witness:
    """The file beside the database. Where several processes share that, each writes what it saw last.

    Made, begun, rested and ended by one process at a time (`_sqlite_users`): between a look at the log and what is
    written about it, nobody may close the database, which deletes the log.
    """

    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._path = database.with_name(f"{database.name}-witness")
        self._file: int | None = None
        # The witness first: one that says "running" was written when the log was there already. The other way round,
        # another process's first commit between the two looks would pass for a log that is gone.
        self._found = self._read()
        self._had_log = self._log.exists()
        self._last, self._running = 0, False
        self._summed = local()

    def begin(self, db: sqlite3.Connection) -> None:
        """Compare, say loudly what is missing, and go on from what is there."""
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
        """Nothing of ours is in the log. If it is there all the same, another process has it."""
        running = self._log.exists()
        self._write(running=running)
        if not running and self._log.exists():  # one that had not written yet has begun: it may have said so before us
            self._write(running=True)

    def total(self, db: sqlite3.Connection, taken: int) -> tuple[int, int]:
        """How many reports were ever taken, for `saw`; inside a transaction of the caller, which has counted `taken`.

        They are summed up only where another connection has written since.
        """
        (version,) = db.execute("PRAGMA data_version").fetchone()
        before, total = getattr(self._summed, "last", (None, 0))
        return version, total + taken if version == before else _sum(db)

    def saw(self, total: tuple[int, int]) -> None:
        """Note how many reports were acknowledged in all."""
        first, self._running = not self._running, True
        self._summed.last = total
        self._last = total[1]
        self._write(running=True)
        if first and self._file is not None:  # once: that there is a log must be known also after a power cut
            with suppress(OSError):
                os.fsync(self._file)

    def end(self) -> None:
        """Closed in good order, unless another process goes on: then its log is there."""
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
            with suppress(OSError):  # it is there for the worst case, and must not be the cause of one
                os.pwrite(self._file, _RECORD.pack(_MAGIC, running, self._last), 0)


def _sum(db: sqlite3.Connection) -> int:
    (found,) = db.execute("SELECT coalesce(sum(reports), 0) FROM counts WHERE what = 'ingested'").fetchone()
    return int(found)
