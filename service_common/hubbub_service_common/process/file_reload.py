"""Reloading of files that are renewed under a running service, such as certificates.

Changed files are taken once they were the same at two looks, so that no file is read while it is being written. If they
can't be used, the old content stays in force, and the log says so once for each change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

__all__ = ["Renewal"]

_EVERY = 10.0


class Renewal:
    """Watches `files`, and calls `take` when they have changed. It returns what it took, for the log, or raises
    OSError."""

    def __init__(self, *files: Path, take: Callable[[], str], log: logging.Logger) -> None:
        self._files, self._take, self._log = files, take, log
        self._taken = self._seen = self._state()

    def look(self) -> None:
        """Take the files if they have changed, unless they are still changing."""
        found, before = self._state(), self._seen
        self._seen = found
        if found == self._taken or found != before:
            return
        self._taken = found  # even if it can't be used: trying the same bytes again would not help
        try:
            taken = self._take()
        except OSError as error:
            names = " and ".join(map(str, self._files))
            why = error.strerror or "it is not what was expected"
            self._log.error("%s changed and can't be used, so what was there stays in force: %s", names, why)
        else:
            self._log.info("taken without a restart: %s", taken)

    async def watch(self, every: float = _EVERY) -> None:
        """Look repeatedly, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await asyncio.to_thread(self.look)

    def _state(self) -> bytes:
        """One digest of the files' content. A file that can't be read differs from any that can."""
        whole = sha256()
        for file in self._files:
            try:
                content = file.read_bytes()
            except OSError as error:
                content = repr(error.errno).encode()
            whole.update(len(content).to_bytes(8) + content)
        return whole.digest()
