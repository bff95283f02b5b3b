"""Room of a storage, and the mark below its limit at which a service takes no new data.

Stored data must be able to leave, and that needs room too, for closing, planning, settling and deleting. So new data
stops at a mark, and the room beyond the mark is for that work alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Disk", "Room", "disk_of", "headroom"]

_LARGEST = 64 * 2**20


class Room(NamedTuple):
    """The room of one storage in bytes; of a cluster, that of its fullest primary."""

    used: int
    limit: int
    """The total: Redis's `maxmemory`, the disk, or the quota that was set."""
    left: int
    """How much new data may come before the mark. At zero or below, none is taken."""
    again: int
    """What must be left before new data is taken again after a stop, so that intake does not stop and start rapidly."""
    most: int
    """About what would be left if there were no data: a larger request can never be met."""


class Disk(NamedTuple):
    """The file system of a directory, in bytes."""

    free: int
    """What this process may still write."""
    total: int


def disk_of(directory: Path) -> Disk:
    """The disk of a directory; OSError if it can't be read."""
    found = os.statvfs(directory)
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def headroom(limit: int, share: int = 16) -> int:
    """Bytes that are kept for work on stored data: a share of the total, at most 64 MiB."""
    return min(limit // share, _LARGEST)
