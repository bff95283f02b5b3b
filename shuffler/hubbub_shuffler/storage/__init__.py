"""Where reports wait for their crowd: one Protocol, one backend per file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hubbub_shuffler.permute import Entropy
from hubbub_shuffler.storage.protocol import (
    LONGEST_PAUSE,
    PIECE_BYTES,
    Arrivals,
    Batch,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    Count,
    Overview,
    Plan,
    Reason,
    Storage,
    StorageError,
    Terms,
    Waiting,
)

__all__ = [
    "LONGEST_PAUSE",
    "PIECE_BYTES",
    "Arrivals",
    "Batch",
    "Bucket",
    "BucketGone",
    "Claim",
    "Closed",
    "Count",
    "Overview",
    "Plan",
    "Reason",
    "Storage",
    "StorageError",
    "Terms",
    "Waiting",
    "open_storage",
]

REDIS_SCHEMES = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")


def open_storage(
    where: str | Path,
    *,
    clock: Callable[[], float],
    entropy: Entropy,
    forget_after: float = 30 * 86_400,
    replicas: int = 0,
) -> Storage:
    """A file's path opens SQLite; `redis://`, `rediss://` and `redis+cluster://` open Redis.

    `replicas`: how many copies on other Redis servers must have a report before it is acknowledged.
    The driver of the other backend is not loaded.
    """
    if isinstance(where, str) and where.startswith(REDIS_SCHEMES):
        from hubbub_shuffler.storage.redis import RedisStorage

        return RedisStorage(where, entropy=entropy, forget_after=forget_after, replicas=replicas)
    from hubbub_shuffler.storage.sqlite import SqliteStorage

    return SqliteStorage(Path(where), clock=clock, entropy=entropy, forget_after=forget_after)
