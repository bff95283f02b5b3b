"""The layout of what is in a Redis: an older one is brought up to date, a newer one is left alone."""

from __future__ import annotations

from collections.abc import Callable

from hubbub_shuffler.storage._redis_keys import Keys
from hubbub_shuffler.storage._redis_link import Link
from hubbub_shuffler.storage._redis_scripts import Scripts, command
from hubbub_shuffler.storage._version import FIRST, refuse_newer

__all__ = ["LAYOUT", "UPGRADES", "take_over"]

LAYOUT = 2
UPGRADES: dict[int, Callable[[Link, Keys], None]] = {1: lambda _link, _keys: None}
"""What makes the layout after this one of it. Each bears being done twice, also by two processes at once.

2 added `crowds` and `held`, which an older software would not heed: there is nothing to do but to keep that one out.
"""


def take_over(link: Link, keys: Keys, scripts: Scripts) -> None:
    """Make sure that the layout is ours; StorageError if it is a newer software's."""
    # no WAIT: a replica that lacks the layout lacks nothing that was acknowledged
    (found,) = link.run([scripts.layout(keys.signs, FIRST, LAYOUT)], again=True, write=False)
    refuse_newer(int(found), LAYOUT)
    for old in range(int(found), LAYOUT):
        UPGRADES[old](link, keys)
        link.run([command(keys.mark, "HSET", keys.mark, "layout", old + 1)], again=True)
