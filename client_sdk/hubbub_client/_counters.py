"""Counters of what happened to values and reports, and a log that says each thing once. Neither ever shows a value."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from hubbub_client._development_notices import BY_COUNT, notify, would_be_shown
from hubbub_client._state.errors import NoDurableState

__all__ = ["LOGGER", "Counts", "Event", "Kind"]

LOGGER = "hubbub_client"
"""The one logger of the SDK."""


class Kind(Enum):
    """The kinds of events that are counted."""

    OUTCOME = "outcome"
    """The outcome of a `record`."""
    LATE = "late"
    """The outcome of a value that waited in memory."""
    LOST = "lost"
    """A value that no report will hold."""
    REPORT = "report"
    """A report that was randomized, or acknowledged."""
    DROPPED = "dropped"
    """A report that was given up."""
    RETRIED = "retried"
    """A report that will be sent again."""
    BUNDLE = "bundle"
    """A bundle that was refused or could not be fetched."""
    CODEBOOK = "codebook"
    """A codebook that is not used."""
    STATE = "state"
    """Something that happened to the state file."""
    ERROR = "error"
    """An exception of the SDK, by its type."""


_SHOWN_BY_REASON = (Kind.OUTCOME, Kind.REPORT)


class Event(NamedTuple):
    """One thing that is counted: its kind and the reason, or the name of the outcome."""

    kind: Kind
    reason: str

    @property
    def name(self) -> str:
        """As `Client.stats` shows it."""
        return self.reason if self.kind in _SHOWN_BY_REASON else f"{self.kind.value}:{self.reason}"


class Counts:
    """How often each event happened. Safe to use from any thread."""

    def __init__(self, *, in_development: bool = False) -> None:
        self._lock = threading.RLock()  # a signal handler may record in the middle of a record
        self._counts: Counter[Event] = Counter()
        self._said: set[str] = set()
        self.in_development = in_development
        """Whether a developer reads stderr: see `_development_notices`."""

    def add(self, kind: Kind, reason: str, by: int = 1) -> None:
        with self._lock:
            self._counts[Event(kind, reason)] += by
        self._explain(Event(kind, reason))

    def update(self, counts: Mapping[Event, int]) -> None:
        with self._lock:
            self._counts.update(counts)
        for event in counts if self.in_development else ():
            self._explain(event)

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return {event.name: count for event, count in self._counts.items()}

    def warn_once(self, text: str, *, is_raised: bool = False) -> None:
        """Log a warning, the first time only, and tell a developer, unless it `is_raised`. `text` holds names, types
        and reasons; an empty one is not logged."""
        with self._lock:
            if not text or text in self._said or len(self._said) >= 1_000:
                return
            self._said.add(text)
        if not self._log(text) and not is_raised:
            self.tell_developer(text, text)

    def tell_developer(self, cause: str, text: str) -> None:
        """Write a line to stderr in development, once for each cause: why nothing is collected or sent, and what to do.
        It holds no recorded value."""
        if self.in_development:
            notify(cause, text)

    def _explain(self, event: Event) -> None:
        if self.in_development and (text := BY_COUNT.get(event.name)):
            notify(event.name, text)

    @staticmethod
    def _log(text: str) -> bool:
        """Whether the warning can be read on stderr now."""
        logging = sys.modules.get("logging")  # an import might never end in a forked child
        if logging is None or getattr(logging.__spec__, "_initializing", False):
            return False  # an app that has not loaded it has set up no logging, and would hear nothing
        logger = logging.getLogger(LOGGER)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # an app that set up no logging hears nothing from the SDK
        logger.warning(text)
        return would_be_shown(logger)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Let no error out: telemetry must not crash its host. The error's type is counted and logged, never its text,
        which may name a value."""
        try:
            yield
        except NoDurableState as error:
            self.add(Kind.ERROR, "NoDurableState")
            self.warn_once(error.sentence)
        except Exception as error:  # noqa: BLE001  the one place where everything is caught
            self.add(Kind.ERROR, type(error).__name__)
            self.warn_once(f"an error inside the SDK: {type(error).__name__}")

    def forked(self) -> None:
        """In a child: the thread that held the lock does not exist here."""
        self._lock = threading.RLock()
