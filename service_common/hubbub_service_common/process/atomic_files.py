"""Atomic files: whole or not there at all, even after a power cut, and readable by their owner only by default."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from hubbub.errors import InvalidParameter
from hubbub_service_common.process.clock_and_entropy import token, wall

__all__ = ["Service", "create", "new_file", "state_directory", "sync", "write"]

Service: TypeAlias = Literal["shuffler", "aggregator"]
_NAMES: dict[Service, str] = {"shuffler": "a shuffler", "aggregator": "an aggregator"}
_OWN_FILES: dict[Service, tuple[str, ...]] = {
    "shuffler": ("reports.sqlite", "bundle.anchor"),
    "aggregator": ("aggregator.db", "identity.key", "spool"),
}
"""Files that only this service has in its state directory."""
_PART = re.compile(r"\.[0-9a-f]{16}\.part")
_STALE = 86_400.0
"""Seconds without a change after which no process is still writing a part file."""


def state_directory(path: Path, service: Service | None = None) -> Path:
    """The state directory of a service, made if it is missing. Only its owner may look inside.

    InvalidParameter if it can't be made, or belongs to the other service: both keep files of the same name.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)  # even if it was there before
    except OSError as error:
        why = "it is a file" if path.is_file() else error.strerror or str(error)
        raise InvalidParameter(f"the state directory {path} can't be used: {why}. Choose another one") from error
    for other, names in _OWN_FILES.items():
        if service not in (None, other) and (found := [name for name in names if (path / name).exists()]):
            raise InvalidParameter(
                f"{path} is the state directory of {_NAMES[other]}, since it has {found[0]}: give the {service} its "
                "own directory"
            )
    return path


def write(path: Path, data: bytes, *, replace: bool = True, mode: int | None = 0o600) -> None:
    """Write a whole file. `replace` and `mode`: see `new_file`."""
    with new_file(path, replace=replace, mode=mode) as part:
        part.write_bytes(data)


@contextmanager
def new_file(path: Path, *, replace: bool = False, mode: int | None = 0o600) -> Iterator[Path]:
    """A part file beside `path` to write to. It takes that name when the block ends without an error.

    Without `replace`, an existing file stays, and the end of the block raises FileExistsError. `mode` None: the umask
    decides. Files whose names begin with that of the part file, such as a journal of SQLite, are removed with it. So
    are part files that a killed process left here more than a day ago.
    """
    _remove_stale(path)
    part = path.with_name(f"{path.name}.{token(8)}.part")
    create(part, mode).close()
    try:
        yield part
        sync(part)
        if replace:
            part.replace(path)
        else:
            os.link(part, path)  # the only way to take a name without replacing a file
    finally:
        for left in path.parent.glob(f"{glob.escape(part.name)}*"):
            left.unlink()
    sync(path.parent)


def _remove_stale(path: Path) -> None:
    """Remove part files that a killed process left beside `path`: they may hold secrets, and nothing reads them.

    A part file that is still being written is younger than that.
    """
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part*"):
        with suppress(OSError):  # another process has removed it, or it is not ours
            if _PART.match(left.name[len(path.name) :]) and wall() - left.stat().st_mtime > _STALE:
                left.unlink()


def create(path: Path, mode: int | None = 0o600) -> BinaryIO:
    """A new file, open for writing. At no moment can a user without the right to it open it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode & 0o600)
    if mode is not None:
        os.fchmod(descriptor, mode)  # regardless of the umask
    return os.fdopen(descriptor, "wb")


def sync(path: Path) -> None:
    """Flush a file to the disk, or a directory and with it the names in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
