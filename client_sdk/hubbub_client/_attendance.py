"""Taking part, on disk: since when there is consent, and what must go when it is withdrawn."""

from __future__ import annotations

import sqlite3

from hubbub_client._state import State

__all__ = ["Attendance", "enabled_since"]


def enabled_since(connection: sqlite3.Connection) -> float | None:
    """Since when there is consent; None when it was withdrawn, by whichever thread or process heard of it.

    Asked inside a transaction that writes, where the app's own answer must not be waited for.
    """
    row = connection.execute("SELECT value FROM facts WHERE name = 'enabled_since'").fetchone()
    return None if row is None else float(row[0])


class Attendance:
    """The last answer that was acted on."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._given: bool | None = None
        self._withdrawn = False

    def answer(self, given: bool, now: float) -> None:
        """Act on the person's answer if it has changed. NoDurableState: not done, and the next answer tries again."""
        if given == self._given:
            return
        self._given = None
        self._withdrawn = self._withdrawn or not given
        if given or self._state.exists():  # if not, then not even an empty file for someone who said no
            with self._state.transaction() as connection:
                if self._withdrawn:  # also when consent is back before this could be done
                    _forget(connection)
                if given:
                    connection.execute("INSERT OR IGNORE INTO facts VALUES ('enabled_since', ?)", (now,))
        self._given, self._withdrawn = given, False

    def doubt(self) -> None:
        """Someone else heard of a withdrawal: act on the next answer even if it is the same."""
        self._given = None


def _forget(connection: sqlite3.Connection) -> None:
    """Every value and unsent report goes. What was spent stays spent."""
    connection.execute("DELETE FROM reductions")
    connection.execute("DELETE FROM outbox")
    connection.execute("DELETE FROM facts WHERE name = 'enabled_since'")
