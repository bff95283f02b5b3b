"""Loss mark in Redis: a running process notices by it that everything it had stored there is gone."""

from __future__ import annotations

import logging

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

    def look(self) -> None:
        """Log an error if the mark is another one: all reports that were acknowledged before and had not left are
        lost."""
        found = self._find()
        if found != self._known:
            _LOG.error("REDIS LOST DATA: IT CAME BACK WITHOUT THE REPORTS THAT WAITED THERE, WHICH WERE ACKNOWLEDGED")
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
