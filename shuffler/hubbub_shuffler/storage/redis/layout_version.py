"""The layout of what is in a Redis: an older one is brought up to date, a newer one is left alone."""

from __future__ import annotations

from collections.abc import Callable

from hubbub_service_common.redis.calls import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds import refuse_newer
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys
from hubbub_shuffler.storage.redis.scripts import Scripts
from hubbub_shuffler.storage.sqlite.schema import OTHERWISE

__all__ = ["LAYOUT", "UPGRADES", "take_over"]

LAYOUT = 3
_FIRST = 1
"""Of a Redis that was written before layouts were numbered."""


def _keep_tombstones(client: RedisClient, keys: Keys) -> None:
    """That a shard was closed does not lapse any more: the server's clock could make it."""
    for state in ("spent", "erased", "gone"):
        (members,) = client.run([command("ZRANGE", keys.listing(state), 0, -1)], write=False)
        for member in members:
            shards = [keys.shard(member.decode(), number) for number in range(SHARDS)]
            client.run([command("PERSIST", shard) for shard in shards])


UPGRADES: dict[int, Callable[[RedisClient, Keys], None]] = {1: lambda _client, _keys: None, 2: _keep_tombstones}
"""What makes the layout after this one of it. Each bears being done twice, also by two processes at once.

2 added `crowds` and `held`, which an older software would not heed: there is nothing to do but to keep that one out.
3 added batches that are held, which an older software would delete.
"""


def take_over(client: RedisClient, keys: Keys, scripts: Scripts) -> None:
    """Make sure that the layout is ours; StorageError if it is a newer software's."""
    # no WAIT: a replica that lacks the layout lacks nothing that was acknowledged
    (found,) = client.run([scripts.layout(keys.signs, _FIRST, LAYOUT)], write=False)
    refuse_newer(int(found), LAYOUT, OTHERWISE)
    for old in range(int(found), LAYOUT):
        UPGRADES[old](client, keys)
        client.run([scripts.upgraded((keys.mark,), old + 1)])
