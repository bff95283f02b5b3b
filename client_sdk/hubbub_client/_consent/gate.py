"""The consent gate: asked before anything is recorded or sent.

A cycle acts on the answer: it writes down since when there is consent, and deletes what must go without it. A `record`
only asks, as anything it did about the answer could be seen from outside.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from hubbub_client._consent.consent_and_withdrawal import enabled_since, withdraw

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub_client._consent.consent_and_off_switches import Consent
    from hubbub_client._consent.consent_and_withdrawal import Participation
    from hubbub_client._counters import Counts
    from hubbub_client._recording.in_memory_queue import InMemoryQueue
    from hubbub_client._state.database import State

__all__ = ["ConsentGate"]


class ConsentGate:
    """Whether this client may record, and whether it may send. `close` shuts it for good."""

    def __init__(
        self,
        consent: Consent,
        participation: Participation,
        state: State,
        queue: InMemoryQueue,
        counts: Counts,
        clock: Callable[[], float],
    ) -> None:
        self._consent, self._participation, self._state = consent, participation, state
        self._queue, self._counts, self._clock = queue, counts, clock
        self._closed = False

    def is_given(self) -> bool:
        """The person's answer now. Does not act on it."""
        return self._consent.given()

    def why_not(self) -> str:
        """Why there is no consent, for a developer."""
        return self._consent.why_not()

    def may_record(self) -> bool:
        """Whether there is consent now. Without it, values that wait in memory are deleted at once; the next cycle does
        the rest."""
        return self._given()

    def may_send(self) -> bool:
        """Whether there is consent now. When the answer changes, what is kept on disk changes with it."""
        if self._closed:
            return False
        given = self._given()
        with nullcontext() if given else self._counts.guarding():  # without consent the caller does nothing more
            self._participation.answer(given, self._clock())
        return given

    def is_on_file(self) -> bool:
        """Whether the file, too, says that there is consent. If another process has withdrawn it, ask and act on the
        answer again."""
        with self._state.reading() as connection:
            if enabled_since(connection) is not None:
                return True
        self._participation.forget_answer()
        return self.may_send()

    def act_on_opt_out(self) -> None:
        """Act now on the person's decision to switch this client off."""
        if self._closed:
            withdraw(self._state.path.parent, self._clock())
        self._participation.forget_answer()
        self.may_send()

    def close(self) -> None:
        self._closed = True

    def _given(self) -> bool:
        given = self._consent.given()
        if not given:
            self._queue.clear()
        return given
