"""Room for reports in Redis. The fullest primary decides, since each group commit may go to any of them.

Room is kept free for what must be written before anything can leave. For a bucket that is eight closed shards, its
listings and a few batches: below 8 KiB, and 1 KiB for each further batch. A share of the whole is kept in addition, for
further batches and for buffers of connections.
"""

from __future__ import annotations

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.memory import base_of
from hubbub_service_common.storage.free_space import Room, headroom
from hubbub_shuffler.storage.redis.key_names import Keys

__all__ = ["room_of"]

_PER_BUCKET = 8 * 2**10
_SHARE = 8
_NOT_GONE = ("open", "closing", "closed", "planned")


def room_of(client: RedisClient, keys: Keys, quota: int | None) -> Room | None:
    """The room of the fullest primary; None if no primary has a `maxmemory` and there is no quota."""
    rooms: list[Room] = []
    waiting: int | None = None
    for (used, maxmemory), base in base_of(client):
        limits = [limit for limit in (maxmemory, quota) if limit]
        if not limits:
            continue
        if waiting is None:
            waiting = sum(client.run([command("ZCARD", keys.listing(state)) for state in _NOT_GONE], write=False))
        limit = min(limits)
        margin = headroom(limit, _SHARE)
        left = limit - margin - waiting * _PER_BUCKET - used
        rooms.append(Room(used, limit, left, margin // 2, max(0, limit - margin - base)))
    return min(rooms, key=lambda room: room.left, default=None)
