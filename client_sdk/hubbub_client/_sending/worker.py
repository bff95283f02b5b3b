"""The background thread of a client: it starts each cycle when it is due, and ends when it is told to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from math import inf

from hubbub_client._process.clock_and_entropy import monotonic

__all__ = ["Worker"]

_SHORTEST_PAUSE = 0.1
"""Seconds. The shortest pause between two cycles, so that a bug cannot make the host spin."""


class Worker:
    """The one background thread of a client: a daemon, started by wake(), also after a fork.

    `work` runs one cycle, never raises, and returns the seconds after which it wants to be called again; `inf` means
    only when it is woken. Cycles never overlap. All wakes before the next cycle count as one.
    """

    def __init__(self, work: Callable[[], float], *, name: str = "hubbub-sender") -> None:
        self._work, self._name = work, name
        self.forget()

    def wake(self, within: float = 0.0) -> None:
        """Let the next cycle begin within this many seconds. Never blocks; starts the thread if there is none.

        If no thread can be started (the interpreter is exiting, or the system has none left), nothing happens: the
        next `flush`, or the next start of the app, sends the reports.
        """
        if sys.is_finalizing():  # the thread is gone, and may have held the lock
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
        """Ask the thread to end, and wait at most `timeout` seconds. True: it has ended. A later wake() still works.

        A running cycle is not interrupted. The thread is a daemon, so one that hangs does not delay the exit.
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
        """In a forked child: neither the thread exists here, nor the one that may have held the lock."""
        # Re-entrant, as a signal handler or a finalizer may call wake() in the middle of another wake().
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._due = inf

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        if self._thread is not None:  # a signal handler started one while this one was made
            return
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None

    def _plan(self, within: float) -> None:
        due = monotonic() + max(within, 0.0)
        if due < self._due:
            self._due = due
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._wait_for_cycle():
                wanted = self._work()
                with self._changed:
                    self._plan(max(_SHORTEST_PAUSE, wanted))
        finally:
            with self._changed:
                if self._thread is threading.current_thread():  # a wake may have started another one meanwhile
                    self._thread = None

    def _wait_for_cycle(self) -> bool:
        """Wait for the next cycle. False: the thread is to end."""
        with self._changed:
            while not self._stopping:
                left = self._due - monotonic()
                if left <= 0:
                    self._due = inf
                    return True
                self._changed.wait(min(left, threading.TIMEOUT_MAX) if left < inf else None)
            self._stopping, self._due = False, inf
            self._thread = None  # here, so that a wake() from now on starts another
            return False
