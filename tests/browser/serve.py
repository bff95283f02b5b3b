"""All sites in one process, each on its own port: `python -m tests.browser.serve DIRECTORY SITE...`.

It writes their addresses to `addresses.json` and ends when no process holds the file `users` locked any more: workers
of a test run share it, and none of them needs to know which is the last.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["TOKEN", "serving"]

ROOT = Path(__file__).parent.parent.parent
TOKEN = "of-the-browser-tests"  # noqa: S105  it guards nothing else
_PATIENCE = 240.0
_STARTED: list[subprocess.Popen[bytes]] = []
"""Kept, since nobody here waits for their end."""


@contextmanager
def serving(directory: Path, *names: str) -> Iterator[dict[str, str]]:
    """Addresses by name, for as long as the block lasts; the process may be shared with other blocks."""
    directory.mkdir(exist_ok=True)
    addresses, log = directory / "addresses.json", directory / "log"
    with _locked(directory / "users", fcntl.LOCK_SH), _locked(directory / "starting", fcntl.LOCK_EX) as release:
        # a server that is about to end holds `users` until it is gone, so that what is found now stays
        if not _alive(addresses):
            addresses.unlink(missing_ok=True)
            with log.open("ab") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.browser.serve", str(directory), *names],
                    stdout=file,
                    stderr=file,
                    stdin=subprocess.DEVNULL,
                    cwd=ROOT,
                    env={name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")},
                )
            _STARTED.append(process)
            until = time.monotonic() + _PATIENCE
            while not addresses.exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            if not addresses.exists():
                process.kill()
                raise AssertionError(f"the sites are not served: {log.read_text()}")
        release()
        yield dict(json.loads(addresses.read_text()))


@contextmanager
def _locked(path: Path, how: int) -> Iterator[Callable[[], None]]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _alive(addresses: Path) -> bool:
    try:
        first = next(iter(json.loads(addresses.read_text()).values()))
        with socket.create_connection(("127.0.0.1", int(first.rpartition(":")[2])), timeout=5):
            return True
    except OSError:
        return False


def _main(directory: Path, names: list[str]) -> None:
    import uvicorn

    from hubbub_aggregator.app import create_app
    from tests.browser import sites

    async def run() -> None:
        servers = {}
        for name in names:
            service = sites.SITES[name](directory / name)
            config = uvicorn.Config(
                create_app(service), port=0, http="httptools", ws="none", log_level="warning", access_log=False
            )
            servers[name] = uvicorn.Server(config)
        tasks = [asyncio.create_task(server.serve()) for server in servers.values()]
        while not all(server.started for server in servers.values()):
            if failed := next((task for task in tasks if task.done()), None):
                failed.result()
            await asyncio.sleep(0.02)
        ports = {name: server.servers[0].sockets[0].getsockname()[1] for name, server in servers.items()}
        part = directory / "addresses.part"
        part.write_text(json.dumps({name: f"http://127.0.0.1:{port}" for name, port in ports.items()}))
        part.rename(directory / "addresses.json")
        users = os.open(directory / "users", os.O_RDWR)
        while not _nobody(users):
            await asyncio.sleep(0.2)
        os._exit(0)  # nothing here is worth an orderly end; the lock and the ports go with the process

    asyncio.run(run())


def _nobody(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
