"""A fake clock for tests, which moves only when the test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hubbub.period import Calendar, Period
from hubbub_client._sending.backoff import Pace

__all__ = ["FakeClock"]


class FakeClock:
    """The time of day and the monotonic time, both under the test's control: `Client(clock=clock, pace=clock.pace)`.

    It begins at `start` (ISO 8601, UTC unless it says otherwise) and counts periods of the length `period`.
    """

    def __init__(self, start: str = "2026-01-05T12:00:00Z", period: str = "1d") -> None:
        moment = datetime.fromisoformat(start)
        self.now = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        """Seconds since 1970. A test may set it, also back: devices must cope with that."""
        self.calendar = Calendar.parse(period)
        self._passed = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float = 0.0, **more: Any) -> None:
        """Let time pass, in seconds or in the units of `datetime.timedelta`: advance(days=1, hours=2)."""
        by = timedelta(seconds=seconds, **more).total_seconds()
        self.now += by
        self._passed += by

    def next_period(self, count: int = 1) -> None:
        """Go to the beginning of the period that is `count` ahead."""
        self.advance(self.calendar.period(self.period.index + count).start - self.now)

    @property
    def period(self) -> Period:
        """The current period."""
        return self.calendar.at(self.now)

    @property
    def pace(self) -> Pace:
        """Pauses that take no real time: waiting moves this clock."""
        return Pace(monotonic=lambda: self._passed, sleep=self.advance)

    def __repr__(self) -> str:
        return f"FakeClock({datetime.fromtimestamp(self.now, UTC).isoformat()})"
