"""Durability of a Redis: the settings under which acknowledged data survives a crash. The same for both services."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias

from hubbub_service_common.redis.address import Node
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["SETTINGS", "Durability", "Servers", "Settings", "Stakes", "faults"]

Settings: TypeAlias = Mapping[str, str] | None
"""A server's values of SETTINGS; None if it does not let us see them."""

SETTINGS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy", "min-replicas-to-write")
"""The settings that each server is asked for."""


class Stakes(NamedTuple):
    """What a wrong setting puts at risk, in a service's words."""

    acknowledged: str
    """What a crash loses, as in "A CRASH LOSES ACKNOWLEDGED ..."."""
    evicted: str
    """What happens when Redis deletes keys to make room."""


def faults(found: Settings, stakes: Stakes, replicas: int) -> list[str]:
    """What is wrong with these settings, and what to set instead. `replicas`: how many must have a write."""
    if found is None:
        return ["does not let us see its settings: make sure that it has appendonly yes and appendfsync always"]
    loses = f"LOSES ACKNOWLEDGED {stakes.acknowledged}"
    wrong = []
    if found["appendonly"] != "yes":
        wrong.append(f"keeps no append-only file: A CRASH {loses}. Set appendonly yes")
    elif found["appendfsync"] != "always":
        wrong.append(f"has appendfsync {found['appendfsync']}: A CRASH {loses}. Set appendfsync always")
    elif found["no-appendfsync-on-rewrite"] != "no":
        wrong.append(f"has no-appendfsync-on-rewrite: A CRASH DURING A REWRITE {loses}. Set it to no")
    if found["maxmemory-policy"] != "noeviction":
        wrong.append(f"has maxmemory-policy {found['maxmemory-policy']}: {stakes.evicted}. Set noeviction")
    if int(found["min-replicas-to-write"]) < replicas:
        wrong.append(f"takes writes with fewer than {replicas} replicas: set min-replicas-to-write {replicas}")
    return wrong


class Servers(Protocol):
    """The servers of a storage, as `RedisClient` reaches them. Both raise StorageError."""

    def primaries(self) -> list[Node]:
        """Every server that takes writes."""

    def ask(self, node: Node, *parts: str) -> Any:
        """One server's answer to a command."""


class Durability:
    """What is wrong with the servers of one storage, as last seen. Each change is logged once."""

    def __init__(self, log: logging.Logger, stakes: Stakes, replicas: int) -> None:
        self._log, self._stakes, self._replicas = log, stakes, replicas
        self._wrong: dict[Node, list[str]] = {}

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong."""
        return not any(self._wrong.values())

    def look(self, servers: Servers) -> None:
        """Check the settings of every server now. StorageError, and no change, if one can't be reached."""
        self.saw({node: self._settings(servers, node) for node in servers.primaries()})

    def _settings(self, servers: Servers, node: Node) -> Settings:
        for _ in range(2):  # a broken connection does not mean that the server hides its settings
            servers.ask(node, "PING")
            with suppress(StorageError, IndexError):
                return {name: servers.ask(node, "CONFIG", "GET", name)[1].decode() for name in SETTINGS}
        return None

    def saw(self, servers: Mapping[Node, Settings]) -> None:
        """Take the current settings of each server that takes writes. Log what is newly wrong, and when it is over."""
        wrong = {node: faults(found, self._stakes, self._replicas) for node, found in servers.items()}
        for node, said in wrong.items():
            before = self._wrong.get(node, [])
            for fault in said:
                if fault not in before:
                    self._log.warning("Redis at %s:%d %s", *node, fault)
            if before and not said:
                self._log.info("Redis at %s:%d is set to survive a crash again", *node)
        self._wrong = wrong
