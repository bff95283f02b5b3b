"""Redis, one server or a cluster: for several aggregator processes on one or many machines.

docs/design/aggregator-storage.md has the layout and says why every crash between two steps is harmless.
"""

from __future__ import annotations

import logging
import re

from hubbub_aggregator.storage._redis_bodies import RedisBodies
from hubbub_aggregator.storage._redis_erase import Eraser
from hubbub_aggregator.storage._redis_keys import Keys
from hubbub_aggregator.storage._redis_link import Link, command
from hubbub_aggregator.storage._redis_registry import RedisRegistry
from hubbub_aggregator.storage._redis_releases import RedisReleases
from hubbub_aggregator.storage._redis_start import STAKES, claim
from hubbub_aggregator.storage.protocol import Bodies, SignedBundle, StorageError, StoredCodebook, StoredKey
from hubbub_service_common.redis.durability import Durability

__all__ = ["RedisStorage"]

_LOG = logging.getLogger("hubbub.aggregator")


class RedisStorage(RedisReleases):
    """A `Storage` that belongs to one identity: `anchor` names it, `secret` encrypts its sealing keys."""

    bodies: Bodies | None

    def __init__(
        self,
        url: str,
        *,
        anchor: str,
        secret: bytes,
        replicas: int = 0,
        timeout: float = 5.0,
        prefix: str = "hubbub-aggregator",
    ) -> None:
        super().__init__(Link(url, replicas=replicas, timeout=timeout), Keys(prefix))
        self._registry = RedisRegistry(self._link, self._keys, secret)
        self._eraser = Eraser(self._link, self._keys, self)
        self.bodies = RedisBodies(self._link, self._keys)
        self._durability = Durability(_LOG, STAKES, replicas, StorageError)
        try:
            self.inspect()
            claim(self._link, self._keys, anchor)
        except BaseException:
            self._link.close()
            raise

    def codebooks(self) -> list[StoredCodebook]:
        return self._registry.codebooks()

    def starts(self) -> list[int]:
        return self._registry.starts()

    def add_codebook(self, codebook: StoredCodebook) -> bool:
        return self._registry.add_codebook(codebook)

    def sealing_keys(self) -> list[StoredKey]:
        return self._registry.sealing_keys()

    def add_key(self, key: StoredKey, *, instead_of: int | None = None) -> None:
        self._registry.add_key(key, instead_of=instead_of)

    def revoke_key(self, id: int) -> None:  # noqa: A002  it is an id
        self._registry.revoke_key(id)

    def forget(self, through: int) -> bool:
        return self._eraser.forget(through)

    def scrub(self) -> bool:
        return self._eraser.scrub()

    def bundle(self) -> SignedBundle | None:
        return self._registry.bundle()

    def publish(self, bundle: SignedBundle, last: int | None) -> bool:
        return self._registry.publish(bundle, last)

    def remembered(self, question: str) -> int | None:
        return self._registry.remembered(question)

    def remember(self, question: str, answer: int) -> None:
        self._registry.remember(question, answer)

    def size(self) -> int | None:
        try:
            found = [self._link.ask(node, "INFO", "memory") for node in self._link.primaries()]
        except StorageError:
            return None  # servers may forbid INFO
        used = [re.search(rb"used_memory:([0-9]+)", bytes(text)) for text in found]
        return sum(int(one[1]) for one in used if one)

    @property
    def durable(self) -> bool:
        return self._durability.holds

    def inspect(self) -> None:
        self._durability.look(self._link)

    def check(self) -> None:
        self._link.one(command("SET", self._keys.probe, "1"))

    def close(self) -> None:
        self._link.close()
