"""Forks: a child gets locks of its own, as the thread that held its parent's is not there to release them.

Some locks can't be replaced: those of modules that are being imported, of OpenSSL, of what `cryptography` makes at
its first use, of `cached_property` before Python 3.12. What takes one of them runs inside `no_fork`, which a fork of
another thread waits for; SQLite is seen to by `database` in the same way. The lookup of a name may hold locks of the
system's library: it runs in a thread of its own, and every wait for that thread has a limit.

No fork waits for what a thread of the app imports. So a child imports within a time limit (`lazy_imports`). Where that
does not end, it reports nothing, and hangs nowhere.
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
"""Seconds for which a fork waits for what must not be cut in two: the longest of it is the first import. And for which
one thread of a child waits for another's."""


class Forkable:
    """What hears of every fork, from `_survive_forks` on and for as long as it lives."""

    def _before_fork(self) -> None:
        pass

    def _after_fork(self, *, in_child: bool) -> None:
        raise NotImplementedError

    def _survive_forks(self) -> None:
        _register()
        _forkable.add(self)


@contextmanager
def no_fork() -> Iterator[None]:
    """A fork of another thread waits until this is over. For what is short, and takes locks that a child could not
    replace. NoDurableState where it would wait for ever: in a child that was forked all the same, or behind an import
    that does not end."""
    _register()
    lock = _gate.lock
    # In a process that was not forked, whoever is inside comes out again, however slow the machine is.
    if not lock.acquire(timeout=_gate.patience if _gate.is_child else -1):
        raise NoDurableState("an import of this child does not end", FORK_EARLIER)
    try:
        _gate.is_stuck = False
        if _gate.is_broken:
            raise NoDurableState("this child was forked in the middle of an import or a handshake", FORK_EARLIER)
        yield
    finally:
        lock.release()


def is_child() -> bool:
    """Whether this process was forked by one that had imported the SDK, used or not: modules may be locked for ever
    here."""
    return _gate.is_child


def give_up() -> None:
    """Someone is inside who does not come out: nobody waits for that any more, unless it does."""
    _gate.is_stuck = True


class _Gate(Forkable):
    """One for the process. Re-entrant, as who forks may be inside itself, and goes on in the child."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_broken = self.is_stuck = self._was_forked = False
        self._process = os.getpid()
        """That imported this: a fork before anything was used is heard of by nobody, and seen by this."""
        self._held: set[int] = set()
        """Threads that hold it for their fork."""

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
    """The gate last: who is inside takes no lock of the others, but those may have to wait for it."""
    while True:
        try:
            return (*_forkable, _gate)
        except RuntimeError:  # another thread makes a client at this moment
            continue
