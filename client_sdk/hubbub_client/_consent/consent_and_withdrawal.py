"""Participation on disk: since when there is consent, and what is deleted when it is withdrawn."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hubbub_client._consent.opt_out_file import OptOut
from hubbub_client._integrity.quarantine import forget_damaged
from hubbub_client._state.database import State

__all__ = ["Participation", "enabled_since", "withdraw"]


def enabled_since(connection: sqlite3.Connection) -> float | None:
    """Since when there is consent; None if it was withdrawn, by any thread or process.

    For use inside a transaction that writes, which must not wait for the app's own answer.
    """
    row = connection.execute("SELECT value FROM facts WHERE name = 'enabled_since'").fetchone()
    return None if row is None else float(row[0])


class Participation:
    """The last answer that was acted on."""

    def __init__(self, state: State, optout: OptOut) -> None:
        self._state, self._optout = state, optout
        self._given: bool | None = None
        self._withdrawn = False
        self._generation = 0

    def answer(self, given: bool, now: float, *, within: float | None = None) -> None:
        """Act on the person's answer if it has changed, waiting at most `within` seconds for other threads and
        processes. NoDurableState: it was not done, and the next answer tries again."""
        if self._acted_on(given):
            return
        with self._state.alone(within):  # so that another thread's answer does not overtake this one
            if not self._acted_on(given):
                self._act(given, now)

    def _acted_on(self, given: bool) -> bool:
        return given == self._given and self._generation == self._state.generation

    def _act(self, given: bool, now: float) -> None:
        self._given, self._generation = None, self._state.generation
        self._withdrawn = self._withdrawn or not given
        if given or self._state.exists():  # a person who says no gets not even an empty file
            with self._state.transaction() as connection:
                if self._withdrawn:  # also if consent came back before this could be done
                    _forget(connection)
                if given and not self._optout.given():  # switched off since the answer was asked for?
                    connection.execute("INSERT OR IGNORE INTO facts VALUES ('enabled_since', ?)", (now,))
            if self._withdrawn and not self._state.scrub(patient=True) and not given:
                return  # still in the log, as another process is reading: the next answer tries again
        if self._withdrawn:
            forget_damaged(self._state.path)
        self._given, self._withdrawn = given, False

    def forget_answer(self) -> None:
        """Another client may have heard of a withdrawal: act on the next answer even if it is the same."""
        self._given = None


def withdraw(directory: Path, now: float) -> None:
    """Delete every value and unsent report of a directory that no client of this process has open. NoDurableState: it
    was not done, and the next client does it."""
    state = State(directory)
    try:
        Participation(state, OptOut(directory)).answer(False, now)
    finally:
        state.close()


def _forget(connection: sqlite3.Connection) -> None:
    """Delete every value and unsent report. What was spent stays spent."""
    connection.execute("DELETE FROM reductions")
    connection.execute("DELETE FROM outbox")
    connection.execute("DELETE FROM facts WHERE name = 'enabled_since'")
