"""Looks at how Redis is set up, and says loudly what could lose an acknowledged report."""

from __future__ import annotations

import logging

from hubbub_shuffler.storage._redis_link import Link, Node
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["warn_unless_durable"]

_LOG = logging.getLogger("hubbub_shuffler")


def warn_unless_durable(link: Link, replicas: int) -> bool:
    """One warning for each fault of each server; whether there is none. StorageError if one can't be reached."""
    durable = True
    for node in link.primaries():
        link.ask(node, "PING")
        for fault in _faults(link, node, replicas):
            _LOG.warning("Redis at %s:%d %s", *node, fault)
            durable = False
    return durable


def _faults(link: Link, node: Node, replicas: int) -> list[str]:
    try:
        settings = {
            name: link.ask(node, "CONFIG", "GET", name)[1].decode()
            for name in (
                "appendonly",
                "appendfsync",
                "no-appendfsync-on-rewrite",
                "maxmemory-policy",
                "min-replicas-to-write",
            )
        }
    except (StorageError, IndexError):
        return ["does not let us see its settings: make sure that it has appendonly yes and appendfsync always"]
    found = []
    if settings["appendonly"] != "yes":
        found.append("keeps no append-only file: A CRASH LOSES ACKNOWLEDGED REPORTS. Set appendonly yes")
    elif settings["appendfsync"] != "always":
        found.append(
            f"has appendfsync {settings['appendfsync']}: A CRASH LOSES ACKNOWLEDGED REPORTS. Set appendfsync always"
        )
    elif settings["no-appendfsync-on-rewrite"] != "no":
        found.append("has no-appendfsync-on-rewrite: A CRASH DURING A REWRITE LOSES ACKNOWLEDGED REPORTS. Set it to no")
    if settings["maxmemory-policy"] != "noeviction":
        found.append(
            f"has maxmemory-policy {settings['maxmemory-policy']}: "
            "IT MAY DELETE REPORTS WHEN MEMORY IS SHORT. Set noeviction"
        )
    if int(settings["min-replicas-to-write"]) < replicas:
        found.append(f"takes writes with fewer than {replicas} replicas: set min-replicas-to-write {replicas}")
    return found
