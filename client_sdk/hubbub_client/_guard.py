"""Whether a state file has forgotten spends: asked when it is opened; and that the next one can tell, before anything
leaves the device."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hubbub_client._checksum import is_whole
from hubbub_client._quarantine import Forgetful, Salvaged, damaged_path, last_seen, put_aside, start_closed
from hubbub_client._sqlite import identity, transaction
from hubbub_client._witness import Witness, begin, drawn, is_contradicted, read_witness, write_witness

__all__ = ["Guard"]


class Guard:
    """Of one state file, under whatever inode. `clock` dates the witness, and the end of a file that is lost."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._by_system_clock = clock is time.time
        self._witness: Witness | None = None
        """What it said when it was last looked at or written."""
        self._salvaged: Salvaged | None = None

    def examine(self, connection: sqlite3.Connection) -> None:
        """Forgetful if the file lacks spends: a page of it was lost, or it is not the one that the witness has seen."""
        inode = self._inode()
        witness = read_witness(self._path)
        while True:
            connection.execute("BEGIN")  # one moment for all of it, and after that of the witness
            try:
                if not is_whole(connection):
                    raise Forgetful("the account does not add up")
                contradicted = is_contradicted(connection, inode, witness)
            finally:
                connection.execute("ROLLBACK")
            if not contradicted:
                break
            before, witness = witness, read_witness(self._path)
            if witness == before:  # else another process has written it meanwhile
                raise Forgetful("the file is not the one that was here, or an older one")
        self._witness = witness
        if witness is None or witness.database != inode:
            with suppress(OSError, sqlite3.OperationalError):  # else before anything is sent
                self._write(connection)

    def attest(self, connection: sqlite3.Connection, lane: str) -> None:
        """Let the witness know of every draw of this lane. OSError if it cannot be written."""
        witness = self._witness
        if witness is None or witness.database != self._inode() or witness.drawn.of(lane) < drawn(connection).of(lane):
            self._write(connection)

    def put_aside(self) -> None:
        """Move the file out of the way. OSError when another process was faster."""
        self._salvaged = put_aside(self._path, by_system_clock=self._by_system_clock)

    def begin(self, connection: sqlite3.Connection, *, had_file: bool) -> None:
        """What a new file holds besides its tables: it may not be the first one here."""
        witness = read_witness(self._path)
        lost = had_file or damaged_path(self._path).exists() or (witness is not None and not witness.is_blank)
        if lost:
            salvaged, self._salvaged = self._salvaged, None  # of that damage, and not of a later loss
            seen = last_seen(self._path, by_system_clock=self._by_system_clock)
            start_closed(connection, self._clock(), salvaged or Salvaged([], None, [], seen))
        begin(connection, witness, is_successor=lost)

    def _write(self, connection: sqlite3.Connection) -> None:
        """While nobody else may write: it never tells of fewer than another process has let it tell of."""
        with transaction(connection):
            self._witness = write_witness(self._path, drawn(connection), self._clock())

    def _inode(self) -> int:
        return (identity(self._path) or (0, 0))[1]
