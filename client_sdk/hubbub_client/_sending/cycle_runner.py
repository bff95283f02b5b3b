"""Who makes a pass, and for how long: `flush`, the worker, and `close`. One at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub_client._http.consenting_transport import ConsentingTransport
from hubbub_client._http.transport import HttpTransport
from hubbub_client._process.fork import is_child
from hubbub_client._process.lazy_imports import load
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport import Answer, Transport
    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.cycle import Cycle

__all__ = ["CycleRunner", "in_time"]

_A_TRY = 1.0
"""Seconds that a flush of no length has for its one try, and the last pass before a client is closed."""
_A_PASS = 60.0
"""Seconds that one pass of the worker may take in all; and until the next one when something went wrong inside."""


@dataclass
class CycleRunner:
    """The way out of one client."""

    address: str
    transport: Transport | None
    """The app's own; None: HTTP."""
    ca_file: Path | str | None
    proxy: str | None = field(repr=False)  # it may hold a password
    cycle: Cycle
    pace: Pace
    counts: Counts
    start: Callable[[], None]
    """Reads what is kept, if that has not been done."""
    busy: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.transport is None and (self.ca_file is not None or self.proxy is not None):
            with suppress(NoDurableState):  # a child that can begin no TLS reports nothing
                self._http(0.0).close()  # says at once what is wrong with them

    def flush(self, timeout: float, *, hurry: bool) -> bool:
        """Insist, for so long."""
        deadline, busy = self.pace.monotonic() + timeout, self.busy
        if not busy.acquire(timeout=max(timeout, _A_TRY)):
            return False  # the worker, or another flush, is in the middle of a request
        try:
            with self.counts.guarding():
                load(max(timeout, _A_TRY))
                self.start()
                with self._carrier(deadline) as transport:
                    return self.cycle.flush(transport, deadline, hurry=hurry, aside=self._aside)
            return False
        finally:
            busy.release()

    def _aside(self, seconds: float) -> None:
        """Sleep, and let the worker make its passes meanwhile."""
        busy = self.busy
        busy.release()
        try:
            self.pace.sleep(seconds)
        finally:
            busy.acquire()

    def flush_in_time(self, timeout: float, *, hurry: bool) -> bool:
        """The same, and not a moment longer, whatever it is that hangs."""

        def work() -> bool:
            return self.flush(timeout, hurry=hurry)

        return in_time(work, max(timeout, _A_TRY), work if self._is_bounded else None)

    def work(self) -> float:
        """The worker's pass; the seconds until the next."""
        with self.busy, self.counts.guarding():
            load()
            self.start()
            with self._carrier(self.pace.monotonic() + _A_PASS) as transport:
                return self.cycle.background(transport)
        return _A_PASS

    def finish(self, timeout: float, *, sending: bool) -> None:
        """The last pass: randomize what is due, and send it if that is wanted; in so many seconds."""
        deadline = time.monotonic() + timeout
        if sending:
            here = partial(self._last_pass, timeout - _A_TRY) if self._is_bounded else None
            if in_time(partial(self._last_pass, timeout), timeout, here):
                return
        left, busy = max(deadline - time.monotonic(), 0.0), self.busy
        if busy.acquire(timeout=left):
            try:
                with self.counts.guarding(), self.cycle.state.alone(left):
                    if is_child():
                        load(left)
                    self.start()
                    if self.cycle.attend():
                        self.cycle.steady(_Nowhere(), rested=False)
                        self.cycle.occasional(_Nowhere(), rested=False)
            finally:
                busy.release()

    def _last_pass(self, within: float) -> bool:
        """A pass like the timer's. False: someone else's is not over in time."""
        busy = self.busy
        if not busy.acquire(timeout=max(within, 0.0)):
            return False
        try:
            with self.counts.guarding():
                load(max(within, _A_TRY))
                self.start()
                with self._carrier(self.pace.monotonic() + _A_TRY) as transport:
                    self.cycle.background(transport)
        finally:
            busy.release()
        return True

    @property
    def _is_bounded(self) -> bool:
        """Whether a pass ends in time by itself: HTTP does, the app's own transport may not."""
        return self.transport is None

    def forked(self) -> None:
        """In a child: whoever was busy is not there any more."""
        self.busy = threading.Lock()

    @contextmanager
    def _carrier(self, deadline: float) -> Iterator[Transport]:
        """The app's transport, or a connection that lasts for this pass only. It asks before each request."""
        if self.transport is not None:
            yield ConsentingTransport(self.transport, self.cycle.attend)
            return
        # A flush of no length still tries once.
        with self._http(max(deadline, self.pace.monotonic() + _A_TRY)) as transport:
            yield ConsentingTransport(transport, self.cycle.attend)

    def _http(self, deadline: float) -> HttpTransport:
        return HttpTransport(
            self.address,
            deadline=deadline,
            monotonic=self.pace.monotonic,
            ca_file=self.ca_file,
            proxy=self.proxy,
        )


class _Nowhere:
    """No network."""

    def request(self, *_: object) -> Answer:
        raise AssertionError("a pass that is not rested sends nothing")


def in_time(work: Callable[[], bool], timeout: float, here: Callable[[], bool] | None) -> bool:
    """What `work` returns, or False when that takes too long. Where no thread can be started any more, as the
    interpreter is ending: what `here` returns, if there is one."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(work()), name="hubbub-flush", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return here is not None and here()
    thread.join(timeout)
    return results == [True]
