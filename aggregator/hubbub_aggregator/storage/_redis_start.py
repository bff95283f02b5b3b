"""Whose Redis it is, and how it is set up: what could lose or double what was acknowledged is said loudly."""

from __future__ import annotations

import logging
from contextlib import suppress

from hubbub.durability import SETTINGS, Durability, Settings, Stakes
from hubbub.problems import InvalidParameter
from hubbub_aggregator.storage._redis_keys import Keys
from hubbub_aggregator.storage._redis_link import Link, Node, command
from hubbub_aggregator.storage.protocol import StorageError

__all__ = ["claim", "durability", "look"]

_LAYOUT = 1
_STAKES = Stakes("BATCHES", "IT MAY DELETE NONCES, AND REPORTS WOULD COUNT TWICE")


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


def durability(replicas: int) -> Durability:
    """What is known of the servers of a storage; nothing yet."""
    return Durability(logging.getLogger("hubbub.aggregator"), _STAKES, replicas)


def look(link: Link, known: Durability) -> None:
    """See how every server is set up now; StorageError if one can't be reached."""
    known.saw({node: _settings(link, node) for node in link.primaries()})


def _settings(link: Link, node: Node) -> Settings:
    for _ in range(2):  # a connection that breaks meanwhile is no server that hides its settings
        link.ask(node, "PING")
        with suppress(StorageError, IndexError):
            return {name: link.ask(node, "CONFIG", "GET", name)[1].decode() for name in SETTINGS}
    return None
