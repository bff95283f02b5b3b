"""Full storage: a disk of a few megabytes, and a Redis that may use no more memory than this."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.redis_server import RedisServer

__all__ = ["NO_MOUNT", "can_mount", "grow_disk", "limit_memory", "small_disk"]

NO_MOUNT = "only root may mount a small disk"


def can_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own on this folder, which is full after so much; `grow_disk` gives it room."""
    assert can_mount(), NO_MOUNT
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def grow_disk(folder: Path, megabytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(folder)], check=True)


def limit_memory(server: RedisServer, room: int) -> None:
    """From now on this Redis may use so many bytes more than it does, and refuses what needs more; 0: no limit."""
    with closing(server.client()) as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", used + room if room else 0)
