"""Processes that share one storage: each function is the whole work of one of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, Plan, Terms, open_storage

LEASE = 60.0
ENOUGH = 60
GOING = ".going"


def keep_adding(where: str, bucket: Bucket, terms: Terms, result: Path) -> None:
    """Add reports until the bucket is closed; what was acknowledged is the result. Say when it is well under way."""

    async def main(storage: AsyncStorage) -> None:
        taken = []
        while True:
            sealed = [os.urandom(terms.size) for _ in range(3)]
            if await storage.add([Arrivals(bucket, terms, sealed)]):
                break
            taken += sealed
            if len(taken) == ENOUGH:
                result.with_suffix(GOING).touch()
        result.write_bytes(b"".join(taken))

    _run(where, main)


def bring_out(where: str, bucket: Bucket, terms: Terms, result: Path) -> None:
    """Close the bucket under the hands of two that add, and forward, settle and delete it; what left is the result."""

    async def main(storage: AsyncStorage) -> None:
        while len(list(result.parent.glob(f"*{GOING}"))) < 2:
            await asyncio.sleep(0.01)
        assert bucket in [closed.bucket for closed in await storage.close({bucket.key})]
        found = b"".join([piece async for piece in storage.read(bucket)])
        count = len(found) // terms.size
        assert await storage.plan(bucket, Plan((os.urandom(16),), os.urandom(32), count, 0))
        claim = await storage.claim(LEASE)
        assert claim
        assert claim.batch.reports == count
        again = b"".join([piece async for piece in storage.read(bucket)])
        assert again == found
        assert await storage.settle(claim, "accepted")
        while not await storage.forget():
            await asyncio.sleep(0.05)
        result.write_bytes(found)

    _run(where, main)


def killed_after_adding(path: Path, *, before_the_cut: int, after_it: int) -> None:
    """A process adds reports, cuts the log, adds more and is killed."""
    code = "import sys; from tests.shuffler.storage_processes import _add_and_die; _add_and_die(*sys.argv[1:])"
    numbers = (str(before_the_cut), str(after_it))
    assert subprocess.run([sys.executable, "-c", code, str(path), *numbers], check=False).returncode == -signal.SIGKILL


def _add_and_die(where: str, before_the_cut: str, after_it: str) -> None:
    storage = open_storage(where, clock=lambda: 0.0, entropy=os.urandom).blocking
    for count in map(int, (before_the_cut, after_it)):
        storage.forget()
        for _ in range(count):
            storage.add([Arrivals(Bucket(bytes(16), 7, 1), Terms("theme", 64, 1_000, 2), [os.urandom(64)])])
    os.kill(os.getpid(), signal.SIGKILL)


def _run(where: str, main: object) -> None:
    async def work() -> None:
        assert callable(main)
        storage = open_storage(where, clock=time.time, entropy=os.urandom)
        try:
            await main(storage)
        finally:
            await storage.aclose()

    asyncio.run(work())
