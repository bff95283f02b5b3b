"""When a damaged bucket is mended: once it could not be read twice, some time apart. The same for every backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from hubbub_shuffler.storage.protocol import Bucket, BucketDamaged, Damage, Repairs, StorageError

__all__ = ["Mender", "Repair"]

_LOG = logging.getLogger("hubbub_shuffler")


class Mender(Repairs, Protocol):
    """How a backend does it."""

    def look_at(self, bucket: Bucket) -> Damage | None:
        """What is wrong with it, after a look at every report of it. Nobody has to wait for it."""
        ...

    def is_on_its_way(self, bucket: Bucket) -> bool:
        """As in `Damage`. Costs next to nothing."""
        ...


class Repair:
    """Buckets under suspicion. `after`: seconds between the first look and the one that decides."""

    def __init__(
        self, mender: Mender, after: float, *, is_damage: Callable[[BaseException | None], bool] = lambda _: False
    ) -> None:
        """`is_damage`: whether this cause of a StorageError means that reports can't be read."""
        self._mender, self._after, self._is_damage, self._lock = mender, after, is_damage, Lock()
        self.find, self.mend, self.discard, self.remains = mender.find, mender.mend, mender.discard, mender.remains
        self._suspects: dict[Bucket, float] = {}
        self._hopeless: set[Bucket] = set()
        """On their way and damaged, which was said. They are not read again and again."""

    @contextmanager
    def watching(self, buckets: Iterable[Bucket]) -> Iterator[None]:
        """Note that one of these can't be read, if so."""
        try:
            yield
        except StorageError as error:
            if isinstance(error, BucketDamaged) or self._is_damage(error.__cause__):
                with self._lock:
                    for bucket in set(buckets) - self._hopeless:
                        self._suspects.setdefault(bucket, time.monotonic())
            raise

    def salvage(self) -> None:
        """Look again at what is suspected for long enough: what is readable goes on, the rest is said to be lost."""
        now = time.monotonic()
        with self._lock:
            due = [bucket for bucket, since in self._suspects.items() if now - since >= self._after]
            hopeless = list(self._hopeless)
        for bucket in due:
            found = self._mender.mend(bucket)
            if found is not None and found.on_its_way:
                found = self._mender.look_at(bucket)  # it reads all of it, so nobody may have to wait for that
            if found is not None:
                self._tell(found)
            with self._lock:
                self._suspects.pop(bucket, None)
                if found is not None and found.on_its_way:
                    self._hopeless.add(bucket)
        for bucket in hopeless:
            if not self._mender.is_on_its_way(bucket):  # it came back, or it is done with
                with self._lock:
                    self._hopeless.discard(bucket)

    def _tell(self, found: Damage) -> None:
        if not found.on_its_way:
            _LOG.error(
                "DAMAGED: %d of %d reports of a bucket of %s can't be read and ARE LOST. The others go on",
                *(found.lost, found.reports, found.name),
            )
        else:
            _LOG.error(
                "DAMAGED: a bucket of %s can't be read, and the aggregator may have a part of it. It holds up no "
                "other. Give it up with `hubbub shuffler damaged discard`",
                found.name,
            )
