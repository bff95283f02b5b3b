"""The opt-out: a file of its own beside the state, so that damage, a newer version or a lock cannot undo it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["OptOut", "sync_directory"]

_FILE_NAME = "hubbub.disabled"
_TEXT = b"Telemetry is switched off here. `python -m hubbub_client enable DIRECTORY` switches it on again.\n"


class OptOut:
    """While the file is there, nothing is kept or sent, whatever the app's `consent` says."""

    def __init__(self, directory: Path | str) -> None:
        self._path = str(Path(directory) / _FILE_NAME)
        self._until_the_end = False

    def given(self) -> bool:
        return self._until_the_end or os.path.exists(self._path)

    def give(self) -> bool:
        """Switch off. False: it could not be written down, and holds for this client only."""
        self._until_the_end = True
        try:
            path = Path(self._path)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_TEXT)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)
        except OSError:
            return False
        self._until_the_end = False
        return True

    def take_back(self) -> bool:
        """Switch on again. False: the file could not be removed, so it stays off."""
        try:
            Path(self._path).unlink(missing_ok=True)
        except NotADirectoryError:
            pass  # so the file cannot exist
        except OSError:
            return False
        self._until_the_end = False
        return True


def sync_directory(directory: Path) -> None:
    """Flush a directory to disk, so that a power cut does not undo a change in it."""
    with suppress(OSError):  # not every system can open a directory
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
