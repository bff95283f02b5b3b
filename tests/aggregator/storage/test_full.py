"""A full disk or Redis: batches are refused while there is still room to settle those that were taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from hubbub.wire import BatchHeader
from hubbub_aggregator.intake import spool
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.operations.metrics import stored_now
from hubbub_aggregator.storage import (
    Accepted,
    Batch,
    SignedBundle,
    StorageError,
    StoredCodebook,
    StoredKey,
    open_storage,
)
from hubbub_aggregator.storage.redis import bodies
from hubbub_aggregator.storage.redis.backend import RedisStorage
from hubbub_service_common.storage.sqlite_disk_space import Reserve
from tests.aggregator.backends import ANCHOR, SECRET
from tests.aggregator.world import Site
from tests.support.patience import PATIENCE, wait_for
from tests.support.redis_server import RedisServer, one_server
from tests.support.small_disk import small_disk

REPORTS = 200
METRIC = b"m" * 16


@contextmanager
def little_room(kind: str, directory: Path, megabytes: int = 2) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The directory of a site with a megabyte or two for batches, and its settings."""
    if kind == "disk":
        with small_disk(directory / "disk", megabytes) as disk:
            yield disk.path, {}
        return
    with one_server(directory / "redis") as server:
        client = server.client()
        client.config_set("maxmemory", client.info("memory")["used_memory"] + (1 + megabytes) * 2**19)
        client.close()
        (directory / "site").mkdir()
        yield directory / "site", {"storage": server.url}


def limit(server: RedisServer, maxmemory: int) -> None:
    client = server.client()
    client.config_set("maxmemory", maxmemory)
    client.close()


def leave_room_for_one_of_two(url: str, body: int) -> None:
    """A body needs half as much again for the work on it, and an eighth of all stays free: what is there differs."""
    with Redis.from_url(url) as client:
        client.config_set("maxmemory", (client.info("memory")["used_memory"] + body * 9 // 4) * 8 // 7)


def drained(site: Site) -> bool:
    """As the service does: what found no room is tried again when others have left."""
    return any(not site.drain() for _ in range(5))


@pytest.mark.everyday("disk")
@pytest.mark.parametrize("kind", ["disk", "redis"])
def test_bodies_that_wait_leave_room_for_the_work_on_them(tmp_path: Path, pool: Pool, kind: str) -> None:
    with little_room(kind, tmp_path) as (directory, settings):
        site = Site.open(directory, pool, **settings)
        body, other = (site.batch("dark_mode", [True] * REPORTS) for _ in range(2))
        taken = 0
        while (answer := site.put(body)).status_code == 202:  # under another id each time
            taken += 1
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:overloaded")
        assert int(answer.headers["Retry-After"]) > 0
        assert taken > 3
        assert drained(site)
        assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 1, "refused": taken - 1}
        assert site.settle(other)["state"] == "accepted"
        assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 2 * REPORTS
        site.close()


@pytest.mark.everyday("disk")
@pytest.mark.parametrize("kind", ["disk", "redis"])
def test_bodies_that_come_at_once_leave_room_for_the_work_on_them_too(
    tmp_path: Path, pool: Pool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would fit alone. Both heads come before anything of either body."""
    monkeypatch.setattr(spool, "_PIECE", 2**14)  # Redis has room for a piece or two beside what it keeps
    with little_room(kind, tmp_path, 1) as (directory, settings):
        site = Site.open(directory, pool, **settings)
        body = site.batch("dark_mode", [True] * 5_600)
        if kind == "redis":
            leave_room_for_one_of_two(settings["storage"], len(body))
        answers = site.put_together([body, body])
        assert sorted(answer.status_code for answer in answers) == [202, 503]
        assert drained(site)
        assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 1, "refused": 0}
        assert site.settle(site.batch("dark_mode", [True] * REPORTS))["state"] == "accepted"
        site.close()


def test_an_upload_that_ends_early_gives_its_room_back(tmp_path: Path, pool: Pool) -> None:
    with little_room("disk", tmp_path) as (directory, settings):
        site = Site.open(directory, pool, **settings)
        uploads = site.service.spool
        with uploads.upload(2**20) as upload:
            uploads.make_sure_of_room(upload)
            with uploads.upload(2**19) as other, pytest.raises(OSError, match="too little room"):
                uploads.make_sure_of_room(other)
            upload.write(bytes(2**19))
            with uploads.upload(2**16) as other:
                uploads.make_sure_of_room(other)  # what was written does not count twice
        with uploads.upload(2**20) as upload:
            uploads.make_sure_of_room(upload)
        site.close()


def test_bodies_that_come_to_several_processes_leave_room_together(tmp_path: Path) -> None:
    with one_server(tmp_path) as server, ExitStack() as running:
        one, other = (_opened(server, running) for _ in range(2))
        body = 2**20
        leave_room_for_one_of_two(server.url, body)
        one.announce("first", body)
        for _ in range(2):  # what was refused is not counted when it is tried again
            with pytest.raises(StorageError, match="too little memory"):
                other.announce("second", body)
            other.withdraw("second")
        other.announce("small", 1_000)  # there is room for this one beside the first
        other.withdraw("small")
        one.keep("first", [bytes(body // 2), bytes(body // 2)], body)
        one.remove("first")  # it has come, and its work is done
        other.announce("second", body)
        one.announce("third", 0)
        assert sorted(server.client().hkeys(one._keys.coming)) == [b"second", b"third"]


def test_what_a_dead_process_announced_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_COMING", 0)  # by Redis' clock: it is over at once
    with one_server(tmp_path) as server, ExitStack() as running:
        dead, other = (_opened(server, running) for _ in range(2))
        leave_room_for_one_of_two(server.url, 2**20)
        for name in ("one", "two", "three"):
            dead.announce(name, 2**20)
        other.announce("four", 2**20)
        assert server.client().hkeys(other._keys.coming) == [b"four"]


def _opened(server: RedisServer, running: ExitStack) -> bodies.RedisBodies:
    storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET)
    running.callback(storage.close)
    assert isinstance(storage.bodies, bodies.RedisBodies)
    return storage.bodies


def test_an_upload_that_is_broken_off_is_not_waited_for(tmp_path: Path, pool: Pool) -> None:
    with one_server(tmp_path / "redis") as server:
        site = Site.open(tmp_path, pool, storage=server.url)
        body = site.batch("dark_mode", [True] * REPORTS)
        assert site.put(body[:-1]).status_code == 400
        assert site.put(body).status_code == 202
        storage = site.service.storage
        assert isinstance(storage, RedisStorage)
        assert not server.client().exists(storage._keys.coming, storage._keys.coming_until)
        site.close()


def test_a_body_that_finds_no_room_half_way_leaves_nothing_in_redis(tmp_path: Path) -> None:
    with one_server(tmp_path) as server:
        storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET)
        assert storage.bodies is not None

        def pieces() -> Iterator[bytes]:
            yield bytes(1_000)
            limit(server, 1)
            yield bytes(1_000)

        with pytest.raises(StorageError, match="OOM"):
            storage.bodies.keep("name", pieces(), 2_000)
        assert not server.client().keys("*body*")
        storage.close()


def test_a_body_that_no_batch_names_in_the_end_does_not_stay_in_redis(
    tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_server(tmp_path / "redis") as server:
        site = Site.open(tmp_path, pool, storage=server.url)
        body, storage, id_ = site.batch("dark_mode", [True] * REPORTS), site.service.storage, os.urandom(16)
        admit = storage.admit

        def full(_batch: Batch) -> Batch:
            raise StorageError("Redis says OOM")

        def lost(batch: Batch) -> Batch:
            admit(batch)
            raise StorageError("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(storage, "admit", full)
            assert site.put(body).status_code == 503
            assert not server.client().keys("*body*")
            patched.setattr(storage, "admit", lost)
            assert site.put(body, id_).status_code == 503
        site.work()  # it was admitted all the same, and is there
        assert site.json(f"/v1/batches/{id_.hex()}")["state"] == "accepted"
        assert not server.client().keys("*body*")
        site.close()


def name(number: int) -> bytes:
    return number.to_bytes(16)


def waiting(number: int, period: int = 7) -> Batch:
    header = BatchHeader(METRIC, period, 3, 10, 70)
    return Batch(name(number), header, name(number) * 2, "pending", f"file-{number}")


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_redis_that_is_full_to_the_last_byte_still_lets_everything_leave(tmp_path: Path, replicas: int) -> None:
    """Verdicts, erasing, deleting and publishing go on, in a process that was there and in one that comes new."""
    with ExitStack() as running:
        server = running.enter_context(one_server(tmp_path / "redis"))
        if replicas:
            follow = ("--replicaof", "127.0.0.1", str(server.port))
            running.enter_context(one_server(tmp_path / "replica", *follow))
            wait_for(lambda: server.client().info("replication").get("slave0", {}).get("state") == "online")

        def opened() -> RedisStorage:
            storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET, replicas=replicas, timeout=PATIENCE)
            running.callback(storage.close)
            return storage

        storage = opened()
        for number, period in ((1, 5), (2, 7), (3, 7), (4, 7), (5, 7)):
            storage.admit(waiting(number, period))
        accepted = Accepted(9, {}, b"tally", b"1" * 16, "{}")
        assert storage.accept(name(1), 0, accepted) == storage.accept(name(2), 0, accepted) == "accepted"
        storage.add_key(StoredKey(1, 5, 5, b"p" * 32, b"s" * 32))
        assert storage.bodies is not None
        storage.bodies.announce("coming", 0)
        storage.bodies.keep("file-3", [b"body"], 4)
        names = storage._keys.pair(METRIC, 7)
        server.client().delete(names.accepted)  # as a version before this one left it
        limit(server, 1)

        for refused in (lambda: storage.admit(waiting(9)), storage.check):
            with pytest.raises(StorageError, match="OOM"):
                refused()
        for number in (3, 4, 5):
            storage = opened()
            assert storage.lease(name(number), "me", 30)
            (*_, last) = marks = storage.accepted(METRIC, 7)
            if number == 3:
                assert storage.accept(name(3), len(marks), Accepted(1, {}, b"t", b"3" * 16, "{}"), last) == "accepted"
            elif number == 4:
                assert storage.refuse(name(4), "batch-too-small", 1, {}, "{}")
            else:
                assert storage.drop(name(5), "file-5")
        assert storage.bodies is not None
        storage.bodies.remove("file-3")
        storage.bodies.withdraw("coming")
        storage.remember("question", 5)
        storage.add_key(StoredKey(2, 6, 6, b"q" * 32, b"t" * 32))
        storage.revoke_key(2)
        assert storage.add_codebook(StoredCodebook(5, b"one"))
        assert storage.publish(SignedBundle(1, 1, b"c", b"raw"), None)
        assert storage.forget(6)
        assert storage.nonces(METRIC, 5, storage.accepted(METRIC, 5)[0]) == b""
        assert storage.expire(6) == 1
        assert [release.id for release in storage.expired()] == [name(1)]
        assert [release.id for release in storage.releases()] == [name(2), name(3)]
        assert storage.pending() == []
        wait_for(storage.scrub)
        assert not server.client().keys("*body*")


def test_a_disk_that_others_filled_to_the_last_byte_still_lets_batches_leave(
    tmp_path: Path, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        site = Site.open(disk.path, pool)
        reserve = site.state_dir / f"{DATABASE}-reserve"
        assert reserve.stat().st_blocks * 512 >= 128 * 2**10, "it takes no room"
        bodies = [site.batch("dark_mode", [True] * REPORTS) for _ in range(2)]
        for body in bodies:
            assert site.put(body).status_code == 202
        disk.fill()
        assert site.put(bodies[0]).status_code == 503
        assert [line for line in caplog.messages if "could not be written to disk" in line]
        with pytest.raises(StorageError):
            site.service.storage.check()
        assert reserve.exists(), "an upload or a look took it"
        assert drained(site)
        assert not reserve.exists()
        assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 2, "refused": 0}
        disk.clear()
        site.service.storage.inspect()
        site.service.storage.check()
        assert reserve.exists()
        site.close()
        disk.fill()
        open_storage(site.state_dir / DATABASE, anchor="", secret=b"").close()
        assert not reserve.exists(), "the start did not need it"


def test_a_disk_that_is_too_full_for_a_verdict_shows(tmp_path: Path, pool: Pool) -> None:
    """Also while the log has room for something small."""
    with small_disk(tmp_path / "disk", 4) as disk:
        site = Site.open(disk.path, pool)
        service, body = site.service, site.batch("dark_mode", [True] * 2_500)
        stored = stored_now(service)
        assert stored is not None
        assert stored.writable
        assert site.put(body).status_code == 202
        service.storage.inspect = lambda: None  # type: ignore[method-assign]  # the reserve is not made again
        Reserve(site.state_dir / DATABASE).give_up()
        disk.fill(leaving=2**14)
        assert site.drain() == 1
        assert service.storage_errors == 1
        service.storage.remember("something", 1)
        site.clock.now += 2
        stored = stored_now(service)
        assert stored is not None
        assert not stored.writable
        disk.clear()
        assert drained(site)
        site.clock.now += 2
        stored = stored_now(service)
        assert stored is not None
        assert stored.writable
        site.close()
