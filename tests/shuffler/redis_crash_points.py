"""Crash points on Redis: a process dies after any one of its commands, and another goes on.

The whole life of two buckets, one that leaves as two batches and one that is discarded, is lived until the k-th
command was carried out; nothing after it is sent, as after kill -9. Another process goes on. Unique reports tell.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hubbub_service_common.redis.calls_and_scripts import Call
from hubbub_shuffler.batching.permute import stretch
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Claim, Plan
from hubbub_shuffler.storage.redis.backend import RedisStorage
from tests.shuffler.backends import BUCKET, LEASE, OTHER, TERMS, all_of, batch_order, forgotten

SMALL = 5
"""Distinct reports of the bucket that is discarded."""


class Death(Exception):
    """The process ends here."""


@dataclass
class World:
    """What outlives a process: devices with what is not acknowledged, the aggregator's batches, and time."""

    now: float = 0.0
    unsent: list[list[Arrivals]] = field(default_factory=list)
    acknowledged: Counter[bytes] = field(default_factory=Counter)
    batches: dict[bytes, list[bytes]] = field(default_factory=dict)
    discards: set[bytes] = field(default_factory=set)

    def clock(self) -> float:
        return self.now


def devices() -> World:
    """Three group commits: both buckets, one report sent twice."""
    large = [os.urandom(TERMS.size) for _ in range(20)]
    small = [os.urandom(TERMS.size) for _ in range(SMALL)]
    return World(
        unsent=[
            [Arrivals(BUCKET, TERMS, large[:10]), Arrivals(OTHER, TERMS, small)],
            [Arrivals(BUCKET, TERMS, large[10:])],
            [Arrivals(BUCKET, TERMS, large[:1])],
        ]
    )


def mortal(storage: AsyncStorage, commands: int) -> Callable[[], bool]:
    """Let it live for so many commands; a function that tells whether it died."""
    left = commands

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if left <= 0:
                left = -1
                raise Death
            left -= 1
            return real(*arguments, **named)

        return act

    assert isinstance(storage.blocking, RedisStorage)
    client = storage.blocking._client
    one = watched(client.run)

    # one by one, since a process can die between any two that it sends together
    def run(calls: Sequence[Call], **named: Any) -> list[Any]:
        return [one([call], **named)[0] for call in calls]

    setattr(client, "run", run)  # noqa: B010  a method is replaced, and the type checker should not mind
    setattr(client, "ask", watched(client.ask))  # noqa: B010  likewise
    return lambda: left < 0


async def live(storage: AsyncStorage, world: World) -> None:
    """All that devices and the batcher do, from the first upload to the last deletion."""
    while world.unsent:
        group = world.unsent[0]
        assert await storage.add(group) == {}
        world.acknowledged.update(sealed for arrivals in group for sealed in arrivals.sealed)
        world.unsent.pop(0)
    world.now = max(world.now, float(TERMS.closes_at))
    for closed in await storage.close((), due=world.now):
        found = await all_of(storage, closed.bucket)
        distinct, discard = len(set(found)), closed.bucket == OTHER
        ids = tuple(os.urandom(16) for _ in range(1 if discard else 2))
        await storage.plan(closed.bucket, Plan(ids, os.urandom(32), distinct, len(found) - distinct, discard))
    while claim := await storage.claim(LEASE):
        await _forward(storage, world, claim)
        assert await storage.settle(claim, "accepted")
    await forgotten(storage)


async def _forward(storage: AsyncStorage, world: World, claim: Claim) -> None:
    batch = claim.batch
    if batch.kind == "discard":
        world.discards.add(batch.id)
        return
    seed = await storage.seed(batch.bucket)
    assert seed
    order = batch_order(await all_of(storage, batch.bucket), seed)
    body = order[stretch(len(order), batch.part, batch.parts)]
    assert len(body) == batch.reports
    assert world.batches.setdefault(batch.id, body) == body  # every attempt sends the same bytes


async def two_lives(open_storage: Callable[[Callable[[], float]], AsyncStorage], commands: int) -> tuple[bool, World]:
    """Whether the first life ended before its end, and the world after the second."""
    world = devices()

    storage = open_storage(world.clock)
    died = mortal(storage, commands)
    with suppress(Death):
        await live(storage, world)
    await storage.aclose()

    world.now += LEASE  # what the dead one held is free again
    storage = open_storage(world.clock)
    try:
        await live(storage, world)
        await _agree(storage, world)
    finally:
        await storage.aclose()
    return died(), world


async def _agree(storage: AsyncStorage, world: World) -> None:
    """What arrived is what was acknowledged, each once, and the books agree."""
    large = {sealed for sealed in world.acknowledged if sealed in set().union(*world.batches.values())}
    assert len(large) == 20
    assert len(world.acknowledged) == 20 + SMALL
    assert sorted(sealed for body in world.batches.values() for sealed in body) == sorted(large)
    assert [len(body) for body in world.batches.values()] == [10, 10]
    assert len(world.discards) == 1
    overview = await storage.overview()
    assert overview.waiting == []
    assert overview.batches == {"planned": 0, "sent": 0}
    counts = overview.counts
    assert counts["theme", "accepted"] == (20, 2)
    assert counts["theme", "discarded"] == (SMALL, 1)
    assert counts["theme", "discard-accepted"] == (0, 1)
    assert counts["theme", "ingested"].reports == 20 + SMALL + counts["theme", "duplicate"].reports
