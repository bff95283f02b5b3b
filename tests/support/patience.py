"""Time in tests on a busy machine: how long to wait for what must come, and limits on what must not take long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["PATIENCE", "awake", "stalls", "wait_for", "within"]

PATIENCE = 120.0
"""Seconds until something that must happen counts as not happening. Who waits for it goes on as soon as it has."""
_STEP, _HICCUP = 0.01, 0.1


def wait_for(condition: Callable[[], object], patience: float = PATIENCE, step: float = 0.02) -> None:
    """Look again and again: another thread or process has a pace of its own."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(step)


@contextmanager
def _watched(note: Callable[[float], None]) -> Iterator[None]:
    """A thread sleeps for a moment, again and again, and notes how long it took until it was woken."""
    over = threading.Event()

    def watch() -> None:
        before = time.monotonic()
        while not over.wait(_STEP):
            now = time.monotonic()
            note(now - before)
            before = now

    watching = threading.Thread(target=watch, name="stalls", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


@contextmanager
def stalls() -> Iterator[Callable[[], float]]:
    """Tells how many seconds of the block so far this process wanted to run and was not let: those in which a thread
    that sleeps for a moment was woken much later."""
    lost = 0.0

    def note(passed: float) -> None:
        nonlocal lost
        if passed - _STEP > _HICCUP:
            lost += passed - _STEP

    with _watched(note):
        yield lambda: lost


@contextmanager
def awake() -> Iterator[Callable[[], float]]:
    """A clock, from 0 on, that stands still while the machine does something else. It never jumps: who looks right
    after a pause sees the time before it."""
    lived = 0.0

    def note(passed: float) -> None:
        nonlocal lived
        lived += min(passed, _STEP + _HICCUP)

    with _watched(note):
        yield lambda: lived


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes less than this, but for the time in which the machine did something else."""
    with stalls() as lost:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        time.sleep(2 * _STEP)  # a stall at the very end is noticed after it
        assert took - lost() < seconds, f"took {took:.2f} s, of which the machine was away for {lost():.2f}"
