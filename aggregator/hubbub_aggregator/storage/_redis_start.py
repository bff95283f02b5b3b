"""Looks at how Redis is set up, and says loudly what could lose or double what was acknowledged."""

from __future__ import annotations

import logging

from hubbub.problems import InvalidParameter
from hubbub_aggregator.storage._redis_keys import Keys
from hubbub_aggregator.storage._redis_link import Link, Node, command
from hubbub_aggregator.storage.protocol import StorageError

__all__ = ["claim", "warn_unless_durable"]

_LOG = logging.getLogger("hubbub.aggregator")
_LAYOUT = 1
_SETTINGS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy", "min-replicas-to-write")


def claim(link: Link, keys: Keys, anchor: str) -> None:
    """This Redis belongs to one identity, for good: two would sign against each other and open nothing."""
    fields: dict[str, str | int] = {"layout": _LAYOUT, "identity": anchor}
    link.run([command("HSETNX", keys.marks, name, value) for name, value in fields.items()])
    layout, identity = link.one(command("HMGET", keys.marks, "layout", "identity"), write=False)
    if int(layout) != _LAYOUT:
        raise InvalidParameter(f"this Redis was written by another version of this software (layout {int(layout)})")
    if identity.decode() != anchor:
        raise InvalidParameter(
            f"this Redis belongs to the aggregator with the trust anchor {identity.decode()}, and the identity key "
            f"here is that of {anchor}: copy identity.key from there, or use another Redis"
        )


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
        found = {name: link.ask(node, "CONFIG", "GET", name)[1].decode() for name in _SETTINGS}
    except (StorageError, IndexError):
        return ["does not let us see its settings: make sure that it has appendonly yes and appendfsync always"]
    faults = []
    if found["appendonly"] != "yes":
        faults.append("keeps no append-only file: A CRASH LOSES ACKNOWLEDGED BATCHES. Set appendonly yes")
    elif found["appendfsync"] != "always":
        faults.append(
            f"has appendfsync {found['appendfsync']}: A CRASH LOSES ACKNOWLEDGED BATCHES. Set appendfsync always"
        )
    elif found["no-appendfsync-on-rewrite"] != "no":
        faults.append("has no-appendfsync-on-rewrite: A CRASH DURING A REWRITE LOSES BATCHES. Set it to no")
    if found["maxmemory-policy"] != "noeviction":
        faults.append(
            f"has maxmemory-policy {found['maxmemory-policy']}: "
            "IT MAY DELETE NONCES, AND REPORTS WOULD COUNT TWICE. Set noeviction"
        )
    if int(found["min-replicas-to-write"]) < replicas:
        faults.append(f"takes writes with fewer than {replicas} replicas: set min-replicas-to-write {replicas}")
    return faults
