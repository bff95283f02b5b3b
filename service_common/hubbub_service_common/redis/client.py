"""Redis client for one server or the nodes of a cluster, for any number of threads.

The calls of one `run` go to their nodes together and are answered together. With `replicas`, a write fails unless that
many replicas have it (confirmation.py). error_codes.py says which refusals are followed, waited out or raised. Errors
are StorageError, and show neither what was sent nor a credential. docs/design/redis-client.md says why this is not
redis-py's own cluster client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from redis import exceptions

from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.process.clock_and_entropy import entropy, monotonic, sleep
from hubbub_service_common.redis.address import Address, Node
from hubbub_service_common.redis.calls_and_scripts import Call, Part
from hubbub_service_common.redis.confirmation import confirm, questions
from hubbub_service_common.redis.error_codes import REFUSALS, describe, rule_of
from hubbub_service_common.redis.slot_map import SlotMap, host_of
from hubbub_service_common.storage.kinds_and_errors import StorageAway, StorageError, StorageStuck

__all__ = ["Node", "RedisClient"]

_HOPS = 4
"""How many times calls are redirected without a pause, to another node or with a script's text. After that there are
pauses: while a replica takes over, nodes redirect us to each other."""
_SHORTEST, _LONGEST = 0.02, 0.4
"""Shortest and longest pause in seconds between two attempts at a call that may soon succeed."""
_CLUSTER = "write redis+cluster:// (or rediss+cluster://) in its address"


@dataclass(slots=True)
class _Item:
    """A call under way."""

    at: int
    call: Call
    node: Node | None = None
    """The node that it must go to, regardless of the slot map."""
    asking: bool = False
    done: bool = False


@dataclass(slots=True)
class _Round:
    """The result of sending calls once."""

    failed: list[StorageError] = field(default_factory=list)
    """Refused for good."""
    broken: list[StorageError] = field(default_factory=list)
    """No answer: the call may have been done."""
    unsent: list[StorageError] = field(default_factory=list)
    """The node could not be reached: nothing was sent there."""
    later: list[StorageError] = field(default_factory=list)
    """Refused for now."""


class RedisClient:
    """`url`: see address.py. `patience`: seconds for which a call that a server refuses for now is tried again.

    `timeout`: seconds to connect, and to wait for an answer.
    """

    def __init__(self, url: str, *, replicas: int = 0, timeout: float = 5.0, patience: float = 1.0) -> None:
        self._address = Address.parse(url, timeout)
        self.cluster, self.first = self._address.cluster, self._address.first
        self.replicas, self._patience = replicas, patience
        self.wait_milliseconds = int(self._address.options["socket_timeout"] * 500)  # the answer comes in time
        self._lock, self._closed = Lock(), False
        self._idle: dict[Node, list[Any]] = {}
        self._slots = SlotMap(self.first, self.ask)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.first[0]}:{self.first[1]})"

    def run(self, calls: Sequence[Call], *, write: bool = True, again: bool = True) -> list[Any]:
        """The answers, in order. Calls for one node are executed in order.

        `again`: whether calls may be sent a second time if the connection broke before the answer. Calls that a server
        refused, or whose node could not be reached, were not done and are sent again in any case.
        """
        answers: list[Any] = [None] * len(calls)
        todo = [_Item(at, call) for at, call in enumerate(calls)]
        hops, pauses, until = 0, 0, monotonic() + self._patience
        while todo:
            said = self._round(todo, answers, write, careful=not again)
            todo = [item for item in todo if not item.done]
            if said.failed:
                raise said.failed[0]
            if said.broken:
                if not again:
                    raise said.broken[0]
                again = False
            waiting = said.later or (said.unsent if self.cluster else [])  # another node may take over in a moment
            if todo and not waiting:
                hops += 1
                if hops > _HOPS:
                    waiting = [StorageAway("Redis redirects us from node to node without end")]
            if waiting:
                pause = backoff(pauses, first=_SHORTEST, longest=_LONGEST, entropy=entropy)
                if monotonic() + pause > until:
                    raise waiting[0]
                sleep(pause)
                pauses += 1
            elif said.unsent and hops > 1:
                raise said.unsent[0]
        return answers

    def one(self, call: Call, *, write: bool = True, again: bool = True) -> Any:
        """The answer to one call."""
        return self.run([call], write=write, again=again)[0]

    def ask(self, node: Node, *parts: Part) -> Any:
        """One command for one node, whatever its keys. It is sent once."""
        answers: list[Any] = [None]
        item = _Item(0, Call(b"", parts), node)
        said = self._round([item], answers, write=False, careful=True)
        for error in (*said.failed, *said.broken, *said.unsent, *said.later):
            raise error
        return answers[0]

    def primaries(self) -> list[Node]:
        """Every server that takes writes."""
        if not self.cluster:
            return [self.first]
        return self._slots.primaries()

    def info(self, node: Node, section: str) -> dict[str, str]:
        """A section of a server's INFO."""
        lines = self.ask(node, "INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self) -> None:
        """Close idle connections. No new call may be made; running calls end normally."""
        with self._lock:
            self._closed = True
            idle = [connection for free in self._idle.values() for connection in free]
            self._idle.clear()
        for connection in idle:
            connection.disconnect()

    def _round(self, items: list[_Item], answers: list[Any], write: bool, *, careful: bool) -> _Round:
        """Send each call to its node, then read every answer: an unread one would be taken for the next call's.

        `careful`: first check whether a connection was cut while it was idle, since the calls can't be sent twice.
        """
        said = _Round()
        by_node: dict[Node, list[_Item]] = {}
        for item in items:
            node = item.node or (self._slots.owner(item.call.key) if self.cluster else self.first)
            if node is None:
                said.later.append(StorageAway("a part of the Redis cluster is down: no node has its slots"))
                self._slots.forget()
            else:
                by_node.setdefault(node, []).append(item)
        sent: list[tuple[Node, list[_Item], Any]] = []
        try:
            for node, mine in by_node.items():
                if (connection := self._send(node, mine, write, said, careful=careful)) is not None:
                    sent.append((node, mine, connection))
            while sent:
                self._receive(*sent.pop(0), answers, write, said)
        finally:
            for _, _, connection in sent:  # interrupted: these answers will not be read
                connection.disconnect()
        return said

    def _send(self, node: Node, items: list[_Item], write: bool, said: _Round, *, careful: bool) -> Any:
        """The connection on which the answers will come; None if sending failed."""
        commands: list[tuple[Part, ...]] = []
        for item in items:
            commands += [("ASKING",), item.call.parts] if item.asking else [item.call.parts]
        if write and self.replicas:
            commands += questions(self.replicas, self.wait_milliseconds)
        connection = self._take(node, careful=careful)
        try:
            connection.connect()  # does nothing if it is connected
        except exceptions.AuthenticationError as error:
            said.failed.append(StorageError(describe(error)))
            return None
        except (exceptions.RedisError, OSError) as error:
            self._slots.distrust(node)  # the node may be gone for good
            for item in items:
                item.node, item.asking = item.node if self._is_pinned(item) else None, False
            said.unsent.append(_failure(error))
            return None
        try:
            connection.send_packed_command(connection.pack_commands(commands))
        except (exceptions.RedisError, OSError) as error:
            connection.disconnect()
            self._slots.distrust(node)
            said.broken.append(_failure(error))
            return None
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def _receive(
        self, node: Node, items: list[_Item], connection: Any, answers: list[Any], write: bool, said: _Round
    ) -> None:
        reconnect = False
        unconfirmed: StorageError | None = None
        try:
            for item in items:
                if item.asking:
                    connection.read_response(disconnect_on_error=False)
                try:
                    answers[item.at], item.done = connection.read_response(disconnect_on_error=False), True
                except REFUSALS as error:
                    reconnect |= self._refused(node, item, error, said)
            if write and self.replicas:
                unconfirmed = confirm(connection, self.replicas, self.wait_milliseconds)
        except (exceptions.RedisError, OSError) as error:
            connection.disconnect()
            self._slots.distrust(node)
            if write and self.replicas:
                for item in items:  # none was confirmed, since the confirmation comes last
                    item.done = False
            said.broken.append(_failure(error))
            return
        except BaseException:
            connection.disconnect()
            raise
        self._give_back(node, connection, reconnect=reconnect)
        if unconfirmed is not None and any(item.done for item in items):
            said.failed.append(unconfirmed)

    def _refused(self, node: Node, item: _Item, error: Exception, said: _Round) -> bool:
        """Prepare the call to be sent again as its refusal asks. Returns whether the connection must be closed."""
        rule = rule_of(error)
        pinned, named = self._is_pinned(item), None
        if isinstance(error, exceptions.AskError):  # includes MOVED
            named = host_of(error.host, node), int(error.port)
        if rule.action == "in-full" and item.call.in_full:
            item.call = Call(item.call.key, item.call.in_full)
        elif rule.action == "ask" and named is not None and self.cluster and not pinned:
            item.node, item.asking = named, True
        elif rule.action in ("elsewhere", "ask") and not self.cluster:
            said.failed.append(StorageError(f"{self.first[0]}:{self.first[1]} is a node of a cluster: {_CLUSTER}"))
        elif rule.action in ("elsewhere", "later") and not pinned:
            self._slots.distrust(node, named)
            item.node, item.asking = None, False
            if rule.action == "later":
                said.later.append(StorageAway(describe(error)))
        else:
            otherwise = StorageStuck if rule.action == "fail" else StorageAway
            said.failed.append((otherwise if rule.passes else StorageError)(describe(error)))
        return rule.reconnect

    @staticmethod
    def _is_pinned(item: _Item) -> bool:
        """Whether the caller chose the node."""
        return item.node is not None and not item.asking

    def _take(self, node: Node, *, careful: bool) -> Any:
        """A connection for the caller alone."""
        with self._lock:
            if self._closed:
                raise StorageError("the storage was closed")
            free = self._idle.get(node)
            connection = free.pop() if free else None
        if connection is None:
            return self._address.connect(node)
        if not careful:
            return connection
        try:
            stale = connection.can_read(0)  # it was cut, or has an answer that no call waits for
        except (exceptions.RedisError, OSError):
            stale = True
        if stale:
            connection.disconnect()
        return connection

    def _give_back(self, node: Node, connection: Any, *, reconnect: bool) -> None:
        """Keep a connection for later. Connections to a demoted node, or to nodes that left the cluster, are closed."""
        with self._lock:
            self._idle.setdefault(node, []).append(connection)
            gone = {node} if reconnect or self._closed else set[Node]()
            if self.cluster:
                gone |= set(self._idle) - self._slots.nodes
            useless = [free for one in gone for free in self._idle.pop(one, [])]
        for each in useless:
            each.disconnect()


def _failure(error: Exception) -> StorageError:
    """The error for a connection that could not be made or broke: StorageAway, unless the server refused for good."""
    refused = isinstance(error, exceptions.AuthenticationError)
    refused |= isinstance(error, REFUSALS) and not rule_of(error).passes
    return (StorageError if refused else StorageAway)(describe(error))
