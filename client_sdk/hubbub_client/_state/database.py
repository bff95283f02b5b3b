"""The state of the SDK on disk: one SQLite file, private to its owner.

There are two ways to write. A *transaction* is on stable storage when it ends: it is for spends, draws and what is
sent. A *note* survives a kill of the app, but perhaps not a power cut, and never waits: it is for recorded values, of
which nothing was sent yet.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hubbub_client._counters import Counts, Kind
from hubbub_client._integrity.forgotten_spends import IntegrityCheck
from hubbub_client._integrity.quarantine import Emptied, is_damage, lost_spends
from hubbub_client._integrity.witness import read_witness
from hubbub_client._process.clock_and_entropy import monotonic, wall
from hubbub_client._process.fork import Forkable
from hubbub_client._state.error_messages import BUSY, reason_of
from hubbub_client._state.errors import FORK_EARLIER, Busy, NoDurableState
from hubbub_client._state.schema import VERSION, NewerVersion, create, upgrade
from hubbub_client._state.sqlite import connect, identity, transaction, version_of

__all__ = ["FILE_NAME", "Busy", "NoDurableState", "State"]

FILE_NAME = "hubbub.sqlite3"
_BUSY_SECONDS = 2.0
"""Seconds that a transaction waits for another process's transaction, and a fork for another thread's."""
_NOTE_SECONDS = 0.005
"""Seconds that a note waits for another thread's note, which never waits for the disk either."""
_TRIES = 5
"""Attempts to open a file while other processes keep putting it aside."""
_LONGEST_LOG = 4_000
"""Pages (16 MB) after which a note has to empty the log itself, as no cycle does."""


class _Link:
    """One connection, and what it takes to notice that it is no longer the right one."""

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable
        self.lock = threading.RLock()
        self.connection: sqlite3.Connection | None = None
        self.file: tuple[int, int] | None = None
        self.patience = -1.0
        """Seconds that the connection waits for another process; below 0: not set yet."""

    def set_patience(self, seconds: float) -> None:
        """Set how long the connection waits for another process."""
        if self.connection is not None and self.patience != seconds:
            self.connection.execute(f"PRAGMA busy_timeout={int(1000 * seconds)}")
            self.patience = seconds

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self.patience = -1.0


class State(Forkable):
    """One file for many threads and processes. `clock` tells when a damaged file ended."""

    def __init__(self, directory: Path | str, clock: Callable[[], float] = wall, counts: Counts | None = None) -> None:
        self._path = Path(directory) / FILE_NAME
        self._counts = counts or Counts()
        self._integrity = IntegrityCheck(self._path, clock)
        self._durable, self._quick = _Link(durable=True), _Link(durable=False)
        self._closed = self._had_file = self._lost_in_fork = False
        self.generation = 0
        """Goes up when another file has replaced the one that was open."""
        self._held: dict[int, list[_Link]] = {}
        """The locks that each thread holds during its fork."""
        self._patience = _BUSY_SECONDS
        self._survive_forks()

    @property
    def path(self) -> Path:
        return self._path

    def exists(self) -> bool:
        """Whether there is a file, which means that something was kept."""
        return self._path.exists()

    def ever_existed(self) -> bool:
        """Whether there is a file, or was one that may hold spends. The next cycle makes its successor."""
        try:
            return self._had_file or self.exists() or lost_spends(self._path, read_witness(self._path))
        except OSError:  # it cannot be ruled out
            return True

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read without a transaction. Raises NoDurableState if the file cannot be opened or read."""
        with self._durable.lock, self._translating_errors():
            connection = self._open(self._durable)
            self._durable.set_patience(self._patience)
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, one at a time among all threads and processes, on disk when it ends. Raises NoDurableState if
        that fails."""
        with self.reading() as connection, transaction(connection):
            yield connection

    @contextmanager
    def alone(self, within: float | None = None) -> Iterator[None]:
        """No other thread reads or writes meanwhile, except for notes. This waits at most `within` seconds for another
        thread, and everything inside it for another process; then Busy is raised. None: the usual limit."""
        patience = _BUSY_SECONDS if within is None else within
        lock = self._durable.lock
        if not lock.acquire(timeout=max(patience, _NOTE_SECONDS)):
            raise Busy("another thread is writing")
        before = self._patience  # the outer limit, if this thread is alone already
        self._patience = before if within is None else min(before, within)
        try:
            yield
        finally:
            self._patience = before
            lock.release()

    @contextmanager
    def glancing(self) -> Iterator[sqlite3.Connection]:
        """Read without ever waiting for the disk. Raises Busy if it would have to.

        This is how `record` reads. It neither creates a file nor puts one aside: which periods are closed then depends
        on the moment, which must not depend on whether something was recorded. The next cycle does it, and the value
        waits.
        """
        if not self._quick.lock.acquire(timeout=_NOTE_SECONDS):
            raise Busy("another thread is writing")
        try:
            with self._translating_errors(act=False):
                yield self._open_quick()
        finally:
            self._quick.lock.release()

    @contextmanager
    def noting(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, now, or raise Busy. It survives a kill of the app at once, and a power cut from the
        next transaction on."""
        with self.glancing() as connection:
            if connection.in_transaction:  # a signal handler, in the middle of a note
                raise Busy("this thread is writing")
            with transaction(connection):
                yield connection

    def scrub(self, *, patient: bool = False) -> bool:
        """Empty the log into the file, so that deleted data is gone from both. False: other processes are reading.

        Ends with a small write: the first write into an empty log waits for the disk, and no `record` should.
        """
        with suppress(NoDurableState), self.reading() as connection:
            self._durable.set_patience(self._patience if patient else 0.0)
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self.warm()
            return not busy
        return False

    def warm(self) -> None:
        """Write something meaningless, so that the next note finds a log that has been started."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO facts VALUES ('writes', 1) ON CONFLICT DO UPDATE SET value = (value + 1) % 1000"
            )

    def witness_charges(self, lane: str) -> None:
        """Make sure that the witness knows this file and every charge, before more is charged or drawn for a lane.
        Raises NoDurableState if it does not."""
        with self.reading() as connection:
            self._integrity.witness_charges(connection, lane)

    def check(self, connection: sqlite3.Connection, lane: str) -> None:
        """Inside a transaction that charges or draws for a lane: make sure that the file has forgotten nothing since it
        was opened."""
        self._integrity.check(connection, lane)
        self._warn_of_mending()

    def _warn_of_mending(self) -> None:
        if self._integrity.mended:
            self._integrity.mended = 0
            self._counts.add(Kind.STATE, "mended")
            self._counts.warn_once(
                "a page of the state file was an older one and was mended; check the disk, which loses writes"
            )

    def witness_draws(self, lane: str, generation: int) -> None:
        """Make sure that the witness knows every draw of this lane. Raises NoDurableState if it cannot be written, or
        if another file has replaced the one that was open at that generation."""
        with self.reading() as connection:
            if self.generation != generation:
                raise NoDurableState("these reports come from a file that was put aside")
            self._integrity.witness_draws(connection, lane)

    def log_pages(self) -> int:
        """The length of the log in pages, roughly."""
        try:
            return self._path.with_name(FILE_NAME + "-wal").stat().st_size // 4096
        except OSError:
            return 0

    def close(self, within: float = _BUSY_SECONDS) -> None:
        """Close the file for good, with an empty log unless another process uses it.

        A thread that is still in a transaction after `within` seconds keeps its connection.
        """
        self._closed = True
        deadline = monotonic() + within
        for link in (self._quick, self._durable):
            if not link.lock.acquire(timeout=max(deadline - monotonic(), _NOTE_SECONDS)):
                continue
            try:
                if link.durable and link.connection is not None:
                    with suppress(sqlite3.Error):  # another process is using it: the last one to close does this
                        link.set_patience(0.0)
                        link.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                link.close()
            finally:
                link.lock.release()

    # -- forks ----------------------------------------------------------------------------------

    def _before_fork(self) -> None:
        """Close the file. Otherwise SQLite's record of its locks would be copied to the child, which holds none of
        them: the child would write into a log that its parent deletes."""
        held = [link for link in (self._durable, self._quick) if link.lock.acquire(timeout=_BUSY_SECONDS)]
        for link in held:
            link.close()
        self._held[threading.get_ident()] = held

    def _after_fork(self, *, in_child: bool) -> None:
        held = self._held.pop(threading.get_ident(), [])
        if not in_child:
            for link in held:
                link.lock.release()
            return
        self._held.clear()
        self._patience = _BUSY_SECONDS
        # A connection that could not be closed in time makes the file unusable here, for as long as this child lives.
        self._lost_in_fork = self._lost_in_fork or any(
            link.connection is not None for link in (self._durable, self._quick)
        )
        for link in (self._durable, self._quick):
            link.lock = threading.RLock()

    # -- opening --------------------------------------------------------------------------------

    @contextmanager
    def _translating_errors(self, *, act: bool = True) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if is_damage(error):
                if not act:
                    raise Busy("the next cycle looks at this") from error
                self._quarantine()
                raise NoDurableState("the state file was put aside") from error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Busy(*BUSY) from error
            if isinstance(error, NewerVersion):
                self._counts.add(Kind.STATE, "newer-version")
            raise self._logged(NoDurableState(*reason_of(error))) from error
        except OSError as error:
            raise self._logged(NoDurableState(*reason_of(error))) from error

    def _logged(self, error: NoDurableState) -> NoDurableState:
        """Log the error here, as not every caller does."""
        self._counts.warn_once(error.sentence)
        return error

    def _open_quick(self) -> sqlite3.Connection:
        """The connection for notes, to the file that a cycle saw last."""
        if not self._closed and not self._lost_in_fork:
            here = identity(self._path)
            if here is None or here != self._durable.file:
                raise Busy("no cycle has seen this file yet")
            if self._quick.connection is not None and self._quick.file != here:
                self._quick.close()
        return self._open(self._quick)

    def _open(self, link: _Link) -> sqlite3.Connection:
        if self._closed:
            raise NoDurableState("closed")
        if self._lost_in_fork:
            why = "this child was forked while another thread was writing to the state file"
            raise self._logged(NoDurableState(why, FORK_EARLIER))
        if link.connection is not None and link.file != identity(self._path):
            link.close()  # another process has put the file aside, or it was deleted
            self.generation += 1
        if link.connection is not None:
            return link.connection
        try:
            return self._connect(link)
        except sqlite3.DatabaseError as error:
            if not is_damage(error) or not link.durable:
                raise
        self._quarantine()
        return self._connect(link)

    def _quarantine(self) -> None:
        self._counts.add(Kind.STATE, "quarantined")
        self._counts.warn_once(
            "the state file was damaged and was put aside; reporting goes on in the next period and day"
        )
        self._had_file = True
        self.generation += 1
        for link in (self._quick, self._durable):
            if link.lock.acquire(timeout=_NOTE_SECONDS):
                link.close()
                link.lock.release()
        if self._durable.file not in (None, identity(self._path)):
            return  # another process was faster
        with suppress(OSError):  # or is faster right now
            self._integrity.put_aside()

    def _connect(self, link: _Link) -> sqlite3.Connection:
        for _ in range(_TRIES):
            connection = self._connect_once(link)
            if link.file == identity(self._path):
                link.connection, self._had_file = connection, True
                return connection
            connection.close()  # another process has put it aside meanwhile, so it does not count
            self._had_file = True
        raise Busy("the file is being replaced")

    def _connect_once(self, link: _Link) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create(self._path, lambda connection: self._integrity.begin(connection, had_file=self._had_file))
        # Before opening: the connection is to this file or a later one, and a second look tells which.
        link.file = identity(self._path)
        connection = connect(self._path, self._patience if link.durable else 0.0)
        try:
            version = version_of(connection)
            if version == 0:
                raise Emptied("the file is empty, and none is ever created empty")
            synchronous = "FULL" if link.durable else "NORMAL"
            for setting in ("journal_mode=WAL", f"synchronous={synchronous}", "secure_delete=ON"):
                connection.execute(f"PRAGMA {setting}")
            if not link.durable:
                connection.execute(f"PRAGMA wal_autocheckpoint={_LONGEST_LOG}")
            if version != VERSION:
                with transaction(connection):
                    version = version_of(connection)
                    if version != VERSION:  # another process may have been faster
                        upgrade(connection, version, read_witness(self._path))
            if link.durable:
                self._integrity.examine(connection, link.file)
                self._warn_of_mending()
        except BaseException:
            connection.close()
            raise
        return connection
