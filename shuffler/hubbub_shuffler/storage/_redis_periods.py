"""What Redis knows of periods beside their reports: what begun ones are held to, and how large the last crowds were.

All in the control slot, each step one script.
"""

from __future__ import annotations

from hubbub_shuffler.storage._redis_keys import Keys
from hubbub_shuffler.storage._redis_link import Link
from hubbub_shuffler.storage._redis_scripts import Scripts, command

__all__ = ["held", "hold", "note_crowd"]


def note_crowd(link: Link, keys: Keys, scripts: Scripts, name: str, period: int, reports: int) -> bool:
    # sent again after a lost answer it says no, and has counted all the same
    return link.run([scripts.halved((keys.crowds, keys.counts), name, period, reports)], again=True) == [1]


def held(link: Link, keys: Keys) -> bytes:
    (kept,) = link.run([command(keys.held, "GET", keys.held)], again=True, write=False)
    return bytes(kept or b"")


def hold(link: Link, keys: Keys, scripts: Scripts, before: bytes, after: bytes) -> bool:
    return link.run([scripts.hold_periods((keys.held,), before, after)], again=True) == [1]
