"""The spool: bodies of batches that were acknowledged and wait to be opened."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["Spool", "Upload"]


class Upload:
    """A body on its way in. Unless it is marked as `kept`, nothing of it stays."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.kept = False

    @property
    def name(self) -> str:
        return self._path.name

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)

    def sync(self) -> None:
        """Make the bytes durable; the file's name is so when the directory is."""
        self._file.flush()
        os.fsync(self._file.fileno())
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Spool:
    """One file per upload under a fresh name, so that two uploads of one batch cannot mix."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory

    @contextmanager
    def upload(self) -> Iterator[Upload]:
        """Room for one body; removed at the end unless it was kept."""
        path = self.path(secrets.token_hex(16))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            upload = Upload(file, path)
            try:
                yield upload
            finally:
                if not upload.kept:
                    path.unlink()

    def path(self, name: str) -> Path:
        return self._directory / name

    def remove(self, name: str | None) -> None:
        """Remove a body that was worked on; no error if it is gone already."""
        if name is not None:
            self.path(name).unlink(missing_ok=True)

    def sweep(self, waiting: Collection[str]) -> int:
        """Remove what no pending batch names: uploads that were cut off, and bodies settled just before a crash."""
        stray = [path for path in self._directory.iterdir() if path.name not in waiting]
        for path in stray:
            path.unlink()
        return len(stray)
