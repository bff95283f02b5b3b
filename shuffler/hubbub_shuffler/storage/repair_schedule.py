"""Schedule of repairs: a damaged bucket is mended after it could not be read twice, some time apart.

The same for every backend.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from hubbub_service_common.process.clock_and_entropy import monotonic
from hubbub_service_common.storage.kinds_and_errors import StorageAway
from hubbub_shuffler.storage.protocol import Bucket, BucketDamaged, Damage, Repairs, StorageError

__all__ = ["Mender", "Repair"]

_LOG = logging.getLogger("hubbub_shuffler")
_AGAIN = 10.0
"""Most seconds until a bucket that could not be mended is tried again. A try may have to read the whole bucket."""


class Mender(Repairs, Protocol):
    """Repairs as a backend does them."""

    def look_at(self, bucket: Bucket) -> Damage | None:
        """What is wrong with a bucket, after a look at all its reports. No other call has to wait for it."""
        ...

    def is_on_its_way(self, bucket: Bucket) -> bool:
        """See `Damage.on_its_way`. Costs next to nothing."""
        ...


class Repair:
    """Buckets under suspicion. `after`: seconds between the first look and the one that decides."""

    def __init__(
        self, mender: Mender, after: float, *, is_damage: Callable[[BaseException | None], bool] = lambda _: False
    ) -> None:
        """`is_damage`: whether a cause of a StorageError means that reports can't be read."""
        self._mender, self._after, self._is_damage, self._lock = mender, after, is_damage, Lock()
        self.find, self.mend, self.discard, self.remains = mender.find, mender.mend, mender.discard, mender.remains
        self._suspects: dict[Bucket, float] = {}
        """When each suspected bucket is due for the look that decides."""
        self._put_offs: dict[Bucket, type[StorageError]] = {}
        """Buckets that could not be mended, and the kind of error. The log has said so."""
        self._hopeless: set[Bucket] = set()
        """Buckets that are damaged and on their way. The log has said so, and they are not read again."""

    @contextmanager
    def watching(self, buckets: Iterable[Bucket]) -> Iterator[None]:
        """Suspect these buckets if one can't be read within."""
        try:
            yield
        except StorageError as error:
            if isinstance(error, BucketDamaged) or self._is_damage(error.__cause__):
                named = error.bucket if isinstance(error, BucketDamaged) else None
                self.suspect(set(buckets) if named is None else {named})
            raise

    def suspect(self, buckets: Iterable[Bucket]) -> None:
        """Look at these buckets again after a while, and mend what is wrong then."""
        with self._lock:
            for bucket in set(buckets) - self._hopeless:
                self._suspects.setdefault(bucket, monotonic() + self._after)

    def salvage(self) -> None:
        """Look again at buckets that have been suspected for long enough. Readable reports go on, and the rest is
        logged as lost.

        A bucket that can't be mended now is logged, and holds up no other.
        """
        now = monotonic()
        with self._lock:
            due = [bucket for bucket, at in self._suspects.items() if now >= at]
            hopeless = list(self._hopeless)
        for bucket in due:
            try:
                self._mend(bucket)
            except StorageAway:
                raise  # not the fault of a bucket
            except StorageError as error:
                self._put_off(bucket, error)
        for bucket in hopeless:
            if not self._mender.is_on_its_way(bucket):  # its reports came back, or it is finished
                with self._lock:
                    self._hopeless.discard(bucket)

    def _mend(self, bucket: Bucket) -> None:
        found = self._mender.mend(bucket)
        if found is not None and found.on_its_way:
            found = self._mender.look_at(bucket)  # this reads the whole bucket, and lets no other call wait
        if found is not None:
            self._tell(found)
        with self._lock:
            self._suspects.pop(bucket, None)
            self._put_offs.pop(bucket, None)
            if found is not None and found.on_its_way:
                self._hopeless.add(bucket)

    def _put_off(self, bucket: Bucket, error: StorageError) -> None:
        with self._lock:
            self._suspects[bucket] = monotonic() + min(self._after, _AGAIN)
            said, self._put_offs[bucket] = self._put_offs.get(bucket), type(error)
        if said is not type(error):
            _LOG.error("DAMAGED: a bucket can't be mended now, and is tried again: %s", error)

    def _tell(self, found: Damage) -> None:
        if not found.on_its_way and not found.lost:
            _LOG.error("DAMAGED: the batch of a bucket of %s is missing. Its reports get another one", found.name)
        elif not found.on_its_way:
            _LOG.error(
                "DAMAGED: %d of %d reports of a bucket of %s can't be read and ARE LOST. The others go on",
                *(found.lost, found.reports, found.name),
            )
        else:
            _LOG.error(
                "DAMAGED: a bucket of %s can't be read, and the aggregator may have a part of it. No other bucket is "
                "held up. Give it up with `hubbub shuffler damaged discard`",
                found.name,
            )
