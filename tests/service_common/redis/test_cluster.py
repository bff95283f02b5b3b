"""The Redis client on a cluster: slots that move, nodes that take over and nodes that are down."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from hubbub_service_common.redis.calls_and_scripts import Part, Script, command
from hubbub_service_common.redis.client import Node, RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.service_common.redis.backends import (
    COUNT,
    Flaky,
    attempts,
    count,
    counted,
    make_cluster,  # noqa: F401  the fixture `cluster`
    meanwhile,
    new_key,
    opened,
    talking_to,
    tell,
)
from tests.support.patience import wait_for
from tests.support.redis_server import (
    SLOTS,
    ReplicatedCluster,
    SlotMove,
    executable,
    one_server,
    three_and_three,
    three_nodes,
)

pytestmark = pytest.mark.full
BOTH = Script(b"redis.call('INCR', KEYS[1]); return redis.call('INCR', KEYS[2])")
"""All its keys must be in one place."""


@contextmanager
def moving(cluster: ReplicatedCluster, key: bytes) -> Iterator[SlotMove]:
    """The slot of this key has begun to move; it has moved at the end of the block."""
    move = SlotMove(cluster, key_slot(key))
    move.begin()
    try:
        yield move
        move.carry()
        move.end()
    finally:
        move.close()
    cluster.settle()


def test_a_key_that_has_moved_is_found_where_it_is(cluster: ReplicatedCluster) -> None:
    """ASK while it moves, MOVED afterwards; nothing is done twice."""
    key = new_key()
    with opened(cluster.url) as client:
        assert client.one(COUNT((key,)), again=False) == 1
        with moving(cluster, key) as move:
            assert client.one(COUNT((key,)), again=False) == 2  # not carried yet
            move.carry()
            source = cluster.primary_of(key)
            tell(source, "CONFIG", "RESETSTAT")
            for turn in range(3, 6):
                assert client.one(count(key), again=False) == turn  # ASK
            assert attempts(source, "incr") == 3  # it is asked each time, since the slot is still its own
            for node in cluster.nodes:
                tell(node, "SCRIPT", "FLUSH")
            assert client.one(COUNT((key,)), again=False) == 6  # ASK, then NOSCRIPT where it is
        assert client.one(count(key), again=False) == 7  # MOVED
        assert client.one(COUNT((key,)), again=False) == 8
    with opened(cluster.url) as client:
        assert client.one(command("GET", key), write=False) == b"8"


def test_a_new_key_in_a_moving_slot_is_made_where_it_goes(cluster: ReplicatedCluster) -> None:
    key = new_key()
    with opened(cluster.url) as client, moving(cluster, key):
        assert client.one(count(key), again=False) == 1
        assert client.run([count(key), count(new_key()), count(key)], again=False) == [2, 1, 3]


def test_what_was_written_to_a_moving_slot_is_on_the_replica_when_it_is_acknowledged(
    cluster: ReplicatedCluster,
) -> None:
    key = new_key()
    with opened(cluster.url, replicas=1) as client:
        assert client.one(count(key)) == 1
        with moving(cluster, key) as move:
            move.carry()
            assert client.one(count(key)) == 2
        assert client.one(count(key)) == 3
        with talking_to(cluster.replica_of(key)) as behind:
            behind.execute_command("READONLY")
            assert behind.get(key) == b"3"


@pytest.mark.parametrize("script", [True, False])
def test_a_call_whose_keys_are_in_two_places_waits_until_they_are_together(
    cluster: ReplicatedCluster, script: bool
) -> None:
    """TRYAGAIN: for a script and for MSET; as long as it lasts StorageError."""
    one = new_key()
    two = one + b":other"  # in the same slot
    call = BOTH((one, two)) if script else command("MSET", one, 5, two, 5)
    with opened(cluster.url) as client:
        assert client.run([count(one), count(two)]) == [1, 1]
        with moving(cluster, one) as move:
            move.carry(two)
            with opened(cluster.url, patience=0.05) as hasty, pytest.raises(StorageError, match="TRYAGAIN"):
                hasty.one(call, again=False)

            def finish() -> None:
                move.carry()
                move.end()

            with meanwhile(finish):
                assert client.one(call, again=False) == (2 if script else b"OK")
    assert [counted(cluster, each) for each in (one, two)] == ([2, 2] if script else [5, 5])


def test_slots_that_nobody_has_are_waited_for(cluster: ReplicatedCluster) -> None:
    """CLUSTERDOWN, as every node says it while one slot is missing."""
    key = new_key()
    slot = key_slot(key)
    with opened(cluster.url) as client, talking_to(cluster.primary_of(key)) as owner:
        assert client.one(count(key)) == 1

        def all_down() -> bool:
            owner_first = sorted(cluster.nodes, key=lambda node: node is not cluster.primary_of(new_key()))
            for node in owner_first:
                with suppress(redis.ResponseError):  # it has none
                    tell(node, "CLUSTER", "DELSLOTS", slot)
            return all(b"cluster_state:fail" in tell_raw(node, "CLUSTER", "INFO") for node in cluster.nodes)

        with suppress(redis.ResponseError):
            owner.execute_command("CLUSTER", "DELSLOTS", slot)
        wait_for(all_down)
        with opened(cluster.url, patience=0.05) as hasty:
            for how in ({"again": False}, {"write": False}):
                with pytest.raises(StorageError, match=r"CLUSTERDOWN|no node has its slots"):
                    hasty.one(count(key), **how)
        with meanwhile(lambda: owner.execute_command("CLUSTER", "ADDSLOTS", slot)):
            assert client.one(count(key), again=False) == 2
        cluster.settle()


def tell_raw(node: Any, *parts: str) -> bytes:
    with talking_to(node) as client:
        return bytes(client.execute_command(*parts, NEVER_DECODE=True))


def test_a_primary_that_was_demoted_is_left_for_the_one_that_took_over(cluster: ReplicatedCluster) -> None:
    """After CLUSTER FAILOVER the old one says MOVED; every call is carried out once."""
    key = new_key()
    with opened(cluster.url, replicas=1) as client, opened(cluster.url) as careless:
        for turn in range(1, 13, 3):
            assert client.one(count(key)) == turn
            cluster.fail_over(key)
            assert careless.one(count(key), again=False) == turn + 1
            client.wait_milliseconds = 200
            wait_for(lambda: _confirmed(client, key + b":other"))
            client.wait_milliseconds = 60_000
            assert client.one(count(key)) == turn + 2
            assert counted(cluster, key) == turn + 2
            cluster.settle()


def _confirmed(client: RedisClient, key: bytes) -> bool:
    """Once the old primary has become a replica; it is not one at once."""
    try:
        client.one(command("SETRANGE", key, 0, b"0"))
    except StorageError as error:
        if "replicas have it" in str(error):
            return False
        raise
    return True


def test_a_node_with_an_old_map_of_the_slots_does_not_lead_us_astray(cluster: ReplicatedCluster) -> None:
    """It may be cut off from the others, and not from us. Whom a MOVED names is asked instead."""
    key = new_key()
    with opened(cluster.url) as client:
        assert client.one(count(key)) == 1
        old, asked = tell_raw_slots(cluster), client.ask
        behind_the_times = {client.first, client._slots._known[0]}

        def ask(node: Node, *parts: Part) -> Any:
            return old if parts == ("CLUSTER", "SLOTS") and node in behind_the_times else asked(node, *parts)

        client.ask = ask  # type: ignore[method-assign]  # a cluster that is cut in two, as we would see it
        with moving(cluster, key):
            pass
        behind_the_times -= {("127.0.0.1", cluster.primary_of(key).port)}  # who has the slot knows it
        assert client.one(count(key), again=False) == 2
        assert client.one(count(key), again=False) == 3


def tell_raw_slots(cluster: ReplicatedCluster) -> Any:
    with opened(cluster.url) as client:
        return client.ask(client.first, "CLUSTER", "SLOTS")


def test_a_node_that_hangs_is_left_for_the_one_that_took_over(tmp_path: Path) -> None:
    """Its connections stay, and nothing comes. The client waits for the timeout, not for each call."""
    with three_and_three(tmp_path) as cluster, opened(cluster.url, timeout=1.0) as client:
        keys = [new_key() for _ in range(30)]
        assert client.run([count(key) for key in keys]) == [1] * len(keys)
        hung = cluster.nodes[0]
        mine = next(key for key in keys if cluster.primary_of(key) is hung)
        replica = cluster.replica_of(mine)
        hung.pause()
        try:
            wait_for(lambda: tell(replica, "ROLE")[0] == b"master")
            wait_for(lambda: _works(client, mine))
            found = client.run([command("GET", key) for key in keys], write=False)
            assert all(found)
        finally:
            hung.resume()
        cluster.settle()
        assert client.run([command("EXISTS", key) for key in keys], write=False) == [1] * len(keys)


def _works(client: RedisClient, key: bytes) -> bool:
    try:
        client.one(count(key))
    except StorageError:
        return False
    return True


def test_a_node_that_left_the_cluster_keeps_no_connection_of_ours(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as cluster, opened(cluster.url) as client:
        flaky = Flaky(client)
        keys = [new_key() for _ in range(30)]
        client.run([count(key) for key in keys])
        gone = cluster.nodes[2]
        names = [tell(node, "CLUSTER", "MYID") for node in cluster.nodes]
        tell(gone, "FLUSHALL")
        slots = list(range(SLOTS * 2 // 3, SLOTS))
        for node in cluster.nodes[:2]:
            tell(node, "CLUSTER", "FORGET", names[2])
        tell(gone, "CLUSTER", "RESET", "HARD")
        tell(cluster.nodes[0], "CLUSTER", "ADDSLOTS", *slots)
        wait_for(lambda: all(b"cluster_state:ok" in tell_raw(node, "CLUSTER", "INFO") for node in cluster.nodes[:2]))
        client.run([count(key) for key in keys])
        open_to = {each.port for each in flaky.made if each._sock is not None}
        assert open_to <= {node.port for node in cluster.nodes[:2]}


def test_nodes_that_do_not_say_their_name_are_reached_by_the_one_we_know(tmp_path: Path) -> None:
    """Behind a proxy: the server names no host, or an empty one."""
    version = subprocess.run([executable(), "--version"], check=True, capture_output=True, text=True).stdout
    if "v=6." in version:
        pytest.skip("Redis 6 always says its address")
    options = ("--cluster-enabled", "yes", "--cluster-preferred-endpoint-type", "unknown-endpoint")
    with one_server(tmp_path, *options) as server:
        tell(server, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        wait_for(lambda: b"cluster_state:ok" in tell_raw(server, "CLUSTER", "INFO"))
        with opened(f"redis+cluster://127.0.0.1:{server.port}") as client:
            assert client.one(count(new_key())) == 1
            assert client.primaries() == [("127.0.0.1", server.port)]


def test_a_node_of_a_cluster_says_how_to_write_its_address(cluster: ReplicatedCluster) -> None:
    url = cluster.url.replace("redis+cluster", "redis")
    with opened(url) as client, pytest.raises(StorageError, match=r"write redis\+cluster://"):
        client.run([count(new_key()) for _ in range(30)])


def test_a_server_that_is_no_cluster_says_so(tmp_path: Path) -> None:
    with one_server(tmp_path) as server:
        url = server.url.replace("redis://", "redis+cluster://")
        with opened(url) as client, pytest.raises(StorageError, match="cluster support disabled"):
            client.one(count(new_key()))
