"""Redis servers for tests of the client: one real server, or a cluster of three primaries and three replicas."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest
from redis.connection import Connection
from redis.exceptions import ConnectionError as Broken

from hubbub_service_common.redis.calls_and_scripts import Call, Script, command
from hubbub_service_common.redis.client import RedisClient
from tests.support.patience import PATIENCE
from tests.support.redis_server import RedisServer, ReplicatedCluster, one_server, three_and_three

COUNT = Script(b"return redis.call('INCR', KEYS[1])")
"""Tells how often it was carried out."""


class Place(Protocol):
    """A Redis, and who has a key there."""

    @property
    def url(self) -> str: ...

    @property
    def nodes(self) -> list[RedisServer]: ...

    def primary_of(self, key: bytes) -> RedisServer: ...


class OneServer:
    """A server by itself has all keys."""

    def __init__(self, server: RedisServer) -> None:
        self.url, self.nodes = server.url, [server]

    def primary_of(self, _key: bytes) -> RedisServer:
        return self.nodes[0]


@pytest.fixture(name="place", scope="module", params=["one", pytest.param("three and three", marks=pytest.mark.full)])
def make_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("redis")
    if request.param == "one":
        with one_server(directory) as server:
            yield OneServer(server)
    else:
        with three_and_three(directory) as cluster:
            yield cluster


@pytest.fixture(name="cluster", scope="module")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with three_and_three(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def new_key() -> bytes:
    """A name that no other test has."""
    return b"{" + os.urandom(8).hex().encode() + b"}:key"


@contextmanager
def opened(url: str, **options: Any) -> Iterator[RedisClient]:
    """Patient with the machine. Tests that are about giving up say how soon."""
    client = RedisClient(url, **{"timeout": PATIENCE, "patience": PATIENCE} | options)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def talking_to(server: RedisServer) -> Iterator[Any]:
    """redis-py's own client, for what the test does behind the back of ours."""
    client = server.client()
    try:
        yield client
    finally:
        client.close()


def tell(server: RedisServer, *parts: Any) -> Any:
    with talking_to(server) as client:
        return client.execute_command(*parts)


def attempts(server: RedisServer, name: str) -> int:
    """How often a command came since the last CONFIG RESETSTAT, refused or carried out."""
    with talking_to(server) as client:
        found = client.info("commandstats").get(f"cmdstat_{name}", {})
    return int(found.get("calls", 0)) + int(found.get("rejected_calls", 0))


def count(key: bytes) -> Call:
    """INCR, as a plain command."""
    return command("INCR", key)


def counted(place: Place, key: bytes) -> int:
    """How often it was carried out."""
    return int(tell(place.primary_of(key), "GET", key) or 0)


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """In another thread; what it raises is raised here."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  it is raised below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


class Interrupted(BaseException):
    """As KeyboardInterrupt is: nobody expects it."""


class Flaky:
    """Makes connections of which some break, or are interrupted, where a test says so."""

    def __init__(self, client: RedisClient) -> None:
        self.lose = 0
        """How many answers more get lost: the server has given them, and the connection is gone."""
        self.interrupt = 0
        """How many times more reading is interrupted, with the answer unread."""
        self.made: list[Connection] = []
        client._address = replace(client._address, connection=self._make)

    def _make(self, **options: Any) -> Connection:
        flaky = self

        class Unsound(Connection):
            of_the_test = False

            def send_packed_command(self, packed: Any, check_health: bool = True) -> None:
                # who has which slots is asked in between, and a new connection introduces itself
                self.of_the_test = not any(word in b"".join(packed) for word in (b"CLUSTER", b"SETINFO"))
                super().send_packed_command(packed, check_health)  # type: ignore[no-untyped-call]  # it has no types

            def read_response(self, *arguments: Any, **named: Any) -> Any:
                if flaky.interrupt and self.of_the_test:
                    flaky.interrupt -= 1
                    raise Interrupted
                answer = super().read_response(*arguments, **named)
                if flaky.lose and self.of_the_test:
                    flaky.lose -= 1
                    self.disconnect()  # type: ignore[no-untyped-call]  # it has no types
                    raise Broken("Connection closed by server.")
                return answer

        self.made.append(Unsound(**options))  # type: ignore[no-untyped-call]  # likewise
        return self.made[-1]
