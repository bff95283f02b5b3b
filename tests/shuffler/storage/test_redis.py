"""The Redis storage: crashes between commands, the server's files and settings, its secrets."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub_service_common.redis.client import Node, RedisClient
from hubbub_shuffler.operations.durability_check import watch
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Plan, StorageError, open_storage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys, member_of
from tests.shuffler.backends import BUCKET, LEASE, TERMS, TIDY_LEASE, all_of, forgotten, look_random
from tests.shuffler.redis_crash_points import two_lives
from tests.support.clock import Clock
from tests.support.patience import wait_for
from tests.support.redis_server import RedisServer, one_server

SECRET = "a password that nobody may see"  # noqa: S105  it opens a throw-away server


def make(server: RedisServer, clock: Callable[[], float], **options: Any) -> AsyncStorage:
    given: dict[str, Any] = {"prefix": os.urandom(8).hex(), "tidy_lease": TIDY_LEASE} | options
    return AsyncStorage(RedisStorage(server.url, entropy=os.urandom, clock=clock, lease_clock=clock, **given))


def client_of(storage: AsyncStorage) -> RedisClient:
    assert isinstance(storage.blocking, RedisStorage)
    return storage.blocking._client


def unique(count: int) -> list[bytes]:
    return [os.urandom(TERMS.size) for _ in range(count)]


async def settled(storage: AsyncStorage, clock: Clock, sealed: list[bytes]) -> None:
    """Add them, and bring them through to the verdict; what is left is to delete them."""
    await storage.add([Arrivals(BUCKET, TERMS, sealed)])
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    assert await storage.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), len(sealed), 0))
    claim = await storage.claim(LEASE)
    assert claim
    assert await storage.settle(claim, "accepted")


async def crash_everywhere(server: RedisServer, stride: int) -> None:
    commands, died = 0, True
    while died:
        prefix = os.urandom(8).hex()

        def open_(clock: Callable[[], float], prefix: str = prefix) -> AsyncStorage:
            return make(server, clock, prefix=prefix)

        died, world = await two_lives(open_, commands)
        left = server.files()
        assert not [sealed for sealed in world.acknowledged if sealed in left]
        commands += stride
    assert commands > 100


async def test_a_crash_after_some_commands_loses_and_doubles_nothing(redis_server: RedisServer) -> None:
    await crash_everywhere(redis_server, 4)


@pytest.mark.full
async def test_a_crash_after_any_command_loses_and_doubles_nothing(redis_server: RedisServer) -> None:
    await crash_everywhere(redis_server, 1)


async def test_a_group_commit_whose_answer_was_lost_counts_once(redis_server: RedisServer) -> None:
    """Sent, carried out, and the connection broke: it is sent again under the same id."""
    clock = Clock(0)
    storage = make(redis_server, clock)
    sealed = unique(302)
    for each in sealed[2:]:  # all shards are open then: none of 300 in one of eight has a chance of 1e-17
        await storage.add([Arrivals(BUCKET, TERMS, [each])])
    client = client_of(storage)
    receive, lost = client._receive, list[object]()

    def lose_the_first(node: Node, items: Any, connection: Any, *rest: Any) -> None:
        if not lost:
            lost.append(connection.read_response())  # it was carried out
            connection.disconnect()
        receive(node, items, connection, *rest)

    setattr(client, "_receive", lose_the_first)  # noqa: B010  a method is replaced
    assert await storage.add([Arrivals(BUCKET, TERMS, sealed[:2])]) == {}
    assert lost
    assert (await storage.overview()).counts["theme", "ingested"] == (302, 0)
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    assert sorted(await all_of(storage)) == sorted(sealed)
    await storage.aclose()


async def test_what_was_acknowledged_survives_a_power_cut_and_the_handle_works_again(tmp_path: Path) -> None:
    with one_server(tmp_path) as server:
        clock = Clock(0)
        storage = make(server, clock)
        sealed = unique(30)
        for each in sealed:
            await storage.add([Arrivals(BUCKET, TERMS, [each])])
        server.stop()
        with pytest.raises(StorageError):
            await storage.add([Arrivals(BUCKET, TERMS, unique(1))])
        with pytest.raises(StorageError):
            await storage.check()
        server.start()
        await storage.check()
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        assert sorted(await all_of(storage)) == sorted(sealed)
        assert await storage.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), 30, 0))
        server.stop()
        server.start()
        assert await storage.claim(LEASE)  # must not be sent twice, and need not be: the cut is seen before
        await storage.aclose()


async def test_the_server_s_clock_closes_and_refuses_nothing(redis_server: RedisServer) -> None:
    """It is decades ahead of the one that this process has."""
    prefix = os.urandom(8).hex()
    storage = AsyncStorage(RedisStorage(redis_server.url, clock=lambda: 0.0, entropy=os.urandom, prefix=prefix))
    assert await storage.add([Arrivals(BUCKET, TERMS, unique(1))]) == {}
    assert await storage.close((), due=TERMS.closes_at - 1) == []
    assert [bucket.state for bucket in (await storage.overview()).waiting] == ["open"]
    await storage.aclose()


async def test_tombstones_of_the_last_layout_do_not_lapse_any_more(redis_server: RedisServer) -> None:
    prefix, member = os.urandom(8).hex(), member_of(BUCKET)
    keys = Keys(prefix)
    shards = [keys.shard(member, shard) for shard in range(SHARDS)]

    clock = Clock(0)
    storage = make(redis_server, clock, prefix=prefix)
    await settled(storage, clock, unique(3))
    await forgotten(storage)
    await storage.aclose()
    client = redis_server.client()
    for shard in shards:
        client.pexpire(shard, 86_400_000)  # as that one did
    client.hset(keys.mark, "layout", 2)
    await make(redis_server, clock, prefix=prefix).aclose()
    assert {client.ttl(shard) for shard in shards} == {-1}
    client.close()


async def test_what_is_on_disk_does_not_predict_the_order_of_arrival(tmp_path: Path) -> None:
    """In the bytes of the files after a rewrite. Between rewrites the append-only file is a log of group commits."""
    count = 1_000
    with one_server(tmp_path) as server:
        storage = make(server, Clock(0))
        sealed = unique(count)
        for each in sealed:
            await storage.add([Arrivals(BUCKET, TERMS, [each])])
        client = server.client()
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            await asyncio.sleep(0.02)
        client.close()
        raw = server.files()
        places = [raw.index(each) for each in sealed]
        look_random(sorted(range(count), key=places.__getitem__))
        await storage.aclose()


async def test_no_structure_keeps_times_or_the_order_of_arrival(tmp_path: Path) -> None:
    with one_server(tmp_path) as server:
        storage = make(server, Clock(0))
        for each in unique(40):
            await storage.add([Arrivals(BUCKET, TERMS, [each])])
        client = server.client()
        for name in client.scan_iter():
            kind = client.type(name)
            assert kind in {b"hash", b"zset"}
            if name.endswith(b":blobs"):
                assert kind == b"zset"
                found = client.zrange(name, 0, -1, withscores=True)
                assert {score for _, score in found} == {0.0}
                assert [member for member, _ in found] == sorted(member for member, _ in found)
        client.close()
        await storage.aclose()


async def test_a_rewrite_that_began_before_the_deletion_does_not_count(tmp_path: Path) -> None:
    with one_server(tmp_path) as server:
        clock = Clock(0)
        storage = make(server, clock)
        sealed = unique(50)
        client = server.client()
        for number in range(300):
            client.set(f"ballast {number}", "x")
        await settled(storage, clock, sealed)
        client.config_set("rdb-key-save-delay", 15_000)  # microseconds for each key: it takes 4.5 s
        client.bgrewriteaof()
        assert not await storage.forget()
        assert client.info("persistence")["aof_rewrite_in_progress"]
        client.config_set("rdb-key-save-delay", 0)
        await forgotten(storage)
        left = server.files()
        assert not [each for each in sealed if each in left]
        client.close()
        await storage.aclose()


async def test_a_server_that_was_started_anew_has_not_finished_its_rewrite(tmp_path: Path) -> None:
    """It says that its last rewrite went well, since it knows of none; the reports are still in its file."""
    with one_server(tmp_path) as server:
        clock = Clock(0)
        storage = make(server, clock)
        sealed = unique(50)
        client = server.client()
        for number in range(300):
            client.set(f"ballast {number}", "x")
        await settled(storage, clock, sealed)
        client.config_set("rdb-key-save-delay", 1_000_000)  # microseconds for each key: it does not end
        assert not await storage.forget()
        client.close()
        server.stop()
        server.start()
        assert sealed[0] in server.files()
        await forgotten(storage)
        for rest in tmp_path.glob("temp-*"):  # of the one that was killed: docs/design/shuffler-storage.md
            rest.unlink()
        left = server.files()
        assert not [each for each in sealed if each in left]
        await storage.aclose()


async def test_a_server_that_comes_back_empty_is_shouted_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with one_server(tmp_path) as server:
        storage, other = (make(server, Clock(0), prefix="one") for _ in range(2))
        await storage.add([Arrivals(BUCKET, TERMS, unique(5))])
        assert await storage.close(()) == await other.close(()) == []
        assert not caplog.text
        client = server.client()
        client.flushall()
        client.close()
        for each in (storage, other):
            assert await each.close(()) == []
            assert "REDIS LOST DATA" in caplog.text
            caplog.clear()
            await each.close(())
            assert not caplog.text
            await each.aclose()


async def test_reports_that_are_missing_from_a_closed_bucket_are_an_error_and_not_another_workers_doing(
    redis_server: RedisServer,
) -> None:
    clock = Clock(0)
    storage = make(redis_server, clock, prefix=(prefix := os.urandom(8).hex()))
    await storage.add([Arrivals(BUCKET, TERMS, unique(5))])
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    client = redis_server.client()
    assert client.delete(*client.scan_iter(f"{prefix}:{{*:3}}:*"))
    client.close()
    with pytest.raises(StorageError, match="LOST DATA"):
        await all_of(storage)
    await storage.aclose()


async def test_a_batch_that_redis_lost_is_shouted_about_and_holds_up_no_other(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(0)
    storage = make(redis_server, clock, prefix=(prefix := os.urandom(8).hex()))
    await storage.add([Arrivals(BUCKET, TERMS, unique(6))])
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    ids = bytes(16), b"\x01" * 16
    assert await storage.plan(BUCKET, Plan(ids, os.urandom(32), 6, 0))
    client = redis_server.client()
    assert client.delete(f"{prefix}:{{control}}:batch:{ids[0].hex()}")
    client.close()
    claim = await storage.claim(LEASE)
    assert claim
    assert claim.batch.id == ids[1]
    assert await storage.claim(LEASE) is None
    assert caplog.text.count("LOST DATA") == 1
    await storage.aclose()


async def test_a_server_that_takes_no_writes_is_an_error_and_nothing_is_kept_in_part(tmp_path: Path) -> None:
    """Out of memory, then a replica: after that the address is looked up anew, as a failover needs."""
    with one_server(tmp_path) as server:
        clock = Clock(0)
        storage = make(server, clock)
        sealed = unique(20)
        await storage.add([Arrivals(BUCKET, TERMS, sealed[:10])])
        client = server.client()
        client.config_set("maxmemory", 1)
        for act in (storage.add([Arrivals(BUCKET, TERMS, sealed[10:])]), storage.check()):
            with pytest.raises(StorageError, match=r"OOM|memory"):
                await act
        client.config_set("maxmemory", 0)
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(StorageError, match=r"(?i)read ?only"):
            await storage.add([Arrivals(BUCKET, TERMS, sealed[10:])])
        assert not any(client_of(storage)._idle.values())
        client.replicaof("NO", "ONE")
        client.close()
        assert (await storage.overview()).counts["theme", "ingested"] == (10, 0)
        assert await storage.add([Arrivals(BUCKET, TERMS, sealed[10:])]) == {}
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        assert sorted(await all_of(storage)) == sorted(sealed)
        await storage.aclose()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ()),
        (("--appendonly", "no"), ("LOSES ACKNOWLEDGED REPORTS", "appendonly yes")),
        (("--appendfsync", "everysec"), ("LOSES ACKNOWLEDGED REPORTS", "appendfsync always")),
        (("--no-appendfsync-on-rewrite", "yes"), ("LOSES ACKNOWLEDGED REPORTS", "no-appendfsync-on-rewrite")),
        (("--maxmemory-policy", "allkeys-lru"), ("DELETE REPORTS", "noeviction")),
        (("--user", "default", "on", "nopass", "~*", "&*", "+@all", "-config"), ("does not let us see its settings",)),
    ],
    ids=["sound", "no log", "late", "on rewrite", "eviction", "unseen"],
)
async def test_a_server_that_could_lose_reports_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    with one_server(tmp_path, *options) as server, caplog.at_level(logging.WARNING):
        storage = make(server, Clock(0))
        await storage.aclose()
    for word in words:
        assert word in caplog.text
    assert bool(words) == bool(caplog.text)
    assert storage.durable == (not words)  # which the metrics show


async def test_a_setting_that_is_changed_on_a_running_server_is_seen_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with one_server(tmp_path, "--maxmemory", "1gb") as server, caplog.at_level(logging.INFO):
        storage, client = make(server, Clock(0)), server.client()
        watching = asyncio.create_task(watch(storage, every=0.01))
        try:
            assert storage.durable
            client.config_set("appendfsync", "everysec")
            await asyncio.to_thread(wait_for, lambda: not storage.durable)
            client.config_set("maxmemory-policy", "allkeys-lru")
            await asyncio.to_thread(wait_for, lambda: "DELETE REPORTS" in caplog.text)
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("appendfsync", "always")
            await asyncio.to_thread(wait_for, lambda: storage.durable)
            server.stop()  # says nothing of its settings, and ends no watch
            await asyncio.sleep(0.1)
            assert storage.durable
            client.close()  # its connections went with the server
            server.start()
            client.config_set("appendonly", "no")
            await asyncio.to_thread(wait_for, lambda: not storage.durable)
        finally:
            watching.cancel()
            client.close()
            await storage.aclose()
    said = [record.getMessage().partition(f"{server.port} ")[2] for record in caplog.records]
    assert [line.partition(":")[0] for line in said] == [
        "has appendfsync everysec",
        "has maxmemory-policy allkeys-lru",
        "is set to survive a crash again",
        "keeps no append-only file",
    ]


def test_no_credential_is_in_an_error_a_log_or_a_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def refuses(url: str) -> None:
        with pytest.raises(StorageError) as caught:
            open_storage(url, clock=lambda: 0.0, entropy=os.urandom)
        error: BaseException | None = caught.value
        while error is not None:
            seen.append(f"{error!r} {error}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    quoted = SECRET.replace(" ", "%20")
    with one_server(tmp_path, "--requirepass", "another") as server, caplog.at_level(logging.DEBUG):
        refuses(f"redis://user:{quoted}@127.0.0.1:{server.port}")
        refuses(f"redis://:{quoted}@127.0.0.1:{server.port}")
        refuses(f"redis+cluster://:{quoted}@127.0.0.1:{server.port}")
    refuses(f"redis://:{quoted}@127.0.0.1:1")
    refuses(f"redis://:{quoted}@127.0.0.1:port")
    refuses(f"redis://:{quoted}@127.0.0.1:1?socket_timeout={quoted}")
    refuses(f"redis://:{quoted}@127.0.0.1:1?unknown={quoted}")
    seen += [repr(RedisClient(f"redis://user:{quoted}@127.0.0.1:1")), caplog.text]
    assert not [text for text in seen if SECRET in text or quoted in text]


@pytest.mark.full
async def test_a_report_is_acknowledged_when_replicas_have_it_and_deleted_there_too(tmp_path: Path) -> None:
    with one_server(tmp_path / "primary") as primary:
        clock = Clock(0)
        sealed, prefix = unique(10), os.urandom(8).hex()
        careless = make(primary, clock, prefix=prefix)
        await careless.add([Arrivals(BUCKET, TERMS, sealed)])
        await careless.aclose()
        storage = make(primary, clock, prefix=prefix, replicas=1, timeout=1.0)
        with pytest.raises(StorageError, match="0 of 1 replicas"):
            await storage.add([Arrivals(BUCKET, TERMS, sealed)])
        with pytest.raises(StorageError, match="0 of 1 replicas"):
            await storage.check()
        with one_server(tmp_path / "replica", "--replicaof", "127.0.0.1", str(primary.port)) as replica:
            client = replica.client()
            while client.info("replication")["master_link_status"] != "up":
                await asyncio.sleep(0.05)
            client.close()
            await settled(storage, clock, sealed)  # the same bytes again: they count once
            assert sealed[0] in (replica.directory / "dump.rdb").read_bytes()  # from when it joined
            await forgotten(storage)
            for server in (primary, replica):
                left = server.files()
                assert not [each for each in sealed if each in left]
        await storage.aclose()
