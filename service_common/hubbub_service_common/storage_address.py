"""What a setting may say about where a storage is."""

from __future__ import annotations

__all__ = ["REDIS_FORMS", "REDIS_SCHEMES", "is_redis"]

REDIS_SCHEMES = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")
REDIS_FORMS = "redis://user:password@host:port/0, rediss://..., redis+cluster://... or rediss+cluster://..."
"""For messages."""


def is_redis(where: str) -> bool:
    """Whether this is the address of a Redis."""
    return where.startswith(REDIS_SCHEMES)
