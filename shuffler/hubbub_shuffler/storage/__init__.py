"""Storage of waiting reports: one Protocol, with SQLite and Redis as backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hubbub_service_common.redis.schemes import is_redis
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.storage.on_threads import AsyncStorage
from hubbub_shuffler.storage.protocol import (
    LONGEST_PAUSE,
    PIECE_BYTES,
    Arrivals,
    Batch,
    Bucket,
    BucketDamaged,
    BucketGone,
    Claim,
    Closed,
    Count,
    Damage,
    HeldBatch,
    NeedsRoom,
    Overview,
    Plan,
    Reason,
    Room,
    Storage,
    StorageError,
    Terms,
    Waiting,
)

__all__ = [
    "LONGEST_PAUSE",
    "PIECE_BYTES",
    "Arrivals",
    "AsyncStorage",
    "Batch",
    "Bucket",
    "BucketDamaged",
    "BucketGone",
    "Claim",
    "Closed",
    "Count",
    "Damage",
    "HeldBatch",
    "NeedsRoom",
    "Overview",
    "Plan",
    "Reason",
    "Room",
    "Storage",
    "StorageError",
    "Terms",
    "Waiting",
    "open_storage",
]


def open_storage(
    where: str | Path,
    *,
    clock: Callable[[], float],
    entropy: Entropy,
    forget_after: float = 30 * 86_400,
    replicas: int = 0,
    quota: int | None = None,
) -> AsyncStorage:
    """A file's path opens SQLite; a URL with one of Redis's schemes opens Redis.

    `clock`: of this process. `replicas`: how many replicas on other Redis servers must have a report before it is
    acknowledged. `quota`: bytes that the storage may use, on each primary of a Redis; the storage's own limits apply
    too. The driver of the other backend is not loaded.
    """
    if isinstance(where, str) and is_redis(where):
        from hubbub_shuffler.storage.redis.backend import RedisStorage

        return AsyncStorage(
            RedisStorage(where, clock=clock, entropy=entropy, forget_after=forget_after, replicas=replicas, quota=quota)
        )
    from hubbub_shuffler.storage.sqlite.backend import SqliteStorage

    return AsyncStorage(
        SqliteStorage(Path(where), clock=clock, entropy=entropy, forget_after=forget_after, quota=quota)
    )
