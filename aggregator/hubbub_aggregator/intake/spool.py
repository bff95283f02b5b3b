"""The spool: bodies of acknowledged batches that wait to be opened.

Each process has its own files. If several processes share a storage, a body is also kept there before the batch is
acknowledged, so that any of them can finish it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from hubbub_service_common.process.atomic_files import create, sync
from hubbub_service_common.process.clock_and_entropy import token
from hubbub_service_common.storage.free_space import disk_of, headroom

if TYPE_CHECKING:
    from hubbub_aggregator.storage import Bodies

__all__ = ["Spool", "Upload"]

_PIECE = 2**20
"""Bytes of a body that are sent to the shared storage at once."""


class Upload:
    """A body that is arriving. It is removed at the end unless it is marked as `kept`."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self._path, self.size = file, path, size
        self.unwritten = size
        """Bytes still to be written to the file."""
        self.kept = False

    @property
    def name(self) -> str:
        return self._path.name

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.unwritten -= len(chunk)

    def pieces(self) -> Iterator[bytes]:
        """All that was written, for the shared storage."""
        with self._path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def sync(self) -> None:
        """Make the bytes durable, and the file's name in its directory."""
        self._file.flush()
        os.fsync(self._file.fileno())
        sync(self._path.parent)


class Spool:
    """One file per upload under a fresh name, so that two uploads of one batch cannot mix."""

    def __init__(self, directory: Path, shared: Bodies | None = None) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory, self._shared = directory, shared
        self._incoming: set[str] = set()
        self._lock, self._uploads = Lock(), list[Upload]()
        """Uploads in progress, in the order in which they began."""

    def make_sure_of_room(self, upload: Upload) -> None:
        """OSError or StorageError unless this body leaves room to work on all waiting and arriving bodies.

        What stays of a batch takes less than half the size of its body, even while it is both in a log and in the file
        behind it. On a disk full of bodies none could be settled, and the disk would stay full. Bytes that other
        uploads have announced and not sent count as if they were there. Of two simultaneous uploads, the second one
        sees the first, also in another process where they share a storage: the body is announced there, until
        `withdraw`. The disk is this process's own.
        """
        with self._lock:
            until = self._uploads.index(upload) + 1
            unwritten = sum(one.unwritten for one in self._uploads[:until])
        if self._shared is not None:
            self._shared.announce(upload.name, upload.size)
        # look at the disk afterwards: bytes that arrive in between count twice, and none are missed
        disk, waiting = disk_of(self._directory), 0
        for path in self._directory.iterdir():
            with suppress(FileNotFoundError):  # settled meanwhile
                waiting += path.stat().st_size
        if disk.free - unwritten < headroom(disk.total) + (waiting + unwritten) // 2:
            raise OSError(ENOSPC, "too little room for the body and for the work on it")

    def withdraw(self, upload: Upload) -> None:
        """Say that nothing more is coming of this body."""
        if self._shared is not None:
            self._shared.withdraw(upload.name)

    @contextmanager
    def upload(self, size: int) -> Iterator[Upload]:
        """Take one body of this size, which counts as arriving from here on. It is removed at the end unless kept."""
        path = self.path(token(16))
        self._incoming.add(path.name)
        try:
            with create(path) as file:
                upload = Upload(file, path, size)
                with self._lock:
                    self._uploads.append(upload)
                try:
                    yield upload
                finally:
                    with self._lock:
                        self._uploads.remove(upload)
                    if not upload.kept:
                        path.unlink()
        finally:
            self._incoming.discard(path.name)

    def keep(self, upload: Upload) -> None:
        """Make a whole body durable, here and where the other processes find it."""
        upload.sync()
        if self._shared is not None:
            self._shared.keep(upload.name, upload.pieces(), upload.size)

    def settle_upload(self, upload: Upload, *, kept: bool) -> None:
        """Say whether a batch names this body now."""
        upload.kept = kept
        if self._shared is not None:
            (self._shared.hold if kept else self._shared.remove)(upload.name)

    def path(self, name: str) -> Path:
        return self._directory / name

    def fetch(self, name: str, size: int) -> bool:
        """Make sure that a body is in a file here. False if it is nowhere, or not whole."""
        path = self.path(name)
        if path.exists() and path.stat().st_size == size:  # a power cut may have left less of it
            return True
        pieces = None if self._shared is None else self._shared.read(name)
        if pieces is None:
            return False
        part = path.with_name(f"{name}.{token(4)}")
        self._incoming |= {part.name, name}
        try:
            with create(part) as file:
                for piece in pieces:
                    file.write(piece)
            whole = part.stat().st_size == size
            if whole:
                part.rename(path)
            return whole
        finally:
            part.unlink(missing_ok=True)
            self._incoming -= {part.name, name}

    def remove(self, name: str | None) -> None:
        """Remove a body that was worked on; no error if it is gone already."""
        if name is not None:
            self.path(name).unlink(missing_ok=True)
            if self._shared is not None:
                self._shared.remove(name)

    def sweep(self, waiting: Callable[[], Collection[str | None]]) -> int:
        """Remove files that no pending batch names: interrupted uploads, and bodies that were settled elsewhere.

        Files are listed before `waiting` is called, so that a body that is acknowledged in between is not touched.
        """
        found = [path for path in self._directory.iterdir() if path.name not in self._incoming]
        named = waiting() if found else ()
        stray = [path for path in found if path.name not in named]
        for path in stray:
            path.unlink(missing_ok=True)
        return len(stray)
