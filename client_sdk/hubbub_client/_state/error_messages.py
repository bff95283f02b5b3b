"""Error messages for the people who run the app: why nothing can be kept, and what to do about it.

The text of an exception is never passed on, as it may name a value.
"""

from __future__ import annotations

import errno
import sqlite3

from hubbub_client._state.schema import NewerVersion

__all__ = ["BUSY", "reason_of"]

BUSY = (
    "another process or thread was writing to the state file",
    "the SDK tries again; if this goes on, look for a process that hangs with the file open",
)
_FULL = "the disk is full", "make room where state_dir is"
_NO_PERMISSION = (
    "state_dir cannot be written",
    "give this user the right to write to it and to all files in it, or pass another state_dir",
)
_NO_DIRECTORY = "state_dir is not a directory", "pass the path of a directory; it is created if it does not exist"
_NEWER = (
    "the state file was written by a newer SDK",
    "update the SDK of this app, and let no two versions use one state_dir",
)
_FAILING = "the disk failed to read or write", "check the disk, its quota and the limits of this process"
_BY_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _NO_PERMISSION,
    sqlite3.SQLITE_PERM: _NO_PERMISSION,
    sqlite3.SQLITE_CANTOPEN: _NO_PERMISSION,
    sqlite3.SQLITE_AUTH: _NO_PERMISSION,
    sqlite3.SQLITE_IOERR: _FAILING,
}
_BY_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: _NO_PERMISSION,
    errno.ENOTDIR: _NO_DIRECTORY,
    errno.EEXIST: _NO_DIRECTORY,
    errno.EIO: _FAILING,
    errno.EFBIG: _FAILING,
}


def reason_of(error: sqlite3.Error | OSError) -> tuple[str, str]:
    """Why nothing can be kept, and what to do. No remedy if the next cycle sees to it by itself."""
    if isinstance(error, NewerVersion):
        return _NEWER
    if isinstance(error, OSError):
        if error.errno is None:  # raised by the integrity check: the witness must be written first
            return str(error), ""
        known = _BY_SYSTEM.get(error.errno)
    else:
        known = _BY_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    return known or (f"nothing can be kept ({name})", "check state_dir and its disk, or pass another state_dir")
