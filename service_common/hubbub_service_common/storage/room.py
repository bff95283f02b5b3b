"""How much room a storage has, and the mark below its end at which a service takes nothing new.

What is there already must be able to leave: that needs room too, for closing, planning, settling and deleting. So new
data stops at a mark, and what lies behind the mark is for that work alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Disk", "Room", "disk_of", "headroom"]

_LARGEST = 64 * 2**20


class Room(NamedTuple):
    """Bytes of one storage; of a cluster, those of its fullest primary."""

    used: int
    limit: int
    """What there is in all: Redis' `maxmemory`, the disk, or the quota that was set."""
    left: int
    """What may come before the mark; none or less: nothing new."""
    again: int
    """What must be left before new data is taken again, once it was not: so that it does not come and go."""
    most: int
    """About what would be left if no data were there: no wish beyond this is ever met."""


class Disk(NamedTuple):
    """Bytes of the file system that has a directory."""

    free: int
    """What we may still write."""
    total: int


def disk_of(directory: Path) -> Disk:
    """OSError if it can't be seen."""
    found = os.statvfs(directory)
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def headroom(limit: int, share: int = 16) -> int:
    """What is kept for the work on what is there: a part of it all, and no more than 64 MiB."""
    return min(limit // share, _LARGEST)
