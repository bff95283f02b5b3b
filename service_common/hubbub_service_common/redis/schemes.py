"""URL schemes of a Redis address. Nothing here loads the driver."""

from __future__ import annotations

__all__ = ["FORMS", "SCHEMES", "is_redis"]

SCHEMES = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")
FORMS = "redis://user:password@host:port/0, rediss://..., redis+cluster://... or rediss+cluster://..."
"""The forms of an address, for messages."""


def is_redis(where: str) -> bool:
    """Whether this is the address of a Redis."""
    return where.startswith(SCHEMES)
