"""The Redis storage on a cluster: load is spread, slots may move, nodes may go and come back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from hubbub_shuffler.storage import Arrivals, AsyncStorage, StorageError
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys, member_of
from tests.shuffler.backends import BUCKET, TERMS, TIDY_LEASE, all_of
from tests.shuffler.redis_crash_points import two_lives
from tests.support.clock import Clock
from tests.support.redis_server import RedisCluster, RedisServer, SlotMove, three_nodes

pytestmark = pytest.mark.full


def make(cluster: RedisCluster, clock: Callable[[], float], prefix: str = "") -> AsyncStorage:
    given = {"prefix": prefix or os.urandom(8).hex(), "timeout": 2.0, "tidy_lease": TIDY_LEASE}
    return AsyncStorage(
        RedisStorage(cluster.url, entropy=os.urandom, clock=clock, lease_clock=clock, **given)  # type: ignore[arg-type]  # each has its type
    )


def unique(count: int) -> list[bytes]:
    return [os.urandom(TERMS.size) for _ in range(count)]


async def test_a_crash_after_any_command_loses_and_doubles_nothing(redis_cluster: RedisCluster) -> None:
    commands, died = 0, True
    while died:
        prefix = os.urandom(8).hex()

        def open_(clock: Callable[[], float], prefix: str = prefix) -> AsyncStorage:
            return make(redis_cluster, clock, prefix)

        died, world = await two_lives(open_, commands)
        left = redis_cluster.files()
        assert not [sealed for sealed in world.acknowledged if sealed in left]
        commands += 1
    assert commands > 100


async def test_a_hot_bucket_is_on_every_node(redis_cluster: RedisCluster) -> None:
    prefix = os.urandom(8).hex()
    storage = make(redis_cluster, Clock(0), prefix)
    for each in unique(300):
        await storage.add([Arrivals(BUCKET, TERMS, [each])])
    for node in redis_cluster.nodes:
        client = node.client()
        # none of 300 in a shard that a node has: (7/8)^300, below 1e-17
        assert list(client.scan_iter(f"{prefix}:*:blobs", count=1_000))
        client.close()
    await storage.aclose()


async def test_reports_are_kept_while_their_slot_moves_to_another_node(redis_cluster: RedisCluster) -> None:
    clock, prefix, sealed = Clock(0), os.urandom(8).hex(), list[bytes]()
    storage = make(redis_cluster, clock, prefix)

    async def add_some() -> None:
        for each in unique(60):
            assert await storage.add([Arrivals(BUCKET, TERMS, [each])]) == {}
            sealed.append(each)

    await add_some()
    for shard in range(SHARDS):
        slot = key_slot(Keys(prefix).shard(member_of(BUCKET), shard))
        move = SlotMove(redis_cluster, slot)
        move.begin()
        move.carry()
        await add_some()  # ASK: the keys are over there, the slot is not yet
        move.end()
        await add_some()  # MOVED
        move.close()
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    assert sorted(await all_of(storage)) == sorted(sealed)
    await storage.aclose()


async def test_a_node_that_was_away_has_what_was_acknowledged(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as cluster:
        clock = Clock(0)
        storage = make(cluster, clock)
        sealed, failed = list[bytes](), 0
        node: RedisServer = cluster.nodes[1]
        for at, each in enumerate(unique(200)):
            if at == 100:
                node.stop()
            try:
                assert await storage.add([Arrivals(BUCKET, TERMS, [each])]) == {}
                sealed.append(each)
            except StorageError:
                failed += 1
        assert failed
        with pytest.raises(StorageError):
            await storage.check()
        node.start()
        await _until_it_works(storage)
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        assert set(sealed) <= set(await all_of(storage))
        await storage.aclose()


async def test_reports_on_other_nodes_go_on_after_the_node_with_the_records_lost_them(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as cluster:
        clock, prefix = Clock(0), os.urandom(8).hex()
        storage = make(cluster, clock, prefix)
        for each in unique(200):
            assert await storage.add([Arrivals(BUCKET, TERMS, [each])]) == {}
        clients = [node.client() for node in cluster.nodes]
        (lost,) = (client for client in clients if list(client.scan_iter(f"{prefix}:{{control}}:mark", count=1_000)))
        lost.flushall()
        elsewhere = [client for client in clients if client is not lost]
        kept = sum(client.zcard(key) for client in elsewhere for key in client.scan_iter(f"{prefix}:*:blobs"))
        assert 0 < kept < 200
        await storage.close(())
        later = unique(100)
        for each in later:
            assert await storage.add([Arrivals(BUCKET, TERMS, [each])]) == {}
        clock.now = TERMS.closes_at
        assert [found.bucket for found in await storage.close((), due=clock.now)] == [BUCKET]
        found = await all_of(storage)
        assert len(found) == kept + 100
        assert set(later) <= set(found)
        for client in clients:
            client.close()
        await storage.aclose()


async def _until_it_works(storage: Any) -> None:
    for _ in range(200):
        try:
            await storage.check()
            await storage.close(())
        except StorageError:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError("the cluster does not come back")
