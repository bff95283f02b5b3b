"""How much room a copy of a table takes, and whether the disk has it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hubbub_service_common.storage.room import disk_of, headroom

__all__ = ["copy_of", "lacking"]

_PAGE = 4_096
_LARGEST_CELL, _SMALLEST_PART = 4_061, 489
"""Bytes of a row that lie on its page: all up to this limit, else at least this many (sqlite.org/fileformat.html)."""
_NUMBERS = ("page_size", "page_count", "freelist_count")


def copy_of(slots: int, body: int) -> int:
    """Bytes that a table with this many slots of this length takes at most."""
    cell = body + 16  # its length, its number and what it holds
    if cell <= _LARGEST_CELL:
        pages = -(-slots // (_PAGE // cell))
    else:
        pages = slots * (1 + -(-(cell - _SMALLEST_PART) // (_PAGE - 4)))
    return (pages + pages // 64 + 2) * _PAGE  # the pages above them, and what the log has with each


def lacking(db: sqlite3.Connection, database: Path, copy: int) -> int:
    """Bytes that the disk lacks for a copy of this size: 0 if it may be made.

    It is one transaction, so all of it is in the log first; then it is in the file, where free pages take some of it.
    What is kept free for closing, planning, settling and deleting is left alone.
    """
    size, there, free = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _NUMBERS)
    disk, growth = disk_of(database.parent), max(0, size * there - database.stat().st_size)
    needed = copy + max(0, copy - size * free) + growth + headroom(disk.total)
    return max(0, needed - disk.free)
