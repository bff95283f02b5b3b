"""Startup check of a Redis: whose it is, and what is at stake if it is set up badly."""

from __future__ import annotations

from hubbub.errors import InvalidParameter
from hubbub_aggregator.storage.redis.key_names import Keys
from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.durability import Stakes
from hubbub_service_common.storage.kinds_and_errors import refuse_newer

__all__ = ["OTHERWISE", "STAKES", "claim"]

_LAYOUT = 2
"""2: headers say how many reports of the bucket are in other batches; opened and refused batches have records."""
OTHERWISE = "restore a backup made by this version into an empty Redis"
"""What to do about a storage that a newer version wrote."""
STAKES = Stakes("BATCHES", "IT MAY DELETE NONCES, AND REPORTS WOULD COUNT TWICE")


def claim(client: RedisClient, keys: Keys, anchor: str) -> None:
    """Claim this Redis for one identity, for good. Two would replace each other's bundles, and open nothing."""
    fields: dict[str, str | int] = {"layout": _LAYOUT, "identity": anchor}
    asked = command("HMGET", keys.marks, *fields)
    found = client.one(asked, write=False)
    # write only what is missing: an aggregator must be able to start on a full Redis
    missing = [name for name, value in zip(fields, found, strict=True) if value is None]
    if missing:
        client.run([command("HSETNX", keys.marks, name, fields[name]) for name in missing])
        found = client.one(asked, write=False)
    client.one(command("HDEL", keys.marks, ""))  # changes nothing, and fails unless the replicas are there
    layout, identity = found
    refuse_newer(int(layout), _LAYOUT, OTHERWISE)
    if int(layout) < _LAYOUT:
        raise InvalidParameter(
            f"this Redis was written by another version of this software (layout {int(layout)}; this one knows "
            f"{_LAYOUT}): install that version again, or restore a backup made by this version into an empty Redis"
        )
    if identity.decode() != anchor:
        raise InvalidParameter(
            f"this Redis belongs to the aggregator with the trust anchor {identity.decode()}, but the identity key "
            f"here is that of {anchor}: copy identity.key from there, or use another Redis"
        )
