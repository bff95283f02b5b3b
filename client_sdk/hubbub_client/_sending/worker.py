"""The background thread: when a pass over the outbox begins, and that no thread outlives its welcome."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from math import inf

__all__ = ["Worker"]

_SHORTEST_WISH = 0.1
"""Seconds. A pass that wants the next one at once gets it after these: no mistake of its makes a host spin."""


class Worker:
    """The one background thread of a client: a daemon, started by wake(), made again after a fork.

    `work` does one pass, never raises, and returns the seconds after which it wants to be called again; `inf` for
    not until it is woken. Passes never overlap, and wakes that come before the next pass are one wake.
    """

    def __init__(self, work: Callable[[], float], *, name: str = "hubbub-sender") -> None:
        self._work, self._name = work, name
        self.forget()

    def wake(self, within: float = 0.0) -> None:
        """Let the next pass begin within so many seconds. Never blocks; starts the thread if there is none.

        Where no thread can be started (the interpreter is ending, the system has no more), nothing happens: what
        waits is sent by whoever flushes, or by the next start of the app.
        """
        if sys.is_finalizing():  # the thread is gone, perhaps with the lock in its hands
            return
        with self._changed:
            self._stopping = False
            self._plan(within)
            if self._thread is None:
                self._start()

    @property
    def is_running(self) -> bool:
        """Whether there is a thread; in a forked child, whether the parent had one."""
        return self._thread is not None

    def stop(self, timeout: float) -> bool:
        """Ask the thread to end and wait at most so long: True if there is none any more. A later wake() is obeyed.

        A pass under way is not interrupted. As the thread is a daemon, one that hangs holds up no exit.
        """
        if sys.is_finalizing():
            return self._thread is None
        with self._changed:
            thread, self._stopping = self._thread, True
            self._changed.notify()
        if thread is None:
            return True
        if thread is threading.current_thread():
            return False
        thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not thread.is_alive()

    def forget(self) -> None:
        """In a forked child: the thread did not come along, and who held its lock is not there to release it."""
        # Re-entrant, as a signal handler or a finalizer may record a value in the middle of a wake.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._due = inf

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        if self._thread is not None:  # a signal handler was faster, while this one was made
            return
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None

    def _plan(self, within: float) -> None:
        due = time.monotonic() + max(within, 0.0)
        if due < self._due:
            self._due = due
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._its_turn():
                wanted = self._work()
                with self._changed:
                    self._plan(max(_SHORTEST_WISH, wanted))
        finally:
            with self._changed:
                if self._thread is threading.current_thread():  # not the one that a wake has started meanwhile
                    self._thread = None

    def _its_turn(self) -> bool:
        """Wait for the next pass. False: there is none, as the thread is to end."""
        with self._changed:
            while not self._stopping:
                left = self._due - time.monotonic()
                if left <= 0:
                    self._due = inf
                    return True
                self._changed.wait(min(left, threading.TIMEOUT_MAX) if left < inf else None)
            self._stopping, self._due = False, inf
            self._thread = None  # here, so that a wake() from now on starts another
            return False
