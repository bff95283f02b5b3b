"""Runs of the cycle, for `flush`, the worker and `close`: one at a time, each within a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hubbub_client._http.consenting_transport import ConsentingTransport
from hubbub_client._process.clock_and_entropy import monotonic
from hubbub_client._process.fork import is_child
from hubbub_client._process.preload_modules import load

if TYPE_CHECKING:
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport import Transport
    from hubbub_client._http.transport_choice import Route
    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.cycle import Cycle

__all__ = ["CycleRunner", "in_time"]

_TRY_SECONDS = 1.0
"""Seconds for the one try of a flush with timeout 0, and for the last cycle before a client is closed."""
_CYCLE_SECONDS = 60.0
"""Seconds that one cycle of the worker may take. Also the pause before the next one after an internal error."""


@dataclass
class CycleRunner:
    """Runs the cycles of one client."""

    route: Route
    cycle: Cycle
    pace: Pace
    counts: Counts
    busy: threading.Lock = field(default_factory=threading.Lock)

    def flush(self, timeout: float, *, hurry: bool) -> bool:
        """Retry for `timeout` seconds."""
        deadline, busy = self.pace.monotonic() + timeout, self.busy
        if not busy.acquire(timeout=max(timeout, _TRY_SECONDS)):
            return False  # the worker, or another flush, is in the middle of a request
        try:
            with self.counts.guarding():
                load(max(timeout, _TRY_SECONDS))
                self.cycle.start()
                with self._transport(deadline) as transport:
                    return self.cycle.flush(transport, deadline, hurry=hurry, sleep_unlocked=self._sleep_unlocked)
            return False
        finally:
            busy.release()

    def _sleep_unlocked(self, seconds: float) -> None:
        """Sleep, and let the worker run its cycles meanwhile."""
        busy = self.busy
        busy.release()
        try:
            self.pace.sleep(seconds)
        finally:
            busy.acquire()

    def flush_in_time(self, timeout: float, *, hurry: bool) -> bool:
        """Like `flush`, but never longer, even if a transport or a disk hangs."""

        def work() -> bool:
            return self.flush(timeout, hurry=hurry)

        return in_time(work, max(timeout, _TRY_SECONDS), work if self.route.is_bounded else None)

    def work(self) -> float:
        """One cycle of the worker. Returns the seconds until the next."""
        with self.busy, self.counts.guarding():
            load()
            self.cycle.start()
            with self._transport(self.pace.monotonic() + _CYCLE_SECONDS) as transport:
                return self.cycle.run(transport)
        return _CYCLE_SECONDS

    def finish(self, timeout: float) -> None:
        """The last cycle, within `timeout` seconds: randomize the values that are due, and send the reports."""
        deadline = monotonic() + timeout
        fallback = partial(self._last_cycle, timeout - _TRY_SECONDS) if self.route.is_bounded else None
        if not in_time(partial(self._last_cycle, timeout), timeout, fallback):
            self.settle(max(deadline - monotonic(), 0.0))

    def settle(self, timeout: float) -> None:
        """Randomize the values that are due, within `timeout` seconds. Sends nothing."""
        busy = self.busy
        if not busy.acquire(timeout=timeout):
            return
        try:
            with self.counts.guarding(), self.cycle.state.alone(timeout):
                if is_child():
                    load(timeout)
                self.cycle.start()
                if self.cycle.gate.may_send():
                    self.cycle.settle()
        finally:
            busy.release()

    def _last_cycle(self, within: float) -> bool:
        """A cycle like the worker's. False: another cycle did not end in time."""
        busy = self.busy
        if not busy.acquire(timeout=max(within, 0.0)):
            return False
        try:
            with self.counts.guarding():
                load(max(within, _TRY_SECONDS))
                self.cycle.start()
                with self._transport(self.pace.monotonic() + _TRY_SECONDS) as transport:
                    self.cycle.run(transport)
        finally:
            busy.release()
        return True

    def forked(self) -> None:
        """In a child: the thread that held the lock does not exist here."""
        self.busy = threading.Lock()

    @contextmanager
    def _transport(self, deadline: float) -> Iterator[Transport]:
        """The transport of one cycle. It asks for consent before each request."""
        # A flush with timeout 0 still tries once.
        with self.route.open(max(deadline, self.pace.monotonic() + _TRY_SECONDS), self.pace.monotonic) as transport:
            yield ConsentingTransport(transport, self.cycle.gate)


def in_time(work: Callable[[], bool], timeout: float, fallback: Callable[[], bool] | None) -> bool:
    """The result of `work`, or False if it takes too long. If no thread can be started, because the interpreter is
    exiting, `fallback` runs in this thread instead, if it is given."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(work()), name="hubbub-flush", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return fallback is not None and fallback()
    thread.join(timeout)
    return results == [True]
