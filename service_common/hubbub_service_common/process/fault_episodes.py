"""Fault episodes: the log says once that a lasting fault has begun and once that it is over, not at every attempt."""

from __future__ import annotations

import logging

__all__ = ["Episode"]


class Episode:
    """One kind of fault. `over`: the log line for its end."""

    def __init__(self, log: logging.Logger, over: str) -> None:
        self._log, self._over = log, over
        self._said: str | None = None

    @property
    def lasts(self) -> bool:
        return self._said is not None

    def fault(self, text: str) -> None:
        """The fault is there. It is logged unless the last line about it had the same text."""
        if text != self._said:
            self._log.error(text)
        self._said = text

    def none(self) -> None:
        """There is no fault, or it is over."""
        if self._said is not None:
            self._log.warning(self._over)
        self._said = None
