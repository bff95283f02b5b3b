"""Repair of the SQLite file. Each repair uses new connections: an old one would not read cached pages again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from hubbub_service_common.storage.sqlite import as_storage_error, connect, cut_log
from hubbub_service_common.storage.sqlite_disk_space import Reserve
from hubbub_shuffler.storage.protocol import Bucket, BucketDamaged, Damage, NeedsRoom
from hubbub_shuffler.storage.sqlite import salvage
from hubbub_shuffler.storage.sqlite.copy_room import lacking

__all__ = ["SqliteMender", "blaming", "missing"]


def missing() -> BucketDamaged:
    return BucketDamaged("THE STORAGE LOST DATA: reports of a closed bucket are missing")


@contextmanager
def blaming(bucket: Bucket) -> Iterator[None]:
    """Blame this bucket for damage that is met within, and no other bucket of the same transaction."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not salvage.is_damage(error):
            raise
        raise BucketDamaged(f"{type(error).__name__}: {error}", bucket) from error


class SqliteMender:
    """A `Mender` of one file."""

    def __init__(self, path: Path, reserve: Reserve) -> None:
        self._path, self._reserve = path, reserve
        self._needed: dict[Bucket, int] = {}
        """Bytes of copies for which there was no room."""

    def find(self) -> list[Damage]:
        with self._opened() as db:
            return [found for bucket in salvage.buckets(db) if (found := salvage.find(db, bucket, self._lacks(db)))]

    def look_at(self, bucket: Bucket) -> Damage | None:
        with self._opened() as db:
            return salvage.find(db, bucket, self._lacks(db))

    def is_on_its_way(self, bucket: Bucket) -> bool:
        with self._opened() as db:
            return salvage.is_on_its_way(db, bucket)

    def remains(self) -> int:
        """Number of tables that can't be deleted, and stay in the file."""
        with self._opened() as db:
            return salvage.remains(db)

    def mend(self, bucket: Bucket) -> Damage | None:
        self._reserve.give_up_if_needed()
        needed = self._needed.pop(bucket, 0)
        with self._opened() as writer, self._opened() as reader:
            try:
                return salvage.salvage(writer, reader, bucket, self._lacks(writer), needed)
            except NeedsRoom as error:
                self._needed[bucket] = error.needed
                raise
            finally:
                with suppress(sqlite3.Error):  # the copy, even a failed one, must not stay in the log
                    cut_log(writer)

    def discard(self, bucket: Bucket) -> int:
        self._reserve.give_up_if_needed()
        with self._opened() as db:
            return salvage.discard(db, bucket)

    def _lacks(self, db: sqlite3.Connection) -> salvage.Lacks:
        return lambda copy: lacking(db, self._path, copy)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with as_storage_error(), closing(connect(self._path)) as db:
            yield db
