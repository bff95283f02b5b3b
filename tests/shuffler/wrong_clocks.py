"""A shuffler on a machine whose clock can be set wrong, while time goes on and the aggregator has the right time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.storage import AsyncStorage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.world import NOW, StubAggregator, World
from tests.support.clock import WrongClock
from tests.support.redis_server import RedisServer

DAY = 86_400.0
WRONG = [sign * far for far in (2 * 3_600.0, 5 * DAY, 400 * DAY) for sign in (1, -1)]
"""Offsets beyond what is taken for agreement."""
OFFSETS = [8.0, -8.0, *WRONG]
FORGET_AFTER = 5_000.0


@dataclass
class Machine(WrongClock):
    """Where the shuffler runs. The clock of the Redis server is wrong by `servers` seconds."""

    start: float = NOW
    servers: float = 0.0

    def __call__(self) -> float:
        return self.wall()

    def of_the_server(self) -> float:
        return self.right() + self.servers


def shuffler(
    directory: Path, machine: Machine, server: RedisServer | None, aggregator: StubAggregator | None = None, **more: Any
) -> World:
    """On SQLite without a server. Its aggregator has the right time, and says so; or `on_one_host` the same clock."""
    directory.mkdir(exist_ok=True)
    aggregator = aggregator or StubAggregator()
    aggregator.clock = machine if more.pop("on_one_host", False) else machine.right
    storage: SqliteStorage | RedisStorage
    if server is None:
        storage = SqliteStorage(
            directory / "reports.sqlite", clock=machine, entropy=os.urandom, forget_after=FORGET_AFTER
        )
    else:
        storage = RedisStorage(
            server.url,
            clock=machine,
            lease_clock=machine.of_the_server,
            entropy=os.urandom,
            forget_after=FORGET_AFTER,
            prefix=more.pop("prefix", os.urandom(8).hex()),
        )
    trusted = TrustedClock(machine, machine.monotonic, peer="the aggregator's", says="nothing is closed")
    return World(directory, aggregator, machine, AsyncStorage(storage), trusted=trusted, **more)  # type: ignore[arg-type]  # it is a clock


@asynccontextmanager
async def holding(world: World) -> AsyncIterator[World]:
    """A shuffler that has its bundle, and knows which periods began under it."""
    async with world:
        await world.bundles.hold()
        yield world


@contextmanager
def wrong(machine: Machine, offset: float, whose: str = "shuffler") -> Iterator[None]:
    """The clock is wrong within, and right again behind it."""
    setattr(machine, "servers" if whose == "server" else "offset", offset)
    try:
        yield
    finally:
        machine.offset = machine.servers = 0.0


async def a_minute(world: World, machine: Machine) -> None:
    """Of the service at work."""
    for _ in range(6):
        machine.running += 10
        await world.bundles.refresh()
        await world.bundles.hold()
        await world.batcher.tick()


async def wait(world: World, machine: Machine, seconds: float, step: float = 600.0) -> None:
    """Let the service work for this long under a right clock."""
    until = machine.running + seconds
    while machine.running < until:
        machine.running = min(machine.running + step, until)
        await world.bundles.refresh()
        await world.bundles.hold()
        await world.batcher.tick()
