"""Room for the copy of a table: how much it takes, and whether the disk has it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hubbub_service_common.storage.free_space import disk_of, headroom

__all__ = ["copy_of", "lacking"]

_PAGE = 4_096
_LARGEST_CELL, _SMALLEST_PART = 4_061, 489
"""Bytes of a row that lie on its page: all of them up to the first limit, beyond it at least the second
(sqlite.org/fileformat.html)."""
_NUMBERS = ("page_size", "page_count", "freelist_count")


def copy_of(slots: int, body: int) -> int:
    """Most bytes that a table with this many slots of this length takes."""
    cell = body + 16  # room for its length, its number and its record header
    if cell <= _LARGEST_CELL:
        pages = -(-slots // (_PAGE // cell))
    else:
        pages = slots * (1 + -(-(cell - _SMALLEST_PART) // (_PAGE - 4)))
    return (pages + pages // 64 + 2) * _PAGE  # plus the pages above them, and the log's header of each page


def lacking(db: sqlite3.Connection, database: Path, copy: int) -> int:
    """Bytes that the disk lacks for a copy of this size; 0 if it may be made.

    The copy is one transaction, so all of it goes into the log first. Then it goes into the file, where free pages take
    some of it. Room that is kept for closing, planning, settling and deleting is not used.
    """
    size, there, free = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _NUMBERS)
    disk, growth = disk_of(database.parent), max(0, size * there - database.stat().st_size)
    needed = copy + max(0, copy - size * free) + growth + headroom(disk.total)
    return max(0, needed - disk.free)
