"""Files that are there whole or not at all, also after a power cut, and for their owner only unless said otherwise."""

from __future__ import annotations

import glob
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from hubbub.problems import InvalidParameter

__all__ = ["Service", "create", "new_file", "state_directory", "sync", "write"]

Service: TypeAlias = Literal["shuffler", "aggregator"]
_NAMES: dict[Service, str] = {"shuffler": "a shuffler", "aggregator": "an aggregator"}
_OWN_FILES: dict[Service, tuple[str, ...]] = {
    "shuffler": ("reports.sqlite", "bundle.anchor"),
    "aggregator": ("aggregator.db", "identity.key", "spool"),
}
"""What only one service has in its state directory."""
_PART = re.compile(r"\.[0-9a-f]{16}\.part")
_STALE = 86_400.0
"""Seconds without a change after which nobody is at work on a file that is written beside another."""


def state_directory(path: Path, service: Service | None = None) -> Path:
    """The state directory of a service, made if it is not there; nobody but its owner may look inside.

    InvalidParameter if it can't be made, or is not that of `service`: both services keep files of the same name.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)  # also if it was there before
    except OSError as error:
        why = "it is a file" if path.is_file() else error.strerror or str(error)
        raise InvalidParameter(f"the state directory {path} can't be used: {why}. Choose another one") from error
    for other, names in _OWN_FILES.items():
        if service not in (None, other) and (found := [name for name in names if (path / name).exists()]):
            raise InvalidParameter(
                f"{path} is the state directory of {_NAMES[other]}, since it has {found[0]}: give the {service} one of "
                "its own"
            )
    return path


def write(path: Path, data: bytes, *, replace: bool = True, mode: int | None = 0o600) -> None:
    """Write a whole file. `replace` and `mode` are those of `new_file`."""
    with new_file(path, replace=replace, mode=mode) as part:
        part.write_bytes(data)


@contextmanager
def new_file(path: Path, *, replace: bool = False, mode: int | None = 0o600) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its name when the block ends without an error.

    Unless `replace`, what is there stays, and the end of the block raises FileExistsError. `mode` None: as the umask
    has it. Whatever else begins with the name of the file beside, such as a journal of SQLite, is removed with it, and
    so is what a killed process left here more than a day ago.
    """
    _remove_stale(path)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    create(part, mode).close()
    try:
        yield part
        sync(part)
        if replace:
            part.replace(path)
        else:
            os.link(part, path)  # the one way to take a name that refuses to replace
    finally:
        for left in path.parent.glob(f"{glob.escape(part.name)}*"):
            left.unlink()
    sync(path.parent)


def _remove_stale(path: Path) -> None:
    """Remove what a process that was killed has left beside `path`: it may hold secrets, and nobody reads it.

    One that is still written to is younger than that.
    """
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part*"):
        with suppress(OSError):  # another process removes it too, or it is not ours
            if _PART.match(left.name[len(path.name) :]) and time.time() - left.stat().st_mtime > _STALE:
                left.unlink()


def create(path: Path, mode: int | None = 0o600) -> BinaryIO:
    """A file that was not there, open for writing. Nobody without the right to it can open it at any moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode & 0o600)
    if mode is not None:
        os.fchmod(descriptor, mode)  # whatever the umask says
    return os.fdopen(descriptor, "wb")


def sync(path: Path) -> None:
    """Bring a file to the disk; or a directory, and with it the names in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
