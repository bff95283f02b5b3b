"""Who uses the SQLite file beside us: services, and commands that an operator runs meanwhile.

Each holds a shared lock on the witness for as long as it uses the file, which ends with the process whatever becomes of
it. Whoever opens or leaves has the directory locked for that moment: of two that leave at once, the second one knows
that it is the last, and what one finds out about the files still holds when it writes that down.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Users"]

_PATIENCE, _PAUSE = 10.0, 0.01
"""Seconds to wait for another one that opens or leaves. One that was stopped meanwhile must not stop us, too."""


class Users:
    """The part of one of them. Where files can't be locked, nobody is ever taken for the last one."""

    def __init__(self, database: Path) -> None:
        self._directory, self._path = database.parent, database.with_name(f"{database.name}-witness")
        self._file: int | None = None

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Open or leave within."""
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

    def join(self) -> None:
        """We use it, from now on."""
        with suppress(OSError):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """We don't, any more; whether nobody does now."""
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(self._file)
            self._file = None


def _wait_for(gate: int) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return
            time.sleep(_PAUSE)
        except OSError:
            return
        else:
            return
