"""When a bucket of the SQLite file is mended: once it could not be read twice, then over a new connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock

from hubbub_service_common.sqlite import as_storage_error, connect
from hubbub_shuffler.storage import _sqlite_damage as damage
from hubbub_shuffler.storage.protocol import Bucket, BucketDamaged, StorageError

__all__ = ["Repair"]

_LOG = logging.getLogger("hubbub_shuffler")


class Repair:
    """Buckets under suspicion. `after`: seconds between the first look and the one that decides."""

    def __init__(self, path: Path, after: float) -> None:
        self._path, self._after, self._lock = path, after, Lock()
        self._suspects: dict[Bucket, float] = {}
        self._hopeless: set[Bucket] = set()

    @contextmanager
    def watching(self, buckets: Iterable[Bucket]) -> Iterator[None]:
        """Note that one of these can't be read, if so."""
        try:
            yield
        except StorageError as error:
            if isinstance(error, BucketDamaged) or damage.is_damage(error.__cause__):
                with self._lock:
                    for bucket in buckets:
                        self._suspects.setdefault(bucket, time.monotonic())
            raise

    @staticmethod
    def missing() -> BucketDamaged:
        return BucketDamaged("THE STORAGE LOST DATA: reports of a closed bucket are not there any more")

    def salvage(self) -> None:
        """Look again at what is suspected for long enough: what is readable goes on, the rest is said to be lost."""
        now = time.monotonic()
        with self._lock:
            due = [bucket for bucket, since in self._suspects.items() if now - since >= self._after]
        for bucket in due:
            found = self.mend(bucket)
            with self._lock:
                self._suspects.pop(bucket, None)
            if found is not None:
                self._tell(found)

    def find(self) -> list[damage.Damage]:
        """All that is wrong now, after a look at every report that waits."""
        with as_storage_error(), closing(connect(self._path)) as db:
            return [found for bucket in damage.buckets(db) if (found := damage.find(db, bucket))]

    def remains(self) -> int:
        """Tables that can't be deleted, and stay in the file."""
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.remains(db)

    def mend(self, bucket: Bucket) -> damage.Damage | None:
        """Let what can be read of it go on, without waiting for a second look; what was wrong with it, if anything."""
        with (
            as_storage_error(),
            closing(connect(self._path)) as writer,
            closing(connect(self._path)) as reader,
        ):
            return damage.salvage(writer, reader, bucket)

    def discard(self, bucket: Bucket) -> int:
        """Give it up, and count it as lost; how many reports that were."""
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.discard(db, bucket)

    def _tell(self, found: damage.Damage) -> None:
        if not found.on_its_way:
            _LOG.error(
                "DAMAGED PAGES: %d of %d reports of a bucket of %s can't be read and ARE LOST. The others go on",
                *(found.lost, found.reports, found.name),
            )
        elif found.bucket not in self._hopeless:
            self._hopeless.add(found.bucket)
            _LOG.error(
                "DAMAGED PAGES: a bucket of %s can't be read, and the aggregator may have a part of it. It holds up no "
                "other. Give it up with `hubbub shuffler damaged discard`",
                found.name,
            )
