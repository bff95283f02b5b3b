"""Loss mark in Redis: a running process notices by it that everything it had stored there is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hubbub_service_common.redis.calls_and_scripts import Part, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.storage.redis.layout_version import LAYOUT

__all__ = ["Mark"]

_LOG = logging.getLogger("hubbub_shuffler")


class Mark:
    """The mark is made once, by the first process that finds none. Every process remembers the mark that it found."""

    def __init__(self, client: RedisClient, key: bytes, entropy: Entropy) -> None:
        self._client, self._key, self._entropy = client, key, entropy
        self._known = self._find()

    def look(self, lost: Callable[[], None]) -> None:
        """If the mark is another one, log an error and call `lost`: what was stored before is gone, or has no record.

        If `lost` fails, the next look calls it again.
        """
        found = self._find()
        if found != self._known:
            _LOG.error("REDIS LOST DATA: IT CAME BACK WITHOUT THE REPORTS THAT WAITED THERE, WHICH WERE ACKNOWLEDGED")
            lost()
        self._known = found

    def _find(self) -> bytes:
        """The mark, made now if there is none."""
        found = self._client.one(command("HGET", self._key, "mark"), write=False)
        if found is not None:  # then nothing is written: a Redis without room would refuse
            return bytes(found)
        fields: dict[str, Part] = {"mark": self._entropy(16), "layout": LAYOUT}  # an empty Redis gets our layout
        make = [command("HSETNX", self._key, name, value) for name, value in fields.items()]
        *_, found = self._client.run([*make, command("HGET", self._key, "mark")], write=False)
        return bytes(found)
