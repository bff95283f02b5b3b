"""How the address of a Redis begins. Nothing here loads the driver."""

from __future__ import annotations

__all__ = ["SCHEMES", "is_redis"]

SCHEMES = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")


def is_redis(where: str) -> bool:
    """Whether this is the address of a Redis."""
    return where.startswith(SCHEMES)
