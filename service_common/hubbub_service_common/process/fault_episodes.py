"""A fault that lasts is said once in the log, and its end is, too; not a line at every attempt."""

from __future__ import annotations

import logging

__all__ = ["Episode"]


class Episode:
    """One kind of fault. `over`: what is said when it has ended."""

    def __init__(self, log: logging.Logger, over: str) -> None:
        self._log, self._over = log, over
        self._said: str | None = None

    @property
    def lasts(self) -> bool:
        return self._said is not None

    def fault(self, text: str) -> None:
        """It is there: said now unless these words were the last ones about it."""
        if text != self._said:
            self._log.error(text)
        self._said = text

    def none(self) -> None:
        """It is not there, or no longer."""
        if self._said is not None:
            self._log.warning(self._over)
        self._said = None
