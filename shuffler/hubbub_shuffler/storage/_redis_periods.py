"""What Redis knows of periods beside their reports: what begun ones are held to, and how large the last crowds were."""

from __future__ import annotations

from hubbub_shuffler.storage._redis_keys import Keys
from hubbub_shuffler.storage._redis_link import Link
from hubbub_shuffler.storage._redis_scripts import Scripts, command

__all__ = ["Periods"]


class Periods:
    """All in the control slot, each step one script."""

    def __init__(self, link: Link, keys: Keys, scripts: Scripts) -> None:
        self._link, self._keys, self._scripts = link, keys, scripts

    def halved(self, name: str, period: int, reports: int) -> bool:
        # sent again after a lost answer it says no, and has counted all the same
        call = self._scripts.halved((self._keys.crowds, self._keys.counts), name, period, reports)
        return self._link.run([call], again=True) == [1]

    def held(self) -> bytes:
        (kept,) = self._link.run([command(self._keys.held, "GET", self._keys.held)], again=True, write=False)
        return bytes(kept or b"")

    def hold(self, before: bytes, after: bytes) -> bool:
        return self._link.run([self._scripts.hold_periods((self._keys.held,), before, after)], again=True) == [1]
