"""Connections to one Redis server or to the nodes of a cluster, used by one thread.

Calls are sent to their nodes together and answered together. What goes wrong comes out as StorageError, without a
word of what was sent and without credentials. With `replicas`, every write is followed by WAIT on the same
connection, and is an error unless so many replicas have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from redis import exceptions
from redis.connection import Connection, parse_url
from redis.crc import key_slot

from hubbub_shuffler.storage._redis_scripts import Call, Part
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["Link", "Node", "describe"]

Node: TypeAlias = tuple[str, int]
"""Host and port."""

_PASSES = 6
"""How often calls are sent on to another node, or with the text of a script, before we give up."""


@dataclass(slots=True)
class _Item:
    """A call under way."""

    at: int
    call: Call
    node: Node | None = None
    asking: bool = False
    done: bool = False


class Link:
    """`url` as redis-py reads it; `+cluster` behind its scheme makes it the address of one node of many."""

    def __init__(self, url: str, *, replicas: int = 0, timeout: float = 5.0) -> None:
        scheme, _, rest = url.partition("://")
        self.cluster = scheme.endswith("+cluster")
        try:
            options: dict[str, Any] = parse_url(f"{scheme.removesuffix('+cluster')}://{rest}")  # type: ignore[no-untyped-call]  # redis-py has no types here
        except ValueError:
            # the original error could show the address, and with it the password
            raise StorageError("the address of Redis is malformed: write redis://user:password@host:port/0") from None
        self._class: Any = options.pop("connection_class", Connection)
        self._seed: Node = (options.pop("host", "localhost"), options.pop("port", 6379))
        self._options = {"socket_timeout": timeout, "socket_connect_timeout": timeout, **options, "protocol": 2}
        self._replicas, self._wait = replicas, int(timeout * 500)
        self._connections: dict[Node, Any] = {}
        self._slots: list[tuple[int, int, Node]] = []
        try:
            self._connection(self._seed)  # made, not opened
        except TypeError:
            raise StorageError("the address of Redis has an option behind its ? that redis-py does not know") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._seed[0]}:{self._seed[1]})"

    def run(self, calls: Sequence[Call], *, again: bool, write: bool = True) -> list[Any]:
        """The answers, in order. `again`: may be sent a second time if the connection broke before the answer."""
        answers: list[Any] = [None] * len(calls)
        todo = [_Item(at, call) for at, call in enumerate(calls)]
        for _ in range(_PASSES):
            lost = self._round(todo, answers, write, careful=not again)
            if lost is not None:
                self._slots = []  # the node may be gone for good
                if not again:
                    raise lost
                again = False
            todo = [item for item in todo if not item.done]
            if not todo:
                return answers
        raise StorageError("Redis sends us from node to node without end")

    def _round(self, items: list[_Item], answers: list[Any], write: bool, *, careful: bool) -> StorageError | None:
        """Send each to its node, then read all answers: a connection with unread answers would mix them up.

        What came of a broken connection is returned, what a server refused is raised.
        """
        by_node: dict[Node, list[_Item]] = {}
        for item in items:
            by_node.setdefault(item.node or self._node_of(item.call.key), []).append(item)
        lost = {node: self._send(node, mine, write, careful=careful) for node, mine in by_node.items()}
        refused: list[StorageError] = []
        for node, mine in by_node.items():
            lost[node] = lost[node] or self._receive(node, mine, answers, write, refused)
        if refused:
            raise refused[0]
        return next((error for error in lost.values() if error is not None), None)

    def ask(self, node: Node, *parts: Part) -> Any:
        """One command for one node, whatever its keys."""
        answers: list[Any] = [None]
        lost = self._round([_Item(0, Call(b"", parts), node)], answers, False, careful=True)
        if lost is not None:
            raise lost
        return answers[0]

    def primaries(self) -> list[Node]:
        """Every server that takes writes."""
        if not self.cluster:
            return [self._seed]
        self._learn_slots()
        return sorted({node for _, _, node in self._slots})

    def close(self) -> None:
        for connection in self._connections.values():
            connection.disconnect()
        self._connections.clear()

    def _send(self, node: Node, items: list[_Item], write: bool, *, careful: bool) -> StorageError | None:
        """`careful`: look first whether the connection was cut while it was idle, since we can't send twice."""
        commands: list[tuple[Part, ...]] = []
        for item in items:
            if item.asking:
                commands.append(("ASKING",))
            commands.append(item.call.parts)
        if write and self._replicas:
            commands.append(("WAIT", self._replicas, self._wait))
        try:
            connection = self._connection(node)
            if careful and not _idle(connection):
                connection.disconnect()
            connection.send_packed_command(connection.pack_commands(commands))
        except (exceptions.RedisError, OSError) as error:
            self._drop(node)
            return StorageError(describe(error))
        return None

    def _receive(
        self, node: Node, items: list[_Item], answers: list[Any], write: bool, refused: list[StorageError]
    ) -> StorageError | None:
        connection, demoted = self._connection(node), False
        try:
            for item in items:
                if item.asking:
                    connection.read_response()
                try:
                    answers[item.at], item.done = connection.read_response(), True
                except exceptions.NoScriptError:
                    item.call = Call(item.call.key, item.call.in_full)
                except exceptions.AskError as error:
                    item.node, item.asking = (error.host, error.port), True
                except (exceptions.MovedError, exceptions.TryAgainError):
                    self._slots, item.node, item.asking = [], None, False
                except exceptions.ResponseError as error:
                    demoted = demoted or "READONLY" in str(error) or isinstance(error, exceptions.ReadOnlyError)
                    refused.append(StorageError(describe(error)))
            if write and self._replicas and (reached := connection.read_response()) < self._replicas:
                refused.append(StorageError(f"{reached} of {self._replicas} replicas have it"))
            if demoted:
                self._drop(node)  # after a failover the same name may lead to another server
                self._slots = []
        except (exceptions.RedisError, OSError) as error:
            self._drop(node)
            if write and self._replicas:
                for item in items:  # none was confirmed, since that comes last
                    item.done = False
            return StorageError(describe(error))
        return None

    def _connection(self, node: Node) -> Any:
        if node not in self._connections:
            self._connections[node] = self._class(host=node[0], port=node[1], **self._options)
        return self._connections[node]

    def _drop(self, node: Node) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.disconnect()

    def _node_of(self, key: bytes) -> Node:
        if not self.cluster:
            return self._seed
        if not self._slots:
            self._learn_slots()
        slot = key_slot(key)
        for first, last, node in self._slots:
            if first <= slot <= last:
                return node
        raise StorageError("a part of the Redis cluster is down")

    def _learn_slots(self) -> None:
        """From whichever node answers first."""
        failure = StorageError("no node of the Redis cluster answers")
        for node in dict.fromkeys([*self._connections, self._seed]):
            try:
                answer = self.ask(node, "CLUSTER", "SLOTS")
            except StorageError as error:
                failure = error
                continue
            self._slots = [
                (first, last, (primary[0].decode() or node[0], primary[1])) for first, last, primary, *_ in answer
            ]
            return
        raise failure


def _idle(connection: Any) -> bool:
    """Whether nothing can be read: neither an answer that nobody waits for nor the end of the connection."""
    try:
        return not connection.can_read(0)
    except (exceptions.RedisError, OSError):
        return False


def describe(error: Exception) -> str:
    """What went wrong, in words that hold nothing of what was sent."""
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError):
        text = "Redis does not take these credentials"
    elif "with args" in text or "arguments" in text:
        text = text.split(" ", 1)[0]
    return f"{type(error).__name__}: {text[:200]}"
