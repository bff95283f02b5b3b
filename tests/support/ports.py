"""Ports of loopback for processes that have to be told one. Each is given out once while a test run lasts."""

from __future__ import annotations

import fcntl
import random
import socket
from contextlib import suppress
from pathlib import Path

__all__ = ["BUS", "reserved_port"]

BUS = 10_000
"""Added to its port by a node of a Redis cluster for its own talk; that one is reserved as well."""
_PORTS = range(10_000, 20_000)
"""With BUS still below what systems hand out by themselves (from 32768, or 49152), so none is taken by a connection."""
_held: list[object] = []


def reserved_port() -> int:
    """A free port. A lock on a file says to other test processes of this machine that it is taken, until we end."""
    folder = Path("/tmp/hubbub-test-ports")  # noqa: S108  the same for all, wherever else they keep their files
    folder.mkdir(exist_ok=True)
    with suppress(PermissionError):  # someone else has made it
        folder.chmod(0o777)
    ports = list(_PORTS)
    random.SystemRandom().shuffle(ports)
    for port in ports:
        try:
            lock = (folder / str(port)).open("w")
        except PermissionError:  # of another user
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for number in (port, port + BUS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return port
    raise AssertionError("no port is free")
