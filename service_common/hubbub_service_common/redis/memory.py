"""Memory of a Redis: how much each primary uses and may use, as the server itself counts."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hubbub_service_common.redis.address import Node
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["Memory", "base_of", "memory_of"]


class Memory(NamedTuple):
    """Memory of one server, in bytes."""

    used: int
    """What counts towards `maxmemory`."""
    limit: int
    """`maxmemory`; 0 if it is not set."""


class Servers(Protocol):
    """The servers of a storage, as `RedisClient` reaches them. Both raise StorageError."""

    def primaries(self) -> list[Node]:
        """Every server that takes writes."""

    def info(self, node: Node, section: str) -> dict[str, str]:
        """A section of one server's INFO."""


def memory_of(servers: Servers) -> list[Memory]:
    """One for each primary. Buffers for replicas and for the append-only file are left out, as the server does."""
    return [memory for memory, _ in base_of(servers)]


def base_of(servers: Servers) -> list[tuple[Memory, int]]:
    """The same, each with the part of `used` that is not data: the server itself, its connections, tables of keys.

    This part stays when all data has left, so a caller that waits for room must not wait for it.
    """
    try:
        return [_measured(servers.info(node, "memory")) for node in servers.primaries()]
    except (KeyError, ValueError) as error:
        raise StorageError("Redis does not say how much memory it has in use") from error


def _measured(said: dict[str, str]) -> tuple[Memory, int]:
    not_counted = int(said.get("mem_not_counted_for_evict", 0))
    used = int(said["used_memory"]) - not_counted
    base = int(said.get("used_memory_overhead", 0)) - not_counted
    return Memory(used, int(said.get("maxmemory", 0))), min(used, max(0, base))
