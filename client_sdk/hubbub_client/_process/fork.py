"""Forks: a child gets locks of its own, as the thread that held a lock in the parent does not exist in the child.

Some locks can't be replaced: those of modules that are being imported, of OpenSSL, of what `cryptography` makes at
its first use, of `cached_property` before Python 3.12. Code that takes one of them runs inside `no_fork`, and a fork of
another thread waits for it. `database` does the same for SQLite. A name lookup may hold locks of the system's library:
it runs in a thread of its own, and every wait for that thread has a limit.

No fork waits for imports by the app's own threads. So a child imports within a time limit (`preload_modules`). If the
import does not end, the child reports nothing, but it does not hang.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from weakref import WeakSet

from hubbub_client._state.errors import FORK_EARLIER, NoDurableState

__all__ = ["Forkable", "give_up", "is_child", "no_fork"]

_LONGEST_WAIT = 10.0
"""Seconds that a fork waits for work that must not be cut in two, of which the first import takes longest. Also the
seconds that one thread of a child waits for another."""


class Forkable:
    """An object that is told of every fork, from `_survive_forks` on, for as long as it lives."""

    def _before_fork(self) -> None:
        pass

    def _after_fork(self, *, in_child: bool) -> None:
        raise NotImplementedError

    def _survive_forks(self) -> None:
        _register()
        _forkable.add(self)


@contextmanager
def no_fork() -> Iterator[None]:
    """A fork of another thread waits until this is over. For short work that takes locks which a child could not
    replace. Raises NoDurableState where it would wait for ever: in a child that was forked in the middle of such work,
    or behind an import that does not end."""
    _register()
    lock = _gate.lock
    # In a process that was not forked, the thread inside comes out again, however slow the machine is.
    if not lock.acquire(timeout=_gate.patience if _gate.is_child else -1):
        raise NoDurableState("an import in this child does not end", FORK_EARLIER)
    try:
        _gate.is_stuck = False
        if _gate.is_broken:
            raise NoDurableState("this child was forked in the middle of an import or a handshake", FORK_EARLIER)
        yield
    finally:
        lock.release()


def is_child() -> bool:
    """Whether this process was forked by one that had imported the SDK, used or not. Modules may be locked for ever
    here."""
    return _gate.is_child


def give_up() -> None:
    """Stop waiting for the thread inside, which does not come out. If it does after all, waiting resumes."""
    _gate.is_stuck = True


class _Gate(Forkable):
    """The one gate of the process. Re-entrant, as the thread that forks may be inside itself, and goes on in the
    child."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_broken = self.is_stuck = self._was_forked = False
        self._process = os.getpid()
        """The process that imported this module. It reveals forks before the first use, which no hook reports."""
        self._held: set[int] = set()
        """Threads that hold the lock during their fork."""

    @property
    def is_child(self) -> bool:
        return self._was_forked or os.getpid() != self._process

    @property
    def patience(self) -> float:
        return 0.0 if self.is_stuck else _LONGEST_WAIT

    def _before_fork(self) -> None:
        if self.lock.acquire(timeout=self.patience):
            self._held.add(threading.get_ident())

    def _after_fork(self, *, in_child: bool) -> None:
        held = threading.get_ident() in self._held
        if in_child:
            self._held.clear()
            self.lock = threading.RLock()
            self.is_broken = self.is_broken or not held
            self.is_stuck, self._was_forked = False, True
        elif held:
            self._held.remove(threading.get_ident())
            self.lock.release()


_gate = _Gate()
_forkable: WeakSet[Forkable] = WeakSet()


@cache  # once, and not at import
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
        os.register_at_fork(before=_before, after_in_parent=lambda: _after(False), after_in_child=lambda: _after(True))


def _before() -> None:
    for thing in _all():
        thing._before_fork()


def _after(in_child: bool) -> None:
    for thing in _all():
        thing._after_fork(in_child=in_child)


def _all() -> tuple[Forkable, ...]:
    """The gate comes last: a thread inside it takes none of the other locks, but their holders may wait for the
    gate."""
    while True:
        try:
            return (*_forkable, _gate)
        except RuntimeError:  # another thread is making a client right now
            continue
