"""The Redis storage of the aggregator: crashes between any two commands, lost connections, replicas, secrets."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hubbub.errors import InvalidParameter
from hubbub.wire import BatchHeader
from hubbub_aggregator.intake.deduplicate import Duplicates, Fresh, as_nonces, distinct
from hubbub_aggregator.intake.nonce_filter import hashes
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.intake.spool import Spool
from hubbub_aggregator.storage import (
    Accepted,
    Batch,
    SignedBundle,
    Storage,
    StorageError,
    StoredCodebook,
    StoredKey,
)
from hubbub_aggregator.storage.redis.backend import RedisStorage
from hubbub_aggregator.storage.redis.batches import _encode
from hubbub_service_common.redis.calls_and_scripts import Call, Script, command
from tests.aggregator.backends import ANCHOR, SECRET, counted
from tests.aggregator.earlier_storages import COMMIT_2
from tests.aggregator.operations.test_metrics import metrics
from tests.aggregator.world import Site
from tests.support.patience import PATIENCE, wait_for
from tests.support.redis_server import RedisServer, one_server

METRIC = b"m" * 16
ONE, TWO = (1).to_bytes(16), (2).to_bytes(16)
Open = Callable[[], RedisStorage]


class PowerCut(BaseException):
    """The process is gone: nothing catches this."""


@contextmanager
def opened_at(url: str) -> Iterator[Callable[[], Open]]:
    """Ways to open storages, each with names of its own."""
    opened: list[RedisStorage] = []

    def fresh() -> Open:
        prefix = os.urandom(8).hex()

        def open_() -> RedisStorage:
            opened.append(RedisStorage(url, anchor=ANCHOR, secret=SECRET, prefix=prefix))
            return opened[-1]

        return open_

    yield fresh
    for storage in opened:
        storage.close()


@pytest.fixture
def opening(redis_server: RedisServer) -> Iterator[Callable[[], Open]]:
    with opened_at(redis_server.url) as fresh:
        yield fresh


@pytest.fixture(params=["redis_server", pytest.param("redis_cluster", marks=pytest.mark.full)])
def opening_anywhere(request: pytest.FixtureRequest) -> Iterator[Callable[[], Open]]:
    with opened_at(request.getfixturevalue(request.param).url) as fresh:
        yield fresh


def batch(name: bytes, period: int = 7) -> Batch:
    return Batch(name, BatchHeader(METRIC, period, 3, 10, 70), name * 2, "pending", f"file-{name[-1]}")


def accepted(nonces: bytes) -> Accepted:
    return Accepted(9, {"cannot-open": 1}, b"tally", nonces, '{"id":1}')


def prepare(storage: Storage) -> None:
    """One batch that is released, one that waits, keys, a codebook and a bundle."""
    storage.admit(batch(ONE, 6))
    storage.accept(ONE, 0, accepted(b"1" * 16))
    storage.admit(batch(TWO))
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, b"s" * 32))
    storage.add_key(StoredKey(1, 7, 8, b"q" * 32, b"t" * 32))
    storage.add_codebook(StoredCodebook(5, b"one"))
    storage.publish(SignedBundle(10, 1, b"c", b"raw"), None)


def everything(storage: Storage) -> dict[str, Any]:
    """All that anyone can ask, twice: asking changes nothing."""
    for _ in range(2):
        found = {
            "batches": [storage.batch(name) for name in (ONE, TWO)],
            "pending": storage.pending(),
            "accepted": [[mark[:16] for mark in storage.accepted(METRIC, period)] for period in (6, 7)],
            "nonces": [counted(storage, METRIC, period) for period in (6, 7)],
            "releases": [storage.releases(), storage.page(None, None, 9), storage.spans()],
            "release": [storage.release(name) for name in (ONE, TWO)],
            "keys": storage.sealing_keys(),
            "codebooks": storage.codebooks(),
            "bundle": storage.bundle(),
            "tallied": storage.tallied(),
            "expired": storage.expired(),
            "opened and refused": storage.opened_and_refused(),
            "discarded": storage.discarded(METRIC, 0, 99),
        }
    return found


def accept_two(storage: Storage) -> None:
    assert storage.accept(TWO, len(storage.accepted(METRIC, 7)), accepted(b"2" * 16)) != "outdated"


def publish(storage: Storage) -> None:
    newest = storage.bundle()
    assert newest is not None
    storage.publish(SignedBundle(12, 1, b"d", b"newer"), 10)


STEPS: dict[str, Callable[[Storage], object]] = {
    "admit": lambda storage: storage.admit(batch((3).to_bytes(16))),
    "accept": accept_two,
    "refuse": lambda storage: storage.refuse(TWO, "batch-too-small", 3, {"cannot-open": 4}),
    "refuse what was opened": lambda storage: storage.refuse(TWO, "batch-too-small", 3, {"cannot-open": 4}, "{}"),
    "drop a key": lambda storage: storage.drop_key(1),
    "revoke only": lambda storage: storage.revoke_key(1),
    "drop": lambda storage: storage.drop(TWO, "file-2"),
    "discard": lambda storage: storage.admit(
        Batch((4).to_bytes(16), BatchHeader(METRIC, 7, 3, kind="discard"), b"d" * 32, "accepted")
    ),
    "revoke": lambda storage: storage.add_key(StoredKey(2, 7, 8, b"r" * 32, b"u" * 32), instead_of=1),
    "forget": lambda storage: storage.forget(6),
    "expire": lambda storage: storage.expire(7),
    "codebook": lambda storage: storage.add_codebook(StoredCodebook(9, b"two")),
    "publish": publish,
}


def cut_after(storage: RedisStorage, commands: int) -> None:
    """The process ends after so many commands, also between two that are sent together."""
    run, left = storage._client.run, [commands]

    def dying(calls: Sequence[Call], *, write: bool = True, again: bool = True) -> list[Any]:
        answers = []
        for call in calls:
            if left[0] == 0:
                raise PowerCut
            left[0] -= 1
            answers += run([call], write=write, again=again)
        return answers

    storage._client.run = dying  # type: ignore[method-assign]  # the only way in between


@pytest.mark.everyday("*-accept", "*-admit", "*-discard", "*-publish", "*-drop")
@pytest.mark.parametrize("name", STEPS)
def test_a_step_cut_off_after_any_command_happened_at_once_or_not_at_all(
    opening_anywhere: Callable[[], Open], name: str
) -> None:
    """What is seen after the crash is the state before or the state after; doing it again leads to the state after."""
    step, open_ = STEPS[name], opening_anywhere()
    whole = open_()
    prepare(whole)
    before = everything(whole)
    step(whole)
    after = everything(whole)
    assert before != after or name in ("admit", "discard")  # those two show in the lists of a third batch only

    for commands in itertools.count():
        open_ = opening_anywhere()
        prepare(open_())
        dying = open_()
        cut_after(dying, commands)
        try:
            step(dying)
        except PowerCut:
            found = everything(open_())
            if name in ("forget", "expire"):  # what is listed goes first; what it stands for, at the next tick
                assert found["keys"] in (before["keys"], after["keys"])
                assert found["releases"] in (before["releases"], after["releases"])
                open_().scrub()
                found = everything(open_())
            assert found in (before, after), commands
            step(open_())
            assert everything(open_()) == after
        else:
            assert everything(open_()) == after
            assert commands >= 1
            return


def test_counts_of_a_verdict_that_never_came_go_by_themselves(opening: Callable[[], Open]) -> None:
    open_ = opening()
    prepare(open_())
    dying = open_()
    cut_after(dying, 4)  # what was accepted, where the batch is and what is there; then both blobs
    with pytest.raises(PowerCut):
        accept_two(dying)
    storage = open_()
    tag = storage._keys.pair(METRIC, 7).tag
    client = _client(storage)
    names = [name for name in client.keys(tag + b"*") if b":counts:" in name or b":nonces:" in name]
    assert names
    assert all(0 < client.ttl(name) <= 86_400 for name in names)
    accept_two(storage)
    kept = [name for name in client.keys(tag + b"*") if client.ttl(name) == -1]
    assert len([name for name in kept if b":counts:" in name or b":nonces:" in name]) == 2
    client.close()


def _client(storage: RedisStorage) -> Any:
    import redis

    return redis.Redis(port=storage._client.first[1], protocol=2)


def test_a_batch_that_comes_while_its_period_is_forgotten_still_gets_its_verdict(opening: Callable[[], Open]) -> None:
    open_ = opening()
    storage, other = open_(), open_()
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, b"s" * 32))
    one, entering = storage._client.one, storage._lua["admit"]

    def crossed(call: Call, *, write: bool = True, again: bool = True) -> Any:
        if call.in_full and call.in_full[1] == entering.text:
            assert other.forget(6)  # listed and nowhere: it is taken off the list, and the key goes
        return one(call, write=write, again=again)

    storage._client.one = crossed  # type: ignore[method-assign]  # the only way in between
    storage.admit(batch(ONE, 6))
    assert [waiting.id for waiting in other.pending()] == [ONE]


def test_a_body_that_a_power_cut_shortened_is_fetched_again(opening: Callable[[], Open], tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", opening()().bodies)
    with spool.upload(50) as upload:
        upload.write(b"whole" * 10)
        spool.keep(upload)
        spool.settle_upload(upload, kept=True)
    path = spool.path(upload.name)
    path.write_bytes(b"who")
    assert spool.fetch(upload.name, 50)
    assert path.read_bytes() == b"whole" * 10


def test_what_was_acknowledged_survives_a_server_that_is_killed(tmp_path: Path) -> None:
    with one_server(tmp_path / "redis") as server:
        storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET, timeout=2.0)
        prepare(storage)
        before = everything(storage)
        server.stop()
        with pytest.raises(StorageError):
            storage.batch(ONE)
        with pytest.raises(StorageError):
            storage.check()
        server.start()
        assert everything(storage) == before
        storage.close()


def test_without_the_replicas_that_were_asked_for_nothing_is_acknowledged(tmp_path: Path) -> None:
    with one_server(tmp_path / "primary") as primary:
        storage = RedisStorage(primary.url, anchor=ANCHOR, secret=SECRET)
        with pytest.raises(StorageError, match="0 of 1 replicas"):
            RedisStorage(primary.url, anchor=ANCHOR, secret=SECRET, replicas=1, timeout=0.5)
        follow = ("--replicaof", "127.0.0.1", str(primary.port), "--repl-diskless-sync", "no")
        with one_server(tmp_path / "replica", *follow) as replica:
            wait_for(lambda: b"state=online" in storage._client.ask(storage._client.first, "INFO", "replication"))
            safe = RedisStorage(primary.url, anchor=ANCHOR, secret=SECRET, replicas=1, timeout=PATIENCE)
            prepare(safe)
            assert len(safe.releases()) == 1
            wait_for(lambda: b"1" * 16 in replica.files())  # it writes its own log a moment later
            assert safe.forget(6)
            wait_for(safe.scrub)
            assert b"1" * 16 not in primary.files() + replica.files()  # erased is erased everywhere
        safe._client.wait_milliseconds = 200
        for name in (ONE, TWO):
            with pytest.raises(StorageError, match="0 of 1 replicas"):
                safe.batch(name)  # it is known here, and a verdict that could be lost is none
        with pytest.raises(StorageError, match="0 of 1 replicas"):
            safe.admit(batch(TWO))
        safe.close()
        storage.close()


def test_a_redis_that_could_lose_or_double_reports_is_named_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lru")
    with one_server(tmp_path / "redis", *options) as server, caplog.at_level(logging.WARNING):
        storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET)
        storage.close()
    assert not storage.durable  # which the metrics show
    assert "LOSES ACKNOWLEDGED BATCHES" in caplog.text
    assert "REPORTS WOULD COUNT TWICE" in caplog.text


def test_a_setting_that_is_changed_on_a_running_server_shows_within_a_minute(
    tmp_path: Path, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    def seen() -> float:
        site.service.tick()
        return metrics(site)["storage_durable",]

    with one_server(tmp_path / "redis") as server, caplog.at_level(logging.INFO):
        site = Site.open(tmp_path, pool, storage=SecretStr(server.url))
        client = server.client()
        assert seen() == 1
        client.config_set("appendfsync", "everysec")
        assert seen() == 1  # it is not asked all the time
        for _ in range(2):
            site.clock.now += 60
            assert seen() == 0
        client.config_set("appendfsync", "always")
        site.clock.now += 60
        assert seen() == 1
        client.close()
        site.close()
    said = [record.getMessage() for record in caplog.records if "Redis at" in record.getMessage()]
    assert len(said) == 2
    assert "LOSES ACKNOWLEDGED BATCHES" in said[0]
    assert "again" in said[1]


def test_no_error_shows_a_credential(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "a-password-" + os.urandom(4).hex()
    with one_server(tmp_path / "redis") as server, caplog.at_level(logging.DEBUG):
        client = server.client()
        client.config_set("requirepass", secret)
        client.close()
        where = f"127.0.0.1:{server.port}"
        for url in (f"redis://:{secret}x@{where}", f"redis://{secret}@{where}", f"redis://:{secret}@{where}x/0"):
            with pytest.raises(StorageError) as refused:
                RedisStorage(url, anchor=ANCHOR, secret=SECRET)
            assert secret not in f"{refused.value!r} {refused.value.__cause__!r} {refused.value.__context__!r}"
        storage = RedisStorage(f"redis://:{secret}@{where}", anchor=ANCHOR, secret=SECRET)
        prepare(storage)
        assert secret not in repr(storage) + repr(storage._client) + caplog.text
        storage.close()


def test_a_redis_belongs_to_one_identity(redis_server: RedisServer) -> None:
    prefix = os.urandom(8).hex()
    storage = RedisStorage(redis_server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix)
    prepare(storage)
    with pytest.raises(InvalidParameter, match="belongs to the aggregator with the trust anchor"):
        RedisStorage(redis_server.url, anchor="ed25519:another", secret=SECRET, prefix=prefix)
    other = RedisStorage(redis_server.url, anchor=ANCHOR, secret=b"another secret!!", prefix=prefix)
    with pytest.raises(StorageError, match="another identity"):
        other.sealing_keys()
    other.close()
    storage.close()


def test_a_redis_of_another_layout_is_refused_and_not_read(redis_server: RedisServer) -> None:
    prefix = os.urandom(8).hex()
    storage = RedisStorage(redis_server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix)
    storage._client.one(command("HSET", storage._keys.marks, "layout", 1))
    storage.close()
    with pytest.raises(InvalidParameter, match="another version of this software"):
        RedisStorage(redis_server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix)


def accepted_by_the_version_before(storage: RedisStorage, name: bytes, nonces: bytes) -> None:
    """A batch that a process of the version before accepts: it keeps no order."""
    waiting = storage.admit(batch(name))
    pair, token = storage._keys.pair(METRIC, 7), os.urandom(8)
    blobs = (pair.counts(token), pair.nonces(token))
    storage._client.run([command("SET", blobs[0], (2).to_bytes(4) + b"{}tally"), command("SET", blobs[1], nonces)])
    entry = json.loads(_encode(replace(waiting, state="accepted", spool=None, valid=9), token)[1:])
    del entry["call"]  # it came later
    version = storage._client.one(command("GET", pair.version), write=False) or 0
    call = Script(COMMIT_2)((pair.batches, pair.version, *blobs), name, version, b"a" + json.dumps(entry).encode())
    assert storage._client.one(call) == b"accepted"


def test_what_the_version_before_accepted_is_taken_over_also_while_it_still_runs(opening: Callable[[], Open]) -> None:
    open_ = opening()
    storage, three = open_(), (3).to_bytes(16)
    for name in (ONE, TWO):
        accepted_by_the_version_before(storage, name, name)
    known = Duplicates(storage)
    assert known.counted(METRIC, 7, distinct([ONE + TWO + three])[0])[1].tolist() == [True, True, False]
    assert [mark[:16] for mark in storage.accepted(METRIC, 7)] == [ONE, TWO]
    before = storage.accepted(METRIC, 7)

    storage.admit(batch(three))
    assert storage.accept(three, 2, accepted(three)) == "accepted"
    known.add(METRIC, 7, 2, three, Fresh(hashes(as_nonces(three))))
    four = bytes(16)  # its id comes before all others
    accepted_by_the_version_before(open_(), four, b"4" * 16)
    assert storage.accepted(METRIC, 7)[:2] == before  # what has its place keeps it
    assert [mark[:16] for mark in storage.accepted(METRIC, 7)] == [ONE, TWO, three, four]
    version, repeated, *_ = known.counted(METRIC, 7, distinct([ONE + three + b"4" * 16 + b"5" * 16])[0])
    assert (version, repeated.tolist()) == (4, [True, True, True, False])
    assert [release.id for release in storage.releases()] == [four, ONE, TWO, three]


def test_a_batch_that_was_judged_against_one_that_a_failover_lost_is_judged_anew(opening: Callable[[], Open]) -> None:
    storage, three = opening()(), (3).to_bytes(16)
    for id_ in (ONE, TWO, three):
        storage.admit(batch(id_))
    names = storage._keys.pair(METRIC, 7)
    waiting = storage._client.one(command("HGET", names.batches, ONE))
    assert storage.accept(ONE, 0, accepted(b"1" * 16)) == "accepted"
    known = Duplicates(storage)
    nonces, _ = distinct([b"1" * 16 + b"2" * 16])
    version, repeated, last, _ = known.counted(METRIC, 7, nonces)
    assert repeated.tolist() == [True, False]
    lost = [
        command("HSET", names.batches, ONE, waiting),
        command("RPOP", names.accepted),
        command("DECR", names.version),
    ]
    storage._client.run(lost)
    assert storage.accept(TWO, 0, accepted(b"2" * 16)) == "accepted"
    assert storage.accept(three, version, accepted(b"2" * 16), last) == "outdated"
    version, repeated, last, _ = known.counted(METRIC, 7, nonces)
    assert (version, repeated.tolist()) == (1, [False, True])
    assert storage.accept(three, version, accepted(b"1" * 16), last) == "accepted"


def test_what_died_half_way_makes_no_nonce_of_its_retry_a_duplicate(opening: Callable[[], Open]) -> None:
    """Wherever it dies: a new process finds all nonces new, or the batch accepted and all of them counted once."""
    nonces, _ = distinct([b"a" * 16 + b"b" * 16])
    for commands in itertools.count():
        open_ = opening()
        prepare(open_())
        dying = open_()
        cut_after(dying, commands)
        try:
            version, *_ = Duplicates(dying).counted(METRIC, 7, nonces)
            dying.accept(TWO, version, accepted(nonces.tobytes()))
        except PowerCut:
            storage = open_()
            found = storage.batch(TWO)
            assert found is not None
            version, repeated, *_ = Duplicates(storage).counted(METRIC, 7, nonces)
            assert (version, repeated.tolist()) == ((1, [True] * 2) if found.state == "accepted" else (0, [False] * 2))
            if found.state == "pending":
                assert storage.accept(TWO, version, accepted(nonces.tobytes())) == "accepted"
            assert counted(storage, METRIC, 7) == [nonces.tobytes()]
        else:
            assert commands > 5
            return


def test_a_verdict_that_was_sent_twice_is_still_its_senders_and_nobody_elses(opening: Callable[[], Open]) -> None:
    """A connection breaks before the answer, and the script is sent again."""
    for step in ("accept", "refuse"):
        open_ = opening()
        storage = open_()
        storage.admit(batch(ONE))
        one = storage._client.one

        def twice(call: Call, *, write: bool = True, again: bool = True, one: Any = one) -> Any:
            one(call, write=write, again=again)
            return one(call, write=write, again=again)

        storage._client.one = twice  # type: ignore[method-assign]  # as if every answer was lost once
        if step == "accept":
            assert storage.accept(ONE, 0, accepted(b"1" * 16)) == "accepted"
            assert open_().accept(ONE, 1, accepted(b"1" * 16)) == "settled"
        else:
            assert storage.refuse(ONE, "batch-too-small", 3, {})
            assert not open_().refuse(ONE, "batch-too-small", 3, {})
        assert len(open_().accepted(METRIC, 7)) == (step == "accept")
        assert open_().tallied()["batch:accepted" if step == "accept" else "batch:refused"] == 1


def test_private_keys_are_stored_encrypted_and_what_was_erased_leaves_the_files(tmp_path: Path) -> None:
    secret, nonces = os.urandom(32), os.urandom(16)
    with one_server(tmp_path / "redis") as server:
        storage = RedisStorage(server.url, anchor=ANCHOR, secret=SECRET)
        storage.add_key(StoredKey(0, 5, 6, b"p" * 32, secret))
        storage.admit(batch(ONE, 6))
        storage.accept(ONE, 0, accepted(nonces))
        (key,) = storage.sealing_keys()
        assert key.private_key == secret
        kept = storage._client.one(Call(storage._keys.keys, ("HGET", storage._keys.keys, 0)), write=False)
        assert nonces in server.files()
        for form in (secret, secret.hex().encode()):
            assert form not in server.files()
        encrypted = kept.split(b'"private": "')[1].split(b'"')[0]
        assert encrypted in server.files()

        storage.forget(6)
        wait_for(storage.scrub)
        assert nonces not in server.files()
        assert encrypted not in server.files()
        assert storage.release(ONE) is not None
        storage.close()


def test_what_was_set_under_a_clock_of_the_server_that_was_ahead_holds_nobody_up(redis_server: RedisServer) -> None:
    """A time to live is kept as the time at which it ends: set a year ahead, it would last for a year."""
    prefix = os.urandom(8).hex()
    storage = RedisStorage(redis_server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix)
    name, client, year = os.urandom(16), redis_server.client(), 400 * 86_400_000
    assert storage.lease(name, "one who died", 30.0)
    assert not storage.lease(name, "another", 30.0)
    client.pexpire(storage._keys.lease(name), year)
    assert storage.lease(name, "another", 30.0)
    assert client.pttl(storage._keys.lease(name)) <= 30_000

    storage.add_key(StoredKey(1, 5, 6, b"p" * 32, b"SECRET-C" * 4))
    client.set(storage._keys.rewriting, "one who died", px=year)
    client.set(storage._keys.rewritten, "", px=year)
    assert storage.forget(6)
    wait_for(storage.scrub)
    assert storage.bodies is not None
    storage.bodies.keep("body", [b"sealed"], 6)
    storage.bodies.remove("body")
    client.set(storage._keys.rewritten, "", px=year)
    wait_for(storage.scrub)
    storage.close()


def test_no_name_that_matters_ends_by_the_clock_of_the_server(redis_server: RedisServer) -> None:
    """Bodies do: the shuffler holds every batch until its verdict, and sends again what is gone. So do leases."""
    prefix = os.urandom(8).hex()
    storage = RedisStorage(redis_server.url, anchor=ANCHOR, secret=SECRET, prefix=prefix)
    storage.add_codebook(StoredCodebook(5, b"one"))
    storage.add_key(StoredKey(1, 5, 9, b"p" * 32, b"s" * 32))
    storage.publish(SignedBundle(10, 1, b"c", b"bundle"), None)
    storage.remember("question", 1)
    storage.admit(batch(ONE))
    storage.admit(batch(TWO))
    accepted = Accepted(5, {}, b"tally", b"".join(bytes([i]) * 16 for i in range(5)), "{}")
    assert storage.accept(ONE, 0, accepted) == "accepted"
    storage.lease(TWO, "holder", 30.0)
    client = redis_server.client()
    names = [name for name in client.scan_iter(f"{prefix}:*") if client.pttl(name) != -1]
    assert names == [storage._keys.lease(TWO)]
    storage.close()
