"""Connections to one Redis server or to the nodes of a cluster, for any number of threads.

Calls of one `run` go to their nodes together. All that is sent here may be sent twice, so a connection that breaks
before the answer is no reason to give up: the same is sent once more. With `replicas`, every write is followed by
WAIT on its own connection and is an error unless so many replicas have it. No error shows what was sent, nor a
credential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from threading import Lock
from typing import Any, TypeAlias

from redis import exceptions
from redis.connection import Connection, parse_url
from redis.crc import key_slot

from hubbub_aggregator.storage.protocol import StorageError

__all__ = ["Call", "Link", "Node", "Part", "command", "script"]

Node: TypeAlias = tuple[str, int]
"""Host and port."""
Part: TypeAlias = bytes | str | int

_PASSES = 8
"""How often a call is sent on, to another node or with its text, before we give up."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command for the server that has `key`."""

    key: bytes
    parts: tuple[Part, ...]
    in_full: tuple[Part, ...] | None = None
    """The same with the script's text, for a server that does not know it yet."""


def command(name: str, key: bytes, *rest: Part) -> Call:
    """A plain command about one key."""
    return Call(key, (name, key, *rest))


def script(text: bytes, keys: Sequence[bytes], *arguments: Part) -> Call:
    """A script by its digest."""
    digest = sha1(text, usedforsecurity=False).hexdigest()
    rest: tuple[Part, ...] = (len(keys), *keys, *arguments)
    return Call(keys[0], ("EVALSHA", digest, *rest), ("EVAL", text, *rest))


class Link:
    """`url` as redis-py reads it; `+cluster` behind its scheme makes it the address of one node of many."""

    def __init__(self, url: str, *, replicas: int = 0, timeout: float = 5.0) -> None:
        scheme, _, rest = url.partition("://")
        self.cluster = scheme.endswith("+cluster")
        try:
            address = f"{scheme.removesuffix('+cluster')}://{rest}"
            options: dict[str, Any] = parse_url(address)  # type: ignore[no-untyped-call]  # redis-py has no types there
        except ValueError:
            # the original error could show the address, and with it the password
            raise StorageError("the address of Redis is malformed: write redis://user:password@host:port/0") from None
        self._class: Any = options.pop("connection_class", Connection)
        self._seed: Node = (options.pop("host", "localhost"), options.pop("port", 6379))
        self._options = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2, **options}
        self.replicas, self._wait = replicas, int(timeout * 500)
        self._lock, self._closed = Lock(), False
        self._idle: dict[Node, list[Any]] = {}
        self._slots: list[tuple[int, int, Node]] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._seed[0]}:{self._seed[1]})"

    def run(self, calls: Sequence[Call], *, write: bool = True) -> list[Any]:
        """The answers, in order. All bear being sent twice; those for one node are worked on in order."""
        answers: list[Any] = [None] * len(calls)
        todo: list[tuple[int, Call, Node | None]] = [(at, call, None) for at, call in enumerate(calls)]
        broken = False
        for _ in range(_PASSES):
            by_node: dict[tuple[Node, bool], list[tuple[int, Call]]] = {}
            for at, call, asked in todo:
                place = (asked or self._node_of(call.key), asked is not None)
                by_node.setdefault(place, []).append((at, call))
            todo = []
            for (node, asking), items in by_node.items():
                try:
                    todo += self._exchange(node, items, answers, asking=asking, write=write)
                except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
                    self._slots = []
                    if broken or isinstance(error, exceptions.AuthenticationError):
                        raise StorageError(_named(error)) from None
                    broken = True
                    todo += [(at, call, None) for at, call in items]
                except exceptions.RedisError as error:
                    raise StorageError(_named(error)) from None
            if not todo:
                return answers
        raise StorageError("Redis keeps sending us from node to node")

    def one(self, call: Call, *, write: bool = True) -> Any:
        """The answer to one call."""
        return self.run([call], write=write)[0]

    def ask(self, node: Node, *parts: Part) -> Any:
        """One command for one node, whatever its keys."""
        answers: list[Any] = [None]
        try:
            self._exchange(node, [(0, Call(b"", parts))], answers, asking=False, write=False)
        except (exceptions.RedisError, OSError) as error:
            raise StorageError(_named(error)) from None
        return answers[0]

    def primaries(self) -> list[Node]:
        """Every server that takes writes."""
        if not self.cluster:
            return [self._seed]
        self._learn_slots()
        return sorted({node for _, _, node in self._slots})

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [connection for free in self._idle.values() for connection in free]
            self._idle.clear()
        for connection in idle:
            connection.disconnect()

    def _exchange(
        self, node: Node, items: list[tuple[int, Call]], answers: list[Any], *, asking: bool, write: bool
    ) -> list[tuple[int, Call, Node | None]]:
        """Send to one node and read every answer; what has to be sent again, elsewhere or otherwise."""
        waits = write and self.replicas > 0
        commands: list[tuple[Part, ...]] = []
        for _, call in items:
            commands += [("ASKING",), call.parts] if asking else [call.parts]
        if waits:
            commands.append(("WAIT", self.replicas, self._wait))
        connection = self._take(node)
        later: list[tuple[int, Call, Node | None]] = []
        failures: list[Exception] = []
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            for at, call in items:
                if asking:
                    connection.read_response()
                try:
                    answers[at] = connection.read_response(disconnect_on_error=False)
                except exceptions.ResponseError as error:
                    again = self._again(call, error)
                    if again is None:
                        failures.append(error)
                    else:
                        later.append((at, *again))
            reached = connection.read_response() if waits else self.replicas
        except BaseException:
            connection.disconnect()
            raise
        self._give_back(node, connection)
        if failures:
            raise failures[0]
        if waits and len(later) < len(items) and reached < self.replicas:
            raise StorageError(f"{reached} of {self.replicas} replicas have it")
        return later

    def _again(self, call: Call, error: exceptions.ResponseError) -> tuple[Call, Node | None] | None:
        """What to send to whom instead, after this error; None if it is one."""
        if isinstance(error, exceptions.NoScriptError) and call.in_full is not None:
            return Call(call.key, call.in_full), None
        if isinstance(error, exceptions.AskError):
            return call, (error.host, error.port)
        if isinstance(error, exceptions.MovedError | exceptions.TryAgainError | exceptions.ClusterDownError):
            self._slots = []
            return call, None
        return None

    def _take(self, node: Node) -> Any:
        with self._lock:
            if self._closed:
                raise StorageError("the storage was closed")
            free = self._idle.get(node)
            connection = free.pop() if free else None
        if connection is None:
            connection = self._class(host=node[0], port=node[1], **self._options)
        elif connection.can_read(0):  # cut, or with an answer that nobody waits for
            connection.disconnect()
        return connection

    def _give_back(self, node: Node, connection: Any) -> None:
        with self._lock:
            if not self._closed:
                self._idle.setdefault(node, []).append(connection)
                return
        connection.disconnect()

    def _node_of(self, key: bytes) -> Node:
        if not self.cluster:
            return self._seed
        slots = self._slots or self._learn_slots()
        slot = key_slot(key)
        for first, last, node in slots:
            if first <= slot <= last:
                return node
        raise StorageError("a part of the Redis cluster is down")

    def _learn_slots(self) -> list[tuple[int, int, Node]]:
        """From whichever node answers first."""
        failure = StorageError("no node of the Redis cluster answers")
        with self._lock:
            known = list(self._idle)
        for node in dict.fromkeys([*known, self._seed]):
            try:
                answer = self.ask(node, "CLUSTER", "SLOTS")
            except StorageError as error:
                failure = error
                continue
            self._slots = [(low, high, (main[0].decode() or node[0], main[1])) for low, high, main, *_ in answer]
            return self._slots
        raise failure


def _named(error: Exception) -> str:
    """What went wrong; an error that could repeat what was sent keeps its first word only."""
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError) or "with args" in text or "arguments" in text:
        text = text.split(" ", 1)[0]
    return f"{type(error).__name__}: {text[:200]}"
