"""The layout of what is in a Redis: an older one is brought up to date, a newer one is left alone."""

from __future__ import annotations

from collections.abc import Callable

from hubbub_service_common.redis.calls import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage import refuse_newer
from hubbub_shuffler.storage._redis_keys import Keys
from hubbub_shuffler.storage._redis_scripts import Scripts
from hubbub_shuffler.storage._schema import OTHERWISE

__all__ = ["LAYOUT", "UPGRADES", "take_over"]

LAYOUT = 2
_FIRST = 1
"""Of a Redis that was written before layouts were numbered."""
UPGRADES: dict[int, Callable[[RedisClient, Keys], None]] = {1: lambda _client, _keys: None}
"""What makes the layout after this one of it. Each bears being done twice, also by two processes at once.

2 added `crowds` and `held`, which an older software would not heed: there is nothing to do but to keep that one out.
"""


def take_over(client: RedisClient, keys: Keys, scripts: Scripts) -> None:
    """Make sure that the layout is ours; StorageError if it is a newer software's."""
    # no WAIT: a replica that lacks the layout lacks nothing that was acknowledged
    (found,) = client.run([scripts.layout(keys.signs, _FIRST, LAYOUT)], write=False)
    refuse_newer(int(found), LAYOUT, OTHERWISE)
    for old in range(int(found), LAYOUT):
        UPGRADES[old](client, keys)
        client.run([command("HSET", keys.mark, "layout", old + 1)])
