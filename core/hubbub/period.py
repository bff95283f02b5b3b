"""Periods: the half-open spans of UTC time that reports belong to, each with an index.

    index = (time - origin) // length          start = origin + index * length

The origin is the Unix epoch, except for whole weeks, which start on a Monday. They count from Monday
1969-12-29, so that index 0 contains the epoch and every later time has a non-negative index. The length in
seconds alone decides the alignment ("7d" is "1w"), so two codebooks with the same length share one calendar.

Times are Unix seconds and are passed in. Nothing here reads a clock.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from hubbub.errors import InvalidParameter

__all__ = ["LARGEST_INDEX", "LONGEST_DURATION", "Calendar", "Period", "duration_seconds", "duration_text"]

DAY = 86_400
WEEK = 7 * DAY
_UNITS = {"w": WEEK, "d": DAY, "h": 3_600, "m": 60, "s": 1}
LONGEST_DURATION = 520 * WEEK
"""Seconds."""
_MONDAY_BEFORE_EPOCH = -3 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME = 253_402_300_800
"""The year 10000. Later periods have no name in ISO 8601."""
LARGEST_INDEX = 2**32 - 1
"""A period travels as an unsigned 32-bit integer."""


def duration_seconds(text: object) -> int:
    """A length as a person writes it ("30s", "15m", "6h", "1d", "2w"), in seconds."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhdw])", text) if isinstance(text, str) else None
    if match is None:
        raise InvalidParameter(
            f'a duration is a whole number and a unit (s, m, h, d or w), such as "6h", "1d" or "1w"; got {text!r}'
        )
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > LONGEST_DURATION:
        raise InvalidParameter(f"a duration is at most {duration_text(LONGEST_DURATION)}, got {text!r}")
    return seconds


def duration_text(seconds: int) -> str:
    """The one way to write a duration: the largest unit that leaves a whole number."""
    unit, size = next((unit, size) for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // size}{unit}"


@dataclass(frozen=True, slots=True)
class Calendar:
    """All periods of one length, end to end."""

    seconds: int
    origin: int = field(init=False, repr=False, compare=False)
    """Start of period 0, in Unix seconds."""

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int):
            raise InvalidParameter(f"a period's length is a whole number of seconds, got {self.seconds!r}")
        if not 1 <= self.seconds <= LONGEST_DURATION:
            raise InvalidParameter(
                f"a period lasts from 1s to {duration_text(LONGEST_DURATION)}, got {self.seconds} seconds"
            )
        if DAY % self.seconds and self.seconds % DAY:
            raise InvalidParameter(
                f"a period divides a day evenly, or is whole days or weeks; {duration_text(self.seconds)} does not",
                f'use "{duration_text(_nearest_length(self.seconds))}"',
            )
        object.__setattr__(self, "origin", _MONDAY_BEFORE_EPOCH if self.seconds % WEEK == 0 else 0)

    @classmethod
    def parse(cls, text: object) -> Self:
        """The calendar for a length written like "1h", "1d" or "1w"."""
        return cls(duration_seconds(text))

    def __str__(self) -> str:
        return duration_text(self.seconds)

    def index_at(self, time: float) -> int:
        """Index of the period that contains this time."""
        if not (0 <= time < _END_OF_TIME):  # also refuses NaN
            raise InvalidParameter(f"a time is in Unix seconds, from 1970 to the year 9999, got {time!r}")
        return self.period((math.floor(time) - self.origin) // self.seconds).index

    def at(self, time: float) -> Period:
        """The period that contains this time."""
        return self.period(self.index_at(time))

    def period(self, index: int) -> Period:
        """The period of this index."""
        return Period(self, index)

    def boundary(self, text: str) -> int:
        """Index of the period that starts at this ISO date or date-time (UTC unless it has an offset)."""
        try:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError, TypeError) as error:
            raise InvalidParameter(f"{text!r} is not a date: write it like 2027-01-04 or 2027-01-04T06:00Z") from error
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
        before = self.at(max(seconds, 0))
        if before.start != seconds or moment.microsecond:
            after = before.start + self.seconds
            raise InvalidParameter(
                f"{text} is not the start of a {self} period; the nearest are "
                f"{self._name(before.start)} and {self._name(after)}"
            )
        return before.index

    def range(self, start: str, end: str) -> range:
        """Indexes from one boundary up to the other, which is left out."""
        indexes = range(self.boundary(start), self.boundary(end))
        if not indexes:
            raise InvalidParameter(f"a range must end after it starts (the end is left out), got {start} to {end}")
        return indexes

    def _name(self, time: int) -> str:
        moment = _EPOCH + timedelta(seconds=time)
        if self.seconds % DAY == 0:
            return moment.date().isoformat()
        detail = "seconds" if self.seconds % 60 else "minutes"
        return moment.replace(tzinfo=None).isoformat(timespec=detail) + "Z"


@dataclass(frozen=True, slots=True)
class Period:
    """One period, from `start` up to `end`, which is not part of it."""

    calendar: Calendar
    index: int
    start: int = field(init=False, repr=False, compare=False)
    end: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.index, bool) or not isinstance(self.index, int):
            raise InvalidParameter(f"a period's index is a whole number, got {self.index!r}")
        object.__setattr__(self, "start", self.calendar.origin + self.index * self.calendar.seconds)
        object.__setattr__(self, "end", self.start + self.calendar.seconds)
        if not 0 <= self.index <= LARGEST_INDEX or self.end >= _END_OF_TIME:
            raise InvalidParameter(
                f"the {self.calendar} period of index {self.index} is before 1970, after the year 9999 "
                "or beyond 32 bits"
            )

    @property
    def label(self) -> str:
        """The start in ISO 8601. `Calendar.boundary` reads it back."""
        return self.calendar._name(self.start)

    def __contains__(self, time: float) -> bool:
        return self.start <= time < self.end

    def closes_at(self, grace: int) -> int:
        """When the bucket closes for good. From then on a report is late."""
        return self.end + grace

    def horizon(self, grace: int, forward_horizon: int) -> int:
        """When the period is over for everyone: batches are refused, and its nonces and private key are deleted."""
        return self.closes_at(grace) + forward_horizon


def _nearest_length(seconds: int) -> int:
    """The closest allowed length, for the error message."""
    if seconds > DAY:
        return round(seconds / DAY) * DAY
    return min((n for n in range(1, DAY + 1) if DAY % n == 0), key=lambda n: abs(n - seconds))
