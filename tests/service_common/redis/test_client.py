"""The Redis client on real servers: what it does about every refusal of error_codes.RULES and every broken connection.

Most of it on one server, and with `full` on a cluster of three primaries and three replicas, too.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis

from hubbub_service_common.redis.calls_and_scripts import Call, Script, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.error_codes import RULES
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.service_common.redis.backends import (
    COUNT,
    Flaky,
    Interrupted,
    OneServer,
    Place,
    attempts,
    count,
    counted,
    make_place,  # noqa: F401  the fixture `place`
    meanwhile,
    new_key,
    opened,
    talking_to,
    tell,
)
from tests.support.paths import ROOT
from tests.support.patience import wait_for, within
from tests.support.ports import reserved_port
from tests.support.redis_server import RedisServer, one_server

IMPATIENT = 0.05
PAYLOAD = b"what a device reported"


def fails(client: RedisClient, call: Call, words: str, **how: bool) -> None:
    """StorageError with these words, without a word of what was sent, at once."""
    with pytest.raises(StorageError, match=words) as caught:
        client.one(call, **how)
    error: BaseException | None = caught.value
    while error is not None:
        assert PAYLOAD.decode() not in f"{error!r} {error}"
        assert call.key.decode() not in f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def words_of(code: str) -> str:
    rule = RULES[code]
    return f"^Redis says {code}: {rule.meaning}" + (f"; {rule.advice}$" if rule.advice else "$")


# --- refused for good -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "setting", "wrong", "right"),
    [("OOM", "maxmemory", "1", "0"), ("NOREPLICAS", "min-replicas-to-write", "5", "0")],
)
def test_a_setting_that_forbids_writes_is_named_and_tried_once(
    place: Place, code: str, setting: str, wrong: str, right: str
) -> None:
    key = new_key()
    server = place.primary_of(key)
    with opened(place.url) as client:
        assert client.one(count(key)) == 1
        assert client.one(COUNT((key,), PAYLOAD)) == 2
        tell(server, "CONFIG", "SET", setting, wrong)
        try:
            tell(server, "CONFIG", "RESETSTAT")
            for again in (True, False):
                fails(client, command("APPEND", key, PAYLOAD), words_of(code), again=again)
                fails(client, COUNT((key,), PAYLOAD), words_of(code), again=again)
            assert attempts(server, "append") == 2
            assert attempts(server, "evalsha") == 2
            assert client.one(command("GET", key), write=False) == b"2"  # what is there can be read
        finally:
            tell(server, "CONFIG", "SET", setting, right)
        assert client.one(COUNT((key,)), again=False) == 3


def test_a_snapshot_that_can_not_be_written_is_named_and_tried_once(place: Place) -> None:
    """MISCONF: a directory is where the snapshot should go."""
    key = new_key()
    server = place.primary_of(key)
    in_the_way = server.directory / "dump.rdb"
    in_the_way.unlink(missing_ok=True)  # a replica that is a primary by now has one
    in_the_way.mkdir()
    (in_the_way / "file").touch()
    with opened(place.url) as client, talking_to(server) as behind:
        assert client.one(count(key)) == 1
        behind.config_set("save", "3600 1000000")
        try:
            behind.execute_command("BGSAVE")
            wait_for(lambda: behind.info("persistence")["rdb_last_bgsave_status"] == "err")
            behind.config_resetstat()
            for again in (True, False):
                fails(client, command("APPEND", key, PAYLOAD), words_of("MISCONF"), again=again)
                fails(client, COUNT((key,), PAYLOAD), words_of("MISCONF"), again=again)
            assert attempts(server, "append") == 2
        finally:
            (in_the_way / "file").unlink()
            in_the_way.rmdir()
            behind.execute_command("BGSAVE")
            wait_for(lambda: behind.info("persistence")["rdb_last_bgsave_status"] == "ok")
            behind.config_set("save", "")
            in_the_way.unlink()
        assert client.one(count(key), again=False) == 2


def test_a_user_and_its_password_are_taken_from_the_address_and_what_it_may_not_do_is_named(place: Place) -> None:
    key, name, secret = new_key(), f"user-{os.urandom(4).hex()}", os.urandom(8).hex()
    allowed = ("on", f">{secret}", "~*", "+incr", "+eval", "+evalsha", "+cluster", "+ping")
    for node in place.nodes:
        tell(node, "ACL", "SETUSER", name, *allowed)
    scheme, where = place.url.split("://")
    with opened(f"{scheme}://{name}:{secret}@{where}") as client:
        assert client.one(count(key)) == 1
        fails(client, command("APPEND", key, PAYLOAD), words_of("NOPERM"))
        assert client.one(COUNT((key,)), again=False) == 2
        for node in place.nodes:  # changed: its connections are cut
            tell(node, "ACL", "DELUSER", name)
            tell(node, "ACL", "SETUSER", name, *allowed[:1], ">another", *allowed[2:])
        fails(client, count(key), words_of("WRONGPASS"))
        for node in place.nodes:
            tell(node, "ACL", "SETUSER", name, f">{secret}")
        assert client.one(count(key), again=False) == 3
    with opened(f"{scheme}://{name}:wrong@{where}") as client:
        fails(client, count(key), words_of("WRONGPASS"))
    for node in place.nodes:
        tell(node, "ACL", "DELUSER", name)
    assert counted(place, key) == 3


def test_what_the_how_to_lets_an_account_do_is_enough(place: Place) -> None:
    """docs/how-to/redis.md: everything the client and the rewrites send."""
    page = (ROOT / "docs/how-to/redis.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("user shuffler on "))
    rights, secret = line.partition(") ")[2].split(), os.urandom(8).hex()
    for node in place.nodes:
        tell(node, "ACL", "SETUSER", "howto", "on", f">{secret}", *rights)
    scheme, where = place.url.split("://")
    key = new_key()
    with opened(f"{scheme}://howto:{secret}@{where}", replicas=int("cluster" in scheme)) as client:
        assert client.one(COUNT((key,))) == 1
        assert "role" in client.info(client.primaries()[0], "replication")
    for node in place.nodes:
        tell(node, "ACL", "DELUSER", "howto")


def test_a_server_that_wants_a_password_says_so(tmp_path: Path) -> None:
    """NOAUTH, also for a server that is told so while the client is connected; WRONGPASS; and the right one."""
    with one_server(tmp_path) as server, opened(server.url) as client:
        key = new_key()
        assert client.one(count(key)) == 1
        tell(server, "CONFIG", "SET", "requirepass", "the password")
        with opened(server.url) as late:
            fails(late, count(key), words_of("NOAUTH"))
        address = f"127.0.0.1:{server.port}"
        with opened(f"redis://:another@{address}") as wrong:
            fails(wrong, count(key), words_of("WRONGPASS"))
        with opened(f"redis://:the%20password@{address}") as right:
            assert right.one(count(key)) == 2
            right.one(command("CONFIG", b"SET", "requirepass", ""))
        with opened(f"redis://:needless@{address}") as needless:
            fails(needless, count(key), "does not take these credentials|WRONGPASS")


def test_an_unknown_refusal_is_raised_without_what_was_sent(place: Place) -> None:
    key = new_key()
    with opened(place.url) as client:
        client.one(command("LPUSH", key, b"x"))
        fails(client, command("INCR", key), "WRONGTYPE")
        fails(client, Call(key, ("NOSUCHCOMMAND", key, PAYLOAD)), "unknown command|ResponseError")
        fails(client, command("SET", key, b"x", PAYLOAD), "ResponseError")
        broken = Script(b"return redis.call('INCR', KEYS[1])")
        fails(client, broken((key,), PAYLOAD), "WRONGTYPE|ResponseError")
        assert client.one(command("LLEN", key), write=False) == 1


# --- followed or waited out -------------------------------------------------------------------------------------


def test_a_server_that_forgot_the_script_gets_its_text(place: Place) -> None:
    """NOSCRIPT: for one call and among several, also where none may be sent twice."""
    key = new_key()
    with opened(place.url) as client:
        for turn in range(3):
            for node in place.nodes:
                tell(node, "SCRIPT", "FLUSH")
            assert client.run([COUNT((key,)), count(key)], again=False)[1] in (3 * turn + 1, 3 * turn + 2)
            assert client.one(COUNT((key,)), again=False) == 3 * turn + 3


def test_a_replica_that_becomes_a_primary_again_gets_the_write(tmp_path: Path) -> None:
    """READONLY: waited out; while it lasts StorageError, and no connection is kept."""
    with one_server(tmp_path) as server, opened(server.url) as client:
        key = new_key()
        tell(server, "REPLICAOF", "127.0.0.1", "1")

        def promote_when_asked() -> None:
            wait_for(lambda: attempts(server, "incr"))
            tell(server, "REPLICAOF", "NO", "ONE")

        with meanwhile(promote_when_asked):
            assert client.one(count(key), again=False) == 1
        with opened(server.url, patience=IMPATIENT) as hasty:
            assert hasty.one(count(key)) == 2
            for _ in range(3):
                with ThreadPoolExecutor(4) as threads:  # so that it has several connections
                    list(threads.map(lambda _: hasty.one(command("PING", b"")), range(8)))
                tell(server, "REPLICAOF", "127.0.0.1", "1")
                for call in (count(key), COUNT((key,), PAYLOAD)):
                    fails(hasty, call, words_of("READONLY"), again=False)
                    assert not any(hasty._idle.values())
                tell(server, "REPLICAOF", "NO", "ONE")
            assert hasty.one(count(key), again=False) == 3


def test_a_replica_without_its_primary_is_waited_for(tmp_path: Path) -> None:
    """MASTERDOWN: the answer to a read where stale data must not be shown."""
    with one_server(tmp_path, "--replica-serve-stale-data", "no") as server, opened(server.url) as client:
        key = new_key()
        assert client.one(count(key)) == 1
        tell(server, "REPLICAOF", "127.0.0.1", "1")
        with opened(server.url, patience=IMPATIENT) as hasty:
            fails(hasty, command("GET", key), words_of("MASTERDOWN"), write=False)
            assert not any(hasty._idle.values())
        tell(server, "CONFIG", "SET", "slave-read-only", "yes")

        def promote_when_asked() -> None:
            tell(server, "REPLICAOF", "NO", "ONE")

        with meanwhile(promote_when_asked):
            assert client.one(command("GET", key), write=False) == b"1"


def test_a_server_that_still_reads_its_file_is_waited_for(tmp_path: Path) -> None:
    """LOADING. It reads for some seconds; where that was over before we asked, it is started anew."""
    commands = 40_000
    (tmp_path / "appendonly.aof").write_bytes(b"*2\r\n$4\r\nINCR\r\n$1\r\nx\r\n" * commands)
    server, done = RedisServer(tmp_path), commands

    def refused() -> str:
        with opened(server.url, patience=IMPATIENT) as hasty:
            try:
                hasty.one(command("GET", b"x"), write=False)
            except StorageError as error:
                return str(error)
        return ""

    def hurry() -> None:
        with suppress(redis.ResponseError):  # Redis 6 takes its time
            tell(server, "CONFIG", "SET", "key-load-delay", 0)

    def both_met_it() -> bool:
        nonlocal done
        try:
            server.start("--key-load-delay", "50", ready=False)
            wait_for(lambda: "refused" not in refused())  # it does not listen yet
            said = refused()
            done += 1
            with opened(server.url) as client, meanwhile(hurry):
                assert client.one(count(b"x"), again=False) == done
            with talking_to(server) as behind:
                seen = behind.info("errorstats").get("errorstat_LOADING", {}).get("count", 0)
            return "Redis says LOADING" in said and int(seen) > 2
        finally:
            server.stop()

    wait_for(both_met_it)


# --- connections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [False, True])
def test_a_call_whose_answer_was_lost_is_sent_again_only_where_it_may_be(place: Place, script: bool) -> None:
    key = new_key()
    call = COUNT((key,)) if script else count(key)
    with opened(place.url) as client:
        flaky = Flaky(client)
        assert [client.one(call) for _ in range(2)] == [1, 2]
        flaky.lose = 1
        with pytest.raises(StorageError):
            client.one(call, again=False)
        assert counted(place, key) == 3
        flaky.lose = 1
        assert client.one(call, again=True) == 5
        flaky.lose = 2
        with pytest.raises(StorageError):  # twice is enough
            client.one(call, again=True)
        assert counted(place, key) == 7
        assert client.one(call, again=False) == 8


def test_a_connection_that_was_cut_while_idle_is_seen_before_anything_is_sent(place: Place) -> None:
    key, other = new_key(), new_key()
    with opened(place.url) as client:
        assert client.run([count(key), count(other)]) == [1, 1]
        for turn in range(2, 5):
            for node in place.nodes:
                tell(node, "CLIENT", "KILL", "TYPE", "normal")
            assert client.run([count(key), count(other)], again=False) == [turn, turn]
        for node in place.nodes:
            tell(node, "CLIENT", "KILL", "TYPE", "normal")
        assert client.one(count(key)) == 5  # and where it may be sent twice, nothing is lost either
        assert client.one(COUNT((key,)), again=True) == 6


def test_a_server_that_was_started_anew_is_found_again(tmp_path: Path) -> None:
    with one_server(tmp_path) as server, opened(server.url) as client:
        key = new_key()
        for turn in range(1, 4):
            assert client.one(COUNT((key,)), again=False) == turn
            server.stop()
            server.start()


def test_a_server_that_is_not_there_is_an_error_at_once() -> None:
    address = f"127.0.0.1:{reserved_port()}"
    for scheme in ("redis", "redis+cluster"):
        with opened(f"{scheme}://{address}", patience=IMPATIENT) as client, within(5):
            fails(client, count(new_key()), f"(?i)refused|{address}")
            with pytest.raises(StorageError):
                client.ask(client.first, "PING")


def test_a_server_that_does_not_answer_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    with one_server(tmp_path) as server, opened(server.url, timeout=0.3) as client:
        key = new_key()
        assert client.one(count(key)) == 1
        server.pause()
        try:
            with within(5):
                fails(client, count(key), "(?i)timeout", again=False)
        finally:
            server.resume()
        wait_for(lambda: counted(OneServer(server), key) == 2)  # it was carried out, and not once more
        with opened(server.url) as patient:
            assert patient.one(count(key)) == 3


def test_answers_of_many_threads_are_never_mixed_up(place: Place) -> None:
    """Every thread asks for its own, alone and together, while connections are cut."""
    threads, turns = 8, 40
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.01):
            for node in place.nodes:
                tell(node, "CLIENT", "KILL", "TYPE", "normal")

    with opened(place.url) as client:

        def ask(number: int) -> None:
            keys = [new_key() for _ in range(5)]
            for turn in range(turns):
                value = f"{number}-{turn}".encode()
                try:
                    client.run([command("SET", key, value + key) for key in keys])
                    found = client.run([command("GET", key) for key in keys], write=False)
                except StorageError:
                    continue  # cut twice
                assert found == [value + key for key in keys]

        def all_of_them() -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(ask, range(threads)))

        all_of_them()
        assert sum(len(idle) for idle in client._idle.values()) <= threads * len(place.nodes)
        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            all_of_them()
        finally:
            stop.set()
            cutter.join()


def test_an_interrupted_call_leaves_no_answer_for_the_next(place: Place) -> None:
    keys = [new_key() for _ in range(12)]
    with opened(place.url) as client:
        flaky = Flaky(client)
        client.run([command("SET", key, key) for key in keys])
        for _ in range(5):
            flaky.interrupt = 1
            with pytest.raises(Interrupted):
                client.run([command("GET", key) for key in reversed(keys)], write=False)
            for connection in (each for idle in client._idle.values() for each in idle):
                assert not connection.can_read(0)
            assert client.run([command("GET", key) for key in keys], write=False) == keys
        assert len([each for each in flaky.made if each._sock is not None]) <= len(place.nodes)


def test_a_closed_client_asks_nothing_and_keeps_no_connection(place: Place) -> None:
    with opened(place.url) as client:
        flaky = Flaky(client)
        client.run([count(new_key()) for _ in range(12)])
        client.close()
        assert not [each for each in flaky.made if each._sock is not None]
        with pytest.raises(StorageError, match="closed"):
            client.one(count(new_key()))
        with pytest.raises(StorageError, match="closed"):
            client.ask(client.first, "PING")


def test_calls_for_one_node_are_worked_on_in_order_and_answers_come_in_the_order_asked(place: Place) -> None:
    keys = [new_key() for _ in range(40)]
    with opened(place.url) as client:
        calls = [command("APPEND", key, str(turn).encode()) for turn in range(5) for key in keys]
        assert client.run(calls) == [turn + 1 for turn in range(5) for _ in keys]
        assert client.run([command("GET", key) for key in keys], write=False) == [b"01234"] * len(keys)
        assert client.run([]) == []


# --- replicas ---------------------------------------------------------------------------------------------------


def test_a_write_that_too_few_replicas_have_is_an_error_and_a_read_is_none(place: Place) -> None:
    key = new_key()
    with opened(place.url, replicas=9) as client:
        client.wait_milliseconds = 50
        for again in (True, False):
            with pytest.raises(StorageError, match=r"^[01] of 9 replicas have it$"):
                client.one(count(key), again=again)
        assert client.one(command("GET", key), write=False) == b"2"  # written, each once, and not acknowledged


def test_a_connection_cut_while_waiting_for_replicas_acknowledges_nothing(place: Place) -> None:
    key = new_key()
    server = place.primary_of(key)
    with opened(place.url, replicas=9) as client, talking_to(server) as behind:
        client.wait_milliseconds = 1_000_000
        client.run([command("GET", key)], write=False)

        def cut_when_waiting() -> None:
            wait_for(lambda: behind.info("clients")["blocked_clients"])
            client.wait_milliseconds = 50
            behind.client_kill_filter(_type="normal", skipme=True)

        with meanwhile(cut_when_waiting):
            fails(client, count(key), "(?i)connection|closed", again=False)
        assert counted(place, key) == 1
        client.wait_milliseconds = 1_000_000
        with meanwhile(cut_when_waiting), pytest.raises(StorageError, match=r"^[01] of 9 replicas"):
            client.one(count(key))
        assert counted(place, key) == 3


ONCE = Script(b"return redis.call('SETNX', KEYS[1], ARGV[1])")
"""Changes nothing the second time."""


def pair(stack: ExitStack, directory: Path) -> tuple[RedisServer, RedisServer]:
    """A primary, and its replica once that is online."""
    primary = stack.enter_context(one_server(directory / "primary", "--repl-diskless-sync-delay", "0"))
    follow = ("--replicaof", "127.0.0.1", str(primary.port))
    replica = stack.enter_context(one_server(directory / "replica", *follow))
    wait_for(lambda: online(primary))
    return primary, replica


def online(primary: RedisServer) -> bool:
    with talking_to(primary) as client:
        return bool(client.info("replication").get("slave0", {}).get("state") == "online")


def test_a_repeated_call_that_changes_nothing_waits_for_the_first_ones_replica(tmp_path: Path) -> None:
    """The write was carried out, its connection broke, and the second time there is nothing to write.

    Up to Redis 7.0 WAIT waits for all that the server has; from 7.2 on, only for what this connection wrote.
    """
    with ExitStack() as stack:
        primary, replica = pair(stack, tmp_path)
        client = stack.enter_context(opened(primary.url, replicas=1))
        flaky, key = Flaky(client), new_key()
        client.one(command("SET", new_key(), b"x"))  # all is well
        client.wait_milliseconds = 300
        replica.pause()
        try:
            flaky.lose = 1
            with pytest.raises(StorageError, match=r"^0 of 1 replicas have it$"):
                client.one(ONCE((key,), b"x"))
            assert tell(primary, "GET", key) == b"x"
            for _ in range(2):  # nor is what someone else finds there acknowledged
                with opened(primary.url, replicas=1) as other:
                    other.wait_milliseconds = 300
                    fails(other, ONCE((key,), b"x"), r"^0 of 1 replicas have it$")
        finally:
            replica.resume()
        client.wait_milliseconds = 60_000
        assert client.one(ONCE((key,), b"x")) == 0
        assert tell(replica, "GET", key) == b"x"


def test_what_is_acknowledged_is_on_the_replica(tmp_path: Path) -> None:
    """Asked there right after, with other writers beside."""
    with ExitStack() as stack:
        primary, replica = pair(stack, tmp_path)
        client = stack.enter_context(opened(primary.url, replicas=1))
        behind = stack.enter_context(talking_to(replica))
        lock = threading.Lock()

        def write(_number: int) -> None:
            for _ in range(10):
                key = new_key()
                assert client.one(ONCE((key,), key)) == 1
                with lock:
                    assert behind.get(key) == key
                assert client.one(ONCE((key,), key)) == 0

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(write, range(4)))
