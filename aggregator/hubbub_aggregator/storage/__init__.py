"""What the aggregator remembers: one protocol, and the backends that implement it."""

from __future__ import annotations

from pathlib import Path

from hubbub_aggregator.storage.protocol import (
    Accepted,
    Batch,
    Bodies,
    KeyTaken,
    Outcome,
    Release,
    SignedBundle,
    State,
    Storage,
    StorageError,
    StoredCodebook,
    StoredKey,
)
from hubbub_aggregator.storage.sqlite.backend import SqliteStorage
from hubbub_service_common.redis.schemes import is_redis

__all__ = [
    "Accepted",
    "Batch",
    "Bodies",
    "KeyTaken",
    "Outcome",
    "Release",
    "SignedBundle",
    "SqliteStorage",
    "State",
    "Storage",
    "StorageError",
    "StoredCodebook",
    "StoredKey",
    "open_storage",
]


def open_storage(where: str | Path, *, anchor: str, secret: bytes, replicas: int = 0) -> Storage:
    """A file's path opens SQLite; `redis://`, `rediss://` and `redis+cluster://` open Redis.

    A Redis belongs to one identity: `anchor` names it, and `secret` encrypts its sealing keys there. `replicas`: how
    many other Redis servers must have a change before it is acknowledged. The Redis driver is loaded only for Redis.
    """
    if isinstance(where, str) and is_redis(where):
        from hubbub_aggregator.storage.redis.backend import RedisStorage

        return RedisStorage(where, anchor=anchor, secret=secret, replicas=replicas)
    return SqliteStorage(Path(where))
