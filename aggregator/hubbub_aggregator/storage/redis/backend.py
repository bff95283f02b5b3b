"""Redis, one server or a cluster: for several aggregator processes on one or many machines.

docs/design/aggregator-storage.md has the layout and says why every crash between two steps is harmless.
"""

from __future__ import annotations

import logging

from hubbub_aggregator.storage.protocol import Bodies
from hubbub_aggregator.storage.redis.bodies import RedisBodies
from hubbub_aggregator.storage.redis.codebooks_and_keys import RedisRegistry
from hubbub_aggregator.storage.redis.erase import Eraser
from hubbub_aggregator.storage.redis.identity_claim import STAKES, claim
from hubbub_aggregator.storage.redis.key_names import Keys
from hubbub_aggregator.storage.redis.releases import RedisReleases
from hubbub_service_common.redis.calls_and_scripts import Call, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.durability import Durability
from hubbub_service_common.storage.kinds_and_errors import StorageError, StorageKind

__all__ = ["RedisStorage"]

_LOG = logging.getLogger("hubbub_aggregator")


class RedisStorage(RedisReleases):
    """A `Storage` that belongs to one identity: `anchor` names it, `secret` encrypts its sealing keys."""

    kind: StorageKind = "redis"
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
        super().__init__(RedisClient(url, replicas=replicas, timeout=timeout), Keys(prefix))
        registry, eraser = RedisRegistry(self._client, self._keys, secret), Eraser(self._client, self._keys, self)
        self.codebooks, self.starts, self.add_codebook = registry.codebooks, registry.starts, registry.add_codebook
        self.move_codebook = registry.move_codebook
        self.switched_off, self.switch = registry.switched_off, registry.switch
        self.sealing_keys, self.add_key = registry.sealing_keys, registry.add_key
        self.revoke_key, self.drop_key = registry.revoke_key, registry.drop_key
        self.bundle, self.publish = registry.bundle, registry.publish
        self.remembered, self.remember = registry.remembered, registry.remember
        self.forget, self.scrub = eraser.forget, eraser.scrub
        self.bodies = RedisBodies(self._client, self._keys)
        self._durability = Durability(_LOG, STAKES, replicas)
        try:
            self.inspect()
            claim(self._client, self._keys, anchor)
        except BaseException:
            self._client.close()
            raise

    def time(self) -> float | None:
        try:
            seconds, micros = self._client.one(Call(self._keys.codebooks, ("TIME",)), write=False)
        except StorageError:
            return None  # TIME may be forbidden; if the storage is away, other calls say so
        return int(seconds) + int(micros) / 1e6

    def size(self) -> int | None:
        try:
            return sum(int(self._client.info(node, "memory")["used_memory"]) for node in self._client.primaries())
        except (StorageError, KeyError):
            return None  # servers may forbid INFO

    @property
    def durable(self) -> bool:
        return self._durability.holds

    def inspect(self) -> None:
        self._durability.look(self._client)

    def check(self) -> None:
        self._client.one(command("SET", self._keys.probe, "1"))

    def close(self) -> None:
        self._client.close()
