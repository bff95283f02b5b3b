"""How Redis is set up, at the start and now and then: what could lose an acknowledged report is said loudly."""

from __future__ import annotations

import logging
from contextlib import suppress

from hubbub.durability import SETTINGS, Durability, Settings, Stakes
from hubbub_shuffler.storage._redis_link import Link, Node
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["durability", "look"]

_STAKES = Stakes("REPORTS", "IT MAY DELETE REPORTS WHEN MEMORY IS SHORT")


def durability(replicas: int) -> Durability:
    """What is known of the servers of a storage; nothing yet."""
    return Durability(logging.getLogger("hubbub_shuffler"), _STAKES, replicas)


def look(link: Link, known: Durability) -> None:
    """See how every server is set up now; StorageError if one can't be reached."""
    known.saw({node: _settings(link, node) for node in link.primaries()})


def _settings(link: Link, node: Node) -> Settings:
    for _ in range(2):  # a connection that breaks meanwhile is no server that hides its settings
        link.ask(node, "PING")
        with suppress(StorageError, IndexError):
            return {name: link.ask(node, "CONFIG", "GET", name)[1].decode() for name in SETTINGS}
    return None
