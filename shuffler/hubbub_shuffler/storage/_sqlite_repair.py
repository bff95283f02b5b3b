"""Repair of the SQLite file, each time over new connections: what one has read before it would not read again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hubbub_service_common.sqlite import as_storage_error, connect
from hubbub_shuffler.storage import _sqlite_damage as damage
from hubbub_shuffler.storage.protocol import Bucket, BucketDamaged, Damage

__all__ = ["SqliteMender", "missing"]


def missing() -> BucketDamaged:
    return BucketDamaged("THE STORAGE LOST DATA: reports of a closed bucket are not there any more")


class SqliteMender:
    """A `Mender` of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self) -> list[Damage]:
        with as_storage_error(), closing(connect(self._path)) as db:
            return [found for bucket in damage.buckets(db) if (found := damage.find(db, bucket))]

    def look_at(self, bucket: Bucket) -> Damage | None:
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.find(db, bucket)

    def is_on_its_way(self, bucket: Bucket) -> bool:
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.is_on_its_way(db, bucket)

    def remains(self) -> int:
        """Tables that can't be deleted, and stay in the file."""
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.remains(db)

    def mend(self, bucket: Bucket) -> Damage | None:
        with (
            as_storage_error(),
            closing(connect(self._path)) as writer,
            closing(connect(self._path)) as reader,
        ):
            return damage.salvage(writer, reader, bucket)

    def discard(self, bucket: Bucket) -> int:
        with as_storage_error(), closing(connect(self._path)) as db:
            return damage.discard(db, bucket)
