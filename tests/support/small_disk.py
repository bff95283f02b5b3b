"""A disk that is soon full: a tmpfs of some megabytes, where this machine lets us mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """Everything below `path` is on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "somebody-else"

    def fill(self, leaving: int = 0) -> None:
        """As another program does, to the last byte or to the last so many."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (2**16, 2**12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue
            file.truncate(file.tell() - leaving)

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    path.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a tmpfs here: the mark is tested with a quota, and the reserve is not")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
