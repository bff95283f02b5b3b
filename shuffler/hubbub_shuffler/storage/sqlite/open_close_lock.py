"""Lock for opening and leaving the SQLite file, shared by services and the operator's commands.

A process locks the directory while it opens or leaves the file, so that what it found out about the files is still true
when it writes that down.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hubbub_service_common.process.clock_and_entropy import monotonic, sleep

__all__ = ["Users"]

_PATIENCE, _PAUSE = 10.0, 0.01
"""Seconds to wait for another process that opens or leaves. If that one was suspended, it must not stop us too."""


class Users:
    """One user of the file. Where directories can't be locked, there is no waiting."""

    def __init__(self, database: Path) -> None:
        self._directory = database.parent

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Open or leave the file within this."""
        gate: int | None = None
        with suppress(OSError):
            gate = os.open(self._directory, os.O_RDONLY)
        try:
            if gate is not None:
                _wait_for(gate)
            yield
        finally:
            if gate is not None:
                os.close(gate)


def _wait_for(gate: int) -> None:
    until = monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > until:
                return
            sleep(_PAUSE)
        except OSError:
            return
        else:
            return
