"""Room of the SQLite file, and a reserve on the disk for when other programs have filled it.

Two parts of the disk are not for new data: room for the log, which every write needs before it is in the file, and room
for closing, planning, settling and deleting. In addition there is a reserve: a file of zeros that is given up for this
work when the disk is full to the last byte, and made again when there is room.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hubbub_service_common.process.atomic_files import create
from hubbub_service_common.storage.free_space import Room, disk_of, headroom
from hubbub_service_common.storage.sqlite import cut_log

__all__ = ["Reserve", "bound_log", "free_of", "room_of"]

_NEEDED = 256 * 2**10
"""Bytes of the log that one step of closing, planning, claiming or settling may need: some sixty pages."""
_RESERVE = 8 * 2**20
"""Twice what SQLite leaves in its log before it moves that into the file, which then grows (`bound_log`)."""


class Reserve:
    """The reserve file beside the database, at most `largest` bytes long. Any number of processes share it."""

    def __init__(self, database: Path, largest: int = _RESERVE) -> None:
        self._path, self._largest = database.with_name(f"{database.name}-reserve"), largest

    @property
    def size(self) -> int:
        """Bytes of the reserve; OSError if the disk can't be read."""
        return min(self._largest, headroom(disk_of(self._path.parent).total))

    def keep(self) -> None:
        """Make the reserve if the disk has room for it and everything else. An existing one is left alone."""
        with suppress(OSError):  # without room or permission, the work goes on without a reserve
            disk, size = disk_of(self._path.parent), self.size
            if self._path.exists():
                self._path.chmod(0o600)
                return
            if disk.free < 2 * headroom(disk.total) + 2 * size or not size:
                return
            part = self._path.with_name(f"{self._path.name}.part")
            part.unlink(missing_ok=True)
            with create(part) as file:
                os.posix_fallocate(file.fileno(), 0, size)
            part.replace(self._path)

    def give_up_if_needed(self) -> None:
        """Call before work that must not fail. Nothing happens while the disk has room for it."""
        with suppress(OSError):
            disk = disk_of(self._path.parent)
            if disk.free < min(_NEEDED, headroom(disk.total)):
                self.give_up()

    def give_up(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def bound_log(db: sqlite3.Connection, reserve: Reserve) -> None:
    """Have the log moved into the file before that would need more than half of the reserve."""
    (page,) = db.execute("PRAGMA page_size").fetchone()
    db.execute(f"PRAGMA wal_autocheckpoint = {max(8, min(reserve.size, _RESERVE) // 2 // page)}")


class _Pages(NamedTuple):
    size: int
    there: int
    free: int
    file: int
    """Bytes of the database on the disk."""
    log: int
    """Bytes of the log on the disk."""

    @property
    def growth(self) -> int:
        """Bytes by which the database grows when the log is moved into it."""
        return max(0, self.size * self.there - self.file)


def room_of(db: sqlite3.Connection, database: Path, quota: int | None) -> Room:
    """The room now. If the log is large compared with what is left, it is cut first."""
    found = _room(db, database, quota)
    if 4 * _size(_log_of(database)) > max(0, found.left):
        # A full disk may refuse the cut. Then the first answer stands: there is no room.
        with suppress(sqlite3.OperationalError):
            if cut_log(db):
                return _room(db, database, quota)
    return found


def _room(db: sqlite3.Connection, database: Path, quota: int | None) -> Room:
    disk, pages = disk_of(database.parent), _pages(db, database)
    margin = headroom(disk.total)
    live, spare = pages.size * (pages.there - pages.free), pages.size * pages.free
    used = live + pages.log
    limit = used + max(0, disk.free - pages.growth) + spare
    # The log grows on the disk itself: it can't use free pages of the database.
    inside, beside = disk.free - pages.growth + spare - 2 * margin, disk.free - pages.growth - margin
    left, most = min(inside, beside), min(inside + used, beside + pages.log)
    if quota is not None:
        own = quota - headroom(quota)
        limit, left, most = min(limit, quota), min(left, own - used), min(most, own)
    return Room(used, limit, left, min(margin, headroom(limit, 8)) // 2, max(0, most))


def free_of(database: Path) -> int:
    return disk_of(database.parent).free


def _pages(db: sqlite3.Connection, database: Path) -> _Pages:
    names = ("page_size", "page_count", "freelist_count")
    size, there, free = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return _Pages(size, there, free, database.stat().st_size, _size(_log_of(database)))


def _log_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
