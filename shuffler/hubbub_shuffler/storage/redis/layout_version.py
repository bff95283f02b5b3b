"""Version of the layout in Redis: an older layout is brought up to date, a newer one is left alone."""

from __future__ import annotations

from collections.abc import Callable

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import refuse_newer
from hubbub_shuffler.storage.protocol import OTHERWISE
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys
from hubbub_shuffler.storage.redis.scripts import Scripts

__all__ = ["LAYOUT", "UPGRADES", "take_over"]

LAYOUT = 3
_FIRST = 1
"""The layout of a Redis that was written before layouts were numbered."""


def _keep_tombstones(client: RedisClient, keys: Keys) -> None:
    """Remove the expiry from records of closed shards: a wrong clock of the server could end it early."""
    for state in ("spent", "erased", "gone"):
        (members,) = client.run([command("ZRANGE", keys.listing(state), 0, -1)], write=False)
        for member in members:
            shards = [keys.shard(member.decode(), number) for number in range(SHARDS)]
            client.run([command("PERSIST", shard) for shard in shards])


UPGRADES: dict[int, Callable[[RedisClient, Keys], None]] = {1: lambda _client, _keys: None, 2: _keep_tombstones}
"""By layout: the step that leads to the next one. Each step may run twice, even in two processes at once.

2 added `crowds` and `held`, which older software would ignore: there is nothing to do but to keep older software out.
3 added held batches, which older software would delete.
"""


def take_over(client: RedisClient, keys: Keys, scripts: Scripts) -> None:
    """Make sure that the layout is ours; StorageError if newer software wrote it."""
    # no WAIT: a replica that lacks the layout lacks nothing that was acknowledged
    (found,) = client.run([scripts.layout(keys.signs, _FIRST, LAYOUT)], write=False)
    refuse_newer(int(found), LAYOUT, OTHERWISE)
    for old in range(int(found), LAYOUT):
        UPGRADES[old](client, keys)
        client.run([scripts.upgraded((keys.mark,), old + 1)])
