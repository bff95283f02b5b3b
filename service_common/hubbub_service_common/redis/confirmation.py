"""Confirmation that replicas have a write, on the connection that made it.

Up to Redis 7.0, WAIT waits for everything that the server has written. From 7.2 on it waits only for what this
connection wrote. A repeated call that finds its work done writes nothing, so WAIT would confirm it at once, and a
failover could still lose it. So we compare the server's replication offset with those of its replicas.
"""

from __future__ import annotations

from typing import Any

from redis import exceptions

from hubbub_service_common.process.clock_and_entropy import monotonic
from hubbub_service_common.redis.calls_and_scripts import Part
from hubbub_service_common.redis.error_codes import REFUSALS, describe
from hubbub_service_common.storage.kinds_and_errors import StorageAway, StorageError

__all__ = ["confirm", "questions"]

_INFO = ("INFO", "replication")
_MORE = ("WAIT", 1_000, 10)
"""WAIT for more replicas than there are: each is asked for its offset, and we wait for all answers or for 10 ms."""


def questions(replicas: int, milliseconds: int) -> list[tuple[Part, ...]]:
    """The commands that are sent after the calls."""
    return [_INFO, ("WAIT", replicas, milliseconds), _INFO]


def confirm(connection: Any, replicas: int, milliseconds: int) -> StorageError | None:
    """Read the answers to `questions`, and ask again until they are conclusive. Returns what is wrong, if anything.

    Errors of the connection are redis-py's.
    """
    until = monotonic() + milliseconds / 1_000
    answers = [_read(connection) for _ in range(3)]
    goal: int | None = None
    while True:
        for answer in answers:
            if isinstance(answer, exceptions.RedisError):
                return StorageError(describe(answer))
        goal = _written(answers[0]) if goal is None else goal
        have = _have(answers[-1], goal)
        if have >= replicas:
            return None
        if answers[-2] < replicas or monotonic() > until:
            return StorageAway(f"{have} of {replicas} replicas have it")
        connection.send_packed_command(connection.pack_commands([_MORE, _INFO]))
        answers = [_read(connection) for _ in range(2)]


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disconnect_on_error=False)
    except REFUSALS as error:
        return error


def _written(info: bytes) -> int:
    """The offset up to which the server has written."""
    return next(int(line.partition(b":")[2]) for line in info.splitlines() if line.startswith(b"master_repl_offset:"))


def _have(info: bytes, goal: int) -> int:
    """How many replicas have reached this offset."""
    lines = (line for line in info.splitlines() if line.startswith(b"slave") and b"state=online" in line)
    fields = (dict(pair.split(b"=", 1) for pair in line.partition(b":")[2].split(b",")) for line in lines)
    return sum(int(each[b"offset"]) >= goal for each in fields)
