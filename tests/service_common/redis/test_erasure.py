"""Erasure in Redis: what was erased is in no append-only file or snapshot, of primaries or of replicas."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from hubbub.wire import BatchHeader
from hubbub_aggregator.storage import Accepted, Batch, StoredKey
from hubbub_aggregator.storage.redis.backend import RedisStorage as AggregatorStorage
from hubbub_service_common.redis.calls_and_scripts import Call, command
from hubbub_service_common.redis.erase_from_disk import FileRewrites
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Plan
from hubbub_shuffler.storage.redis.backend import RedisStorage as ShufflerStorage
from tests.aggregator.backends import ANCHOR, SECRET
from tests.service_common.redis.backends import OneServer, new_key, opened, talking_to, tell
from tests.shuffler.backends import BUCKET, LEASE, TERMS, TIDY_LEASE, forgotten
from tests.support.clock import Clock
from tests.support.patience import wait_for
from tests.support.redis_server import RedisServer, one_server, three_and_three

LOG = logging.getLogger("hubbub_test")
METRIC = b"m" * 16


class Servers(Protocol):
    """Where it is tested."""

    @property
    def url(self) -> str: ...

    @property
    def nodes(self) -> list[RedisServer]: ...


@pytest.fixture(name="servers", params=["one", pytest.param("three and three", marks=pytest.mark.full)])
def make_servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    if request.param == "one":
        with one_server(tmp_path, "--save", "3600", "1") as server:
            yield OneServer(server)
    else:
        with three_and_three(tmp_path) as cluster:
            yield cluster


def files(servers: Servers) -> dict[str, bytes]:
    """Every file of every server by its path."""
    found: dict[str, bytes] = {}
    for number, node in enumerate(servers.nodes):
        for path in node.directory.rglob("*"):
            if path.is_file():
                found[f"{number}/{path.relative_to(node.directory)}"] = path.read_bytes()
    return found


def holding(servers: Servers, secret: bytes) -> set[str]:
    """Which files have it."""
    return {name for name, content in files(servers).items() if secret in content}


def kinds(names: set[str]) -> set[str]:
    return {"snapshot" if name.endswith(".rdb") and "appendonly" not in name else "log" for name in names}


def snapshot(servers: Servers) -> None:
    for node in servers.nodes:
        tell(node, "SAVE")


def all_have(servers: Servers, secrets: list[bytes]) -> None:
    """Each is in a log and in a snapshot, and on a replica as well if there is one; they are compressed nowhere."""
    copies = 1 if len(servers.nodes) == 1 else 2

    def there() -> bool:
        return all(len({name.split("/")[0] for name in holding(servers, each)}) == copies for each in secrets)

    wait_for(there)  # a replica writes its own log a moment later
    snapshot(servers)
    for secret in secrets:
        assert kinds(holding(servers, secret)) == {"log", "snapshot"}


def test_erased_keys_nonces_and_bodies_of_the_aggregator_are_in_no_file(servers: Servers) -> None:
    """A key that was forgotten, one that was revoked, the nonces of a period, and the body of a batch."""
    storage = AggregatorStorage(servers.url, anchor=ANCHOR, secret=SECRET)
    assert storage.bodies is not None
    nonces, kept_nonces, body = os.urandom(16), os.urandom(16), os.urandom(300)
    for number, period in ((0, 6), (1, 7), (2, 8)):
        storage.add_key(StoredKey(number, period, period, os.urandom(32), os.urandom(32)))
    for name, period, which in ((1, 6, nonces), (2, 8, kept_nonces)):
        id_ = name.to_bytes(16)
        storage.admit(Batch(id_, BatchHeader(METRIC, period, 3, 10, 70), id_ * 2, "pending", f"file-{name}"))
        storage.accept(id_, 0, Accepted(9, {"cannot-open": 1}, b"tally", which, '{"id":1}'))
    storage.bodies.keep("file-1", [body[:100], body[100:]], len(body))
    keys = storage._keys.keys
    rows = [storage._client.one(Call(keys, ("HGET", keys, number)), write=False) for number in range(3)]
    encrypted = [row.split(b'"private": "')[1].split(b'"')[0] for row in rows]
    gone = [*encrypted[:2], nonces, body[:100], body[100:]]
    all_have(servers, [*gone, encrypted[2], kept_nonces])

    storage.bodies.remove("file-1")
    storage.revoke_key(1)
    assert storage.forget(6)
    wait_for(storage.scrub)
    assert {each: holding(servers, each) for each in gone} == {each: set() for each in gone}
    for kept in (encrypted[2], kept_nonces):
        assert kinds(holding(servers, kept)) == {"log", "snapshot"}
    storage.close()


async def test_deleted_reports_of_the_shuffler_are_in_no_file(servers: Servers) -> None:
    clock, sealed = Clock(0), [os.urandom(TERMS.size) for _ in range(60)]
    storage = AsyncStorage(
        ShufflerStorage(servers.url, entropy=os.urandom, clock=clock, tidy_lease=TIDY_LEASE, prefix="x")
    )
    for each in sealed:
        assert await storage.add([Arrivals(BUCKET, TERMS, [each])]) == {}
    await asyncio.to_thread(all_have, servers, sealed)
    clock.now = TERMS.closes_at
    await storage.close((), due=TERMS.closes_at)
    assert await storage.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), len(sealed), 0))
    claim = await storage.claim(LEASE)
    assert claim
    assert await storage.settle(claim, "accepted")
    await forgotten(storage)
    left = b"".join(files(servers).values())
    assert not [each for each in sealed if each in left]
    await storage.aclose()


def test_the_snapshot_that_a_replica_got_when_it_joined_goes_after_it_was_promoted(tmp_path: Path) -> None:
    """Its primary is dead, it has no replicas and no save points: nothing tells that it has a snapshot."""
    secret, key = os.urandom(64), new_key()
    with ExitStack() as stack:
        primary = stack.enter_context(one_server(tmp_path / "primary", "--repl-diskless-sync-delay", "0"))
        tell(primary, "SET", key, secret)
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        replica = stack.enter_context(one_server(tmp_path / "replica", *follow))
        servers = OneServer(replica)
        wait_for(lambda: "snapshot" in kinds(holding(servers, secret)))
        wait_for(lambda: tell(replica, "ROLE")[3] == b"connected")
        primary.stop()
        tell(replica, "REPLICAOF", "NO", "ONE")
        with opened(replica.url) as client:
            client.one(command("UNLINK", key))
            rewrites = FileRewrites(client, LOG, "a secret")
            wait_for(rewrites.step)
        assert holding(servers, secret) == set()


class Ticking:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def stepping(rewrites: FileRewrites) -> bool:
    """Go on until the round has ended, well or not."""
    said: list[bool | None] = []

    def ended() -> bool:
        said.append(rewrites.step())
        return said[-1] is not None

    wait_for(ended)
    return bool(said[-1])


@pytest.mark.everyday("True")
@pytest.mark.parametrize("of_a_replica", [False, True])
def test_a_rewrite_that_fails_is_said_once_and_begun_again_after_growing_pauses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_a_replica: bool
) -> None:
    """A directory is where the snapshot of one of the two should go. Each round begins with all servers."""
    with ExitStack() as stack:
        primary = stack.enter_context(one_server(tmp_path / "primary", "--repl-diskless-sync-delay", "0"))
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        replica = stack.enter_context(one_server(tmp_path / "replica", *follow))
        client = stack.enter_context(opened(primary.url))
        with talking_to(primary) as ahead, talking_to(replica) as behind:
            # The primary calls it online before it has put the snapshot in its place.
            wait_for(lambda: behind.info("replication")["master_link_status"] == "up")
            wait_for(lambda: ahead.info("replication").get("slave0", {}).get("state") == "online")
        ill = replica if of_a_replica else primary
        (ill.directory / "dump.rdb").unlink(missing_ok=True)
        (ill.directory / "dump.rdb" / "in the way").mkdir(parents=True)
        clock = Ticking()
        rewrites = FileRewrites(client, LOG, "a secret", clock, bytes)  # zeros: half of each pause, which is the least
        with caplog.at_level(logging.INFO):
            pauses = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
            for pause in pauses:
                assert not stepping(rewrites)
                wait_for(
                    lambda: not _is_rewriting(primary)
                )  # a busy server is asked later, and the ill one fails first
                clock.now += pause * 0.99
                before = _rewrites_of(primary)
                assert rewrites.step() is False  # too soon: nothing is asked
                assert not rewrites.under_way
                assert _rewrites_of(primary) == before
                clock.now += pause * 0.01 + 1e-6
            assert _rewrites_of(primary) == len(pauses)  # the one that is well begins again with the other
            assert [record.getMessage() for record in caplog.records] == [
                "a secret may still be in a file of Redis; the rewrite is tried again: a snapshot failed on "
                f"127.0.0.1:{ill.port}: look at its log and its disk"
            ]
            (ill.directory / "dump.rdb" / "in the way").rmdir()
            (ill.directory / "dump.rdb").rmdir()
            assert stepping(rewrites)
            assert "can't be in them any more" in caplog.records[-1].getMessage()
            primary.stop()
            for _ in range(2):
                assert not stepping(rewrites)  # another cause is said, too, once; and pauses are short again
                clock.now += 0.5
                assert rewrites.step() in (False, None)
                clock.now += 1.0
            assert len(caplog.records) == 3


def _is_rewriting(server: RedisServer) -> bool:
    with talking_to(server) as client:
        now = client.info("persistence")
    return bool(now["aof_rewrite_in_progress"] or now["aof_rewrite_scheduled"] or now["rdb_bgsave_in_progress"])


def _rewrites_of(server: RedisServer) -> int:
    with talking_to(server) as client:
        return int(client.info("commandstats").get("cmdstat_bgrewriteaof", {}).get("calls", 0))
