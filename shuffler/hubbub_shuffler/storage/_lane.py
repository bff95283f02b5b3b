"""One SQLite connection and the one thread that uses it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from hubbub_shuffler.storage._schema import connect
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["Lane", "as_storage_error"]

T = TypeVar("T")
P = ParamSpec("P")


class Lane:
    """Work on one connection, one piece after the other, beside the event loop."""

    def __init__(self, path: Path) -> None:
        with as_storage_error():
            self.db = connect(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hubbub-shuffler-sqlite")

    async def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do it in this lane's thread; what SQLite cannot do comes out as StorageError."""

        def guarded() -> T:
            with as_storage_error():
                return work(*arguments, **named)

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All of it or nothing, under the write lock from the start."""
        self.db.execute(begin)
        try:
            yield self.db
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """The file as it is now, for several reads."""
        return self.transaction("BEGIN")

    async def aclose(self) -> None:
        """Finish what was begun, then let go of the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.db.close)
        self._thread.shutdown()

    def close(self) -> None:
        """The same before anything was begun."""
        self.db.close()
        self._thread.shutdown()


@contextmanager
def as_storage_error() -> Iterator[None]:
    """SQLite's errors, and those of the files, under the name that the Protocol promises."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StorageError(f"{type(error).__name__}: {error}") from error
