"""The cool-down: how long the service is left alone, because it asked for that or because cycles fail.

It is kept across restarts, so that a tool that runs for a second does not try a dead service each time.

The worker and `flush` both honour `Retry-After`. Only the worker waits after a failed cycle, as a caller of `flush`
wants to try now. Both times are kept as moments of the wall clock. A moment that is too far ahead is not believed, so a
wrong clock silences no device for long.

Each lane of the outbox cools down by itself. What becomes of reports that were sent because something was recorded must
not show in when the others are sent.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub_client._sending.upload import LONGEST_RETRY_AFTER
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub_client._sending.backoff import Pace
    from hubbub_client._sending.outbox import Lane
    from hubbub_client._sending.sending_coins import Coins
    from hubbub_client._state.database import State

__all__ = ["CoolDown"]

_LONGEST = 900.0
"""Seconds. The longest pause between two cycles of the worker, however many have failed."""
_FACTS = ("asked_until", "rest_until", "failures")


@dataclass
class CoolDown:
    """When a lane may be tried again, by the monotonic clock of `pace`."""

    state: State
    pace: Pace
    clock: Callable[[], float]
    coins: Coins
    lane: Lane
    _asked_until: float = 0.0
    _rest_until: float = 0.0
    _failures: int = 0

    def resume(self) -> None:
        """Continue the cool-down that the last run kept."""
        with self.state.reading() as connection:
            prefix = f"{self.lane.value}:%"
            facts = dict(connection.execute("SELECT name, value FROM facts WHERE name LIKE ?", (prefix,)))
        kept = {name: facts[key] for name, key in self._names() if isinstance(facts.get(key), int | float)}
        now, passed = self.clock(), self.pace.monotonic()
        for name, longest in (("asked_until", LONGEST_RETRY_AFTER), ("rest_until", _LONGEST)):
            left = kept.get(name, now) - now
            if 0 < left <= longest:
                setattr(self, f"_{name}", passed + left)
        self._failures = kept.get("failures", 0)

    def note_retry_after(self, seconds: float) -> None:
        """The service asked the device to wait this many seconds."""
        if seconds > 0:
            self._asked_until = max(self._asked_until, self.pace.monotonic() + seconds)
            self._keep()

    def failed(self) -> None:
        """A cycle of the worker failed. The pause grows with each failure."""
        patient = replace(self.pace, longest=_LONGEST)
        self._rest_until = self.pace.monotonic() + patient.backoff(
            self._failures, self.coins.of("retry", self.lane.value, self._failures)
        )
        self._failures += 1
        self._keep()

    def succeeded(self) -> None:
        if self._failures:
            self._failures, self._rest_until = 0, 0.0
            self._keep()

    def retry_after_left(self) -> float:
        """Seconds that `flush` has to wait; 0 or less when it need not."""
        return self._asked_until - self.pace.monotonic()

    def seconds_left(self) -> float:
        """Seconds that the worker has to wait; 0 or less when it need not."""
        return max(self._asked_until, self._rest_until) - self.pace.monotonic()

    def _keep(self) -> None:
        shift = self.clock() - self.pace.monotonic()
        values = self._asked_until + shift, self._rest_until + shift, self._failures
        with (
            suppress(NoDurableState),
            self.state.transaction() as connection,
        ):  # else the next run tries at once
            rows = [(key, value) for (_, key), value in zip(self._names(), values, strict=True)]
            connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def _names(self) -> list[tuple[str, str]]:
        """Each fact, and its name in the file."""
        return [(name, f"{self.lane.value}:{name}") for name in _FACTS]
