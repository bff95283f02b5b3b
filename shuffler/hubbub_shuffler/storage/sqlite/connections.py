"""Connections to the SQLite file, one per thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Lock, local

from hubbub_service_common.storage.sqlite import connect

__all__ = ["Connections"]


class Connections:
    """One connection for each thread that asks. `prepare` is called with each new one."""

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection], None]) -> None:
        self._path, self._prepare, self._lock, self._local = path, prepare, Lock(), local()
        self._all: list[sqlite3.Connection] = []

    def of_this_thread(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = connect(self._path)
            self._prepare(found)
            self._local.connection = found
            with self._lock:
                self._all.append(found)
        return found

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
