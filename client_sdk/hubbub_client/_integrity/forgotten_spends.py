"""The integrity check of the state file: whether it has forgotten spends.

It asks when the file is opened. Before anything is drawn, and before anything leaves the device, it makes sure that the
next opening can tell.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hubbub_client._integrity.checksum import Forgetful, is_whole, renewing
from hubbub_client._integrity.quarantine import (
    IMPLAUSIBLE,
    Salvaged,
    damaged_path,
    last_seen,
    latest_charge,
    lost_spends,
    put_aside,
    salvage,
    start_closed,
)
from hubbub_client._integrity.restore_spends import mend
from hubbub_client._integrity.torn_rows import check_facts
from hubbub_client._integrity.witness import (
    Counted,
    Lack,
    Witness,
    begin,
    counted,
    lack_of,
    raise_occasional_count,
    read_witness,
    tidy,
    write_witness,
)
from hubbub_client._process.clock_and_entropy import is_system_clock
from hubbub_client._state.errors import WitnessBehind
from hubbub_client._state.sqlite import identity, transaction

__all__ = ["IntegrityCheck"]


class IntegrityCheck:
    """The check of one state file, even if its inode changes. `clock` tells when a lost file ended."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._by_system_clock = is_system_clock(clock)
        self._witness: Witness | None = None
        """What the witness said when it was last read or written."""
        self._most_seen: Witness | None = None
        """The most that a witness of the file that was here ever said: an older one may overwrite it."""
        self._salvaged: Salvaged | None = None
        self.mended = 0
        """How often spends were put back into an older page."""

    def examine(self, connection: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        """Raise Forgetful if the file lacks spends: a page of it was lost, or it is not the one that the witness knows.
        `file` is the one that was opened. Nothing is written about a file that is no longer here."""
        inode = file[1] if file else 0
        witness = read_witness(self._path)
        while True:
            connection.execute("BEGIN")  # one snapshot for all of it, later than the witness
            try:
                whole = is_whole(connection)
                check_facts(connection)
                lack = lack_of(connection, inode, witness)
                at = self._drawn_before(connection)
            finally:
                connection.execute("ROLLBACK")
            if not whole:
                self._mend(connection)
                continue
            if lack is Lack.NOTHING:
                break
            before, witness = witness, read_witness(self._path)
            if witness == before:  # or another process has written it meanwhile
                self._accept_lost_occasional(connection, inode)
        self._remember(witness, inode)
        if identity(self._path) == file and (witness is None or not witness.is_of(inode) or witness.at != at):
            # It need not succeed: an opt-out on a full disk needs no witness, and a draw looks again.
            with suppress(OSError, sqlite3.OperationalError):
                self._write(connection, "steady")

    def witness_charges(self, connection: sqlite3.Connection, lane: str) -> None:
        """Before anything is charged or drawn: make sure that the witness is of this file and counts every charge.
        Raises OSError if it cannot be written. Without it, the next start would take this file for a copy.

        The witness is read each time, so that a deleted one comes back. Only the steady lane writes it, as this must
        not depend on what was recorded. The occasional lane raises WitnessBehind instead, as it does between another
        process's charge and its witness.

        Raises Forgetful if the file has forgotten spends since it was opened. Only the steady lane checks this, too: a
        check that only happens where something was recorded would close the file at another moment than on a device
        where nothing was."""
        witness = self._remember(read_witness(self._path), self._inode())
        if lane != "occasional" and self._lack(connection) is Lack.SPENDS:
            raise Forgetful("the file has become an older one")
        known = witness.counted.charged if witness is not None and witness.is_of(self._inode()) else -1
        if known < counted(connection).charged:
            if lane == "occasional":
                raise WitnessBehind("the witness does not know of this charge yet")
            self._write(connection, lane)

    def witness_draws(self, connection: sqlite3.Connection, lane: str) -> None:
        """Make sure that the witness counts every draw of this lane. Raises OSError if it cannot be written."""
        witness = self._witness
        known = witness.counted.of(lane) if witness is not None and witness.is_of(self._inode()) else -1
        if known < counted(connection).of(lane):
            self._write(connection, lane)

    def check(self, connection: sqlite3.Connection, lane: str) -> None:
        """Inside a transaction that charges or draws: make sure that the file is whole and knows all that the witness
        counts, now. An older copy may have been written over it since it was opened."""
        told = self._remember(read_witness(self._path), self._inode())
        if told is None or not told.is_of(self._inode()):
            raise OSError("the witness is gone, and the next cycle brings it back")
        lack = self._lack(connection) if is_whole(connection) or self._mended(connection) else Lack.SPENDS
        if lane != "occasional":
            if lack is Lack.SPENDS:
                raise Forgetful("the account does not add up, or is an older one")
        elif lack is Lack.SPENDS:
            raise OSError("the file has forgotten something, and the next cycle sees to it")
        elif lack is Lack.OCCASIONAL:
            self._put_in_doubt(connection)

    def put_aside(self) -> None:
        """Move the file out of the way. Raises OSError if another process was faster."""
        self._salvaged = put_aside(self._path, by_system_clock=self._by_system_clock)

    def begin(self, connection: sqlite3.Connection, *, had_file: bool) -> None:
        """Write the first content of a new file, which may not be the first one here."""
        witness, damaged = read_witness(self._path), damaged_path(self._path)
        lost = had_file or lost_spends(self._path, witness)
        if lost:
            salvaged, self._salvaged = self._salvaged, None  # of that damage, and not of a later loss
            if salvaged is None:  # the process that put the file aside was killed before this, or it is gone
                salvaged = salvage(damaged, self._path) if damaged.exists() else Salvaged([], None, [])
                seen = last_seen(self._path, by_system_clock=self._by_system_clock)
                salvaged = salvaged._replace(last_seen=seen)
            start_closed(connection, self._clock(), salvaged)
        begin(connection, witness, is_successor=lost)

    def _accept_lost_occasional(self, connection: sqlite3.Connection, inode: int) -> None:
        """If only the occasional lane has forgotten draws, close no more than that lane: whether something was recorded
        must not decide whether a device goes silent. Every charge that a forgotten draw may have used is here."""
        with transaction(connection):
            witness = read_witness(self._path)
            lack = lack_of(connection, inode, witness)
            if lack is Lack.SPENDS:
                raise Forgetful("the file is not the one that was here, or an older one")
            if lack is Lack.OCCASIONAL:
                self._remember(witness, inode)
                self._put_in_doubt(connection)

    def _mend(self, connection: sqlite3.Connection) -> None:
        with transaction(connection):
            if not self._mended(connection):
                raise Forgetful("the account does not add up")

    def _mended(self, connection: sqlite3.Connection) -> bool:
        """Put back missing spends, inside a transaction. Returns whether all could be."""
        done = mend(connection)
        self.mended += done
        return done

    def _put_in_doubt(self, connection: sqlite3.Connection) -> None:
        """Put every charge in doubt, inside a transaction."""
        with renewing(connection, "ledger"):
            connection.execute("UPDATE ledger SET decision = 'in doubt' WHERE decision = 'charged'")
        if self._most_seen is not None:
            raise_occasional_count(connection, self._most_seen.counted.occasional)

    def _lack(self, connection: sqlite3.Connection) -> Lack:
        """What the file lacks, according to the witness as this process has seen it."""
        inode = self._inode()
        if self._most_seen is None or not self._most_seen.is_of(inode):
            return Lack.NOTHING
        return lack_of(connection, inode, self._most_seen)

    def _remember(self, witness: Witness | None, inode: int) -> Witness | None:
        """Remember what the witness says, and the most that a witness of this file ever said."""
        self._witness = witness
        if witness is not None and witness.is_of(inode):
            before = (
                self._most_seen.counted if self._most_seen is not None and self._most_seen.is_of(inode) else Counted()
            )
            self._most_seen = witness._replace(counted=Counted(*map(max, witness.counted, before)))
        return witness

    def _write(self, connection: sqlite3.Connection, what: str) -> None:
        """Write the witness, under the file's write lock, so that it never counts fewer than another process has made
        it count.

        The occasional lane's count changes only when that lane asks for it, and then nothing else does. So neither lane
        saves the other a write.
        """
        with transaction(connection):
            tidy(self._path)
            here, told, at = counted(connection), read_witness(self._path), self._drawn_before(connection)
            if told is not None and told.is_of(self._inode()):
                if what == "occasional":
                    most = max(here.occasional, told.counted.occasional)
                    here, at = told.counted._replace(occasional=most), told.at
                elif lack_of(connection, self._inode(), told) is Lack.SPENDS:
                    raise Forgetful("the file has become an older one")
                else:
                    here = here._replace(occasional=told.counted.occasional)
            elif what == "occasional":
                raise OSError("the witness is gone, and the next cycle brings it back")
            self._remember(write_witness(self._path, here, at), self._inode())

    def _drawn_before(self, connection: sqlite3.Connection) -> float:
        """The moment before which every period began that may have been drawn. It comes from the rows, not from a clock
        that may be wrong for a minute. Charges far ahead of the clock were made by a wrong clock, and do not count."""
        return latest_charge(connection, self._clock() + IMPLAUSIBLE)

    def _inode(self) -> int:
        """The inode of the file that is here now; 0 if there is none."""
        try:
            return self._path.stat().st_ino
        except OSError:
            return 0
