"""Files that are renewed under a running service, such as certificates: read again when they have changed.

They are taken when they were the same at two looks, so that nothing is read that is still being written, and if they
can't be used, what was there before stays in force and the log says so, once for each change.
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
    """Looks at `files`, and has them taken when they have changed: `take` says what it took, or raises OSError."""

    def __init__(self, *files: Path, take: Callable[[], str], log: logging.Logger) -> None:
        self._files, self._take, self._log = files, take, log
        self._taken = self._seen = self._state()

    def look(self) -> None:
        """Take what has changed, unless that goes on."""
        found, before = self._state(), self._seen
        self._seen = found
        if found == self._taken or found != before:
            return
        self._taken = found  # also if it is of no use: the same bytes will not be of more
        try:
            taken = self._take()
        except OSError as error:
            names = " and ".join(map(str, self._files))
            why = error.strerror or "it is not what was expected"
            self._log.error("%s changed and can't be used, so what was there stays in force: %s", names, why)
        else:
            self._log.info("taken without a restart: %s", taken)

    async def watch(self, every: float = _EVERY) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await asyncio.to_thread(self.look)

    def _state(self) -> bytes:
        """What the files hold, as one digest; a file that can't be read differs from any that can."""
        whole = sha256()
        for file in self._files:
            try:
                content = file.read_bytes()
            except OSError as error:
                content = repr(error.errno).encode()
            whole.update(len(content).to_bytes(8) + content)
        return whole.digest()
