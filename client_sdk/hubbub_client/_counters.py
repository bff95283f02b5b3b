"""Counters by name, and a voice that says each thing once. Neither ever holds a value."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hubbub_client._state.errors import NoDurableState

__all__ = ["LOGGER", "Counts"]

LOGGER = "hubbub_client"
"""The one logger of the SDK."""


class Counts:
    """What happened, how often; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may record in the middle of a record
        self._counts: Counter[str] = Counter()
        self._said: set[str] = set()

    def add(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by

    def update(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self._counts.update(counts)

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def say(self, text: str) -> None:
        """Log a warning, the first time. `text` holds names, types and reasons; nothing is said if it is empty."""
        with self._lock:
            if not text or text in self._said or len(self._said) >= 1_000:
                return
            self._said.add(text)
        logging = sys.modules.get("logging")  # not imported: in a child, that may never end
        if logging is None or getattr(logging.__spec__, "_initializing", False):
            return  # who has not loaded it has set up none, and would hear nothing
        logger = logging.getLogger(LOGGER)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # an app that set up no logging hears nothing from us
        logger.warning(text)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Let no error out: telemetry must not crash its host. The type is kept, never the text, which may name a
        value."""
        try:
            yield
        except NoDurableState as error:
            self.add("error:NoDurableState")
            self.say(error.sentence)
        except Exception as error:  # noqa: BLE001  the one place where everything is caught
            self.add(f"error:{type(error).__name__}")
            self.say(f"something went wrong inside: {type(error).__name__}")

    def forked(self) -> None:
        """In a child: whoever held the lock is not there to release it."""
        self._lock = threading.RLock()
