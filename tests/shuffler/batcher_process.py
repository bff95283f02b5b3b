"""A batcher in its own process, on a storage that others may use too. The last line it prints is what it cost.

python -m tests.shuffler.batcher_process STORAGE AGGREGATOR '{"window": 1000000}'
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from hubbub_service_common.clock.last_seen import LastSeen
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.batching.batch_worker import Batcher
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import Forwarder
from hubbub_shuffler.storage import AsyncStorage, open_storage
from tests.shuffler.world import TOKEN

PATIENCE = 300.0


class NoBundle:
    """A shuffler that has no bundle now forwards what it has."""

    current = known = None
    wait = 3_600.0

    def __init__(self, clock: TrustedClock) -> None:
        self.last_seen = LastSeen(Path(), clock)  # which does nothing under a clock that is set on purpose


def worker(
    storage: AsyncStorage,
    address: str,
    client: httpx2.AsyncClient,
    now: Callable[[], float] = time.time,
    **options: Any,
) -> Batcher:
    settings: dict[str, Any] = {"floor": 2, "max_batch": 10**7, "lease": 600.0, "entropy": os.urandom} | options
    clock = TrustedClock.set_by(now)
    forwarder = Forwarder(Upstream(client, address=address, token=TOKEN, clock=clock))
    return Batcher(storage, NoBundle(clock), forwarder, clock=clock, longest_backoff=1.0, poll=0.01, **settings)  # type: ignore[arg-type]  # it reads no more


def upstream(timeout: float | None = 30.0) -> httpx2.AsyncClient:
    """With small buffers below it: a body of some megabytes must not vanish into them at once."""
    small = [(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)]
    return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(socket_options=small), timeout=timeout)


async def settle_all(storage: AsyncStorage, batcher: Batcher) -> None:
    """Until nothing is left, whoever did it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            await batcher.tick()
            overview = await storage.overview()
            if not overview.waiting and not any(overview.batches.values()):
                return
            await asyncio.sleep(0.01)


def run(where: str, address: str, options: dict[str, Any]) -> None:
    asyncio.run(_run(where, address, options))


async def _run(where: str, address: str, options: dict[str, Any]) -> None:
    storage = open_storage(where, clock=time.time, entropy=os.urandom)
    async with upstream() as client:
        batcher = worker(storage, address, client, **options)
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        start, busy = time.monotonic(), time.process_time()
        await settle_all(storage, batcher)
        cost = {
            "seconds": time.monotonic() - start,
            "cpu": time.process_time() - busy,
            "memory": _memory("VmHWM") - before,
        }
    await storage.aclose()
    sys.stdout.write(json.dumps(cost) + "\n")


def _memory(what: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1_024
    raise AssertionError(f"no {what} on this system")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
