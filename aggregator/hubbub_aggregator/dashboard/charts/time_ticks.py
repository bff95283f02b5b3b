"""Ticks of a time axis: they stand on periods, have round dates, and the newest period always has its label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

__all__ = ["Tick", "time_ticks"]

_EPOCH = datetime(1970, 1, 5, tzinfo=UTC)
"""A Monday, so that weeks begin on one."""
_MOST = 7
"""Most labels beside the newest."""
_ROOM, _ROOM_NARROW = 0.115, 0.22
"""Share of the chart that a label needs, with space: on a wide chart and on a phone."""
_NEWEST, _NEWEST_NARROW = 0.15, 0.42
"""The same for the newest, which has its whole date and ends at its period."""
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 7, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)

Bucket = Callable[[datetime], object]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label under the period at this place."""

    at: int
    words: str
    is_newest: bool = False
    is_wide: bool = False
    """Only a wide chart has room for it."""


def time_ticks(periods: Sequence[str]) -> list[Tick]:
    """Ticks for the labels of periods, oldest first."""
    if not periods:
        return []
    times = [_moment(label) for label in periods]
    last = len(times) - 1
    chosen, narrow = _chosen(times), set[int]()
    for at in reversed(chosen):
        if (last - at) / len(times) >= _NEWEST_NARROW and all((b - at) / len(times) >= _ROOM_NARROW for b in narrow):
            narrow.add(at)
    has_time = any("T" in label for label in periods)
    return [
        *(Tick(at, words, is_wide=at not in narrow) for at, words in chosen.items() if at != last),
        Tick(last, _whole(times[last], has_time=has_time), is_newest=True),
    ]


def _chosen(times: Sequence[datetime]) -> dict[int, str]:
    """Places of the finest round dates that leave room for their labels, and for that of the newest."""
    size = len(times)
    for kind, bucket in _steps():
        keys = [bucket(time) for time in times]
        found = [at for at, key in enumerate(keys) if (key != keys[at - 1] if at else _begins(times[0], bucket, times))]
        if len(found) > _MOST or any((b - a) / size < _ROOM for a, b in pairwise(found)):
            continue
        free = [at for at in found if (size - 1 - at) / size >= _NEWEST]
        return {at: _words(times[at], is_first=not index, kind=kind) for index, at in enumerate(free)}
    return {}


def _begins(first: datetime, bucket: Bucket, times: Sequence[datetime]) -> bool:
    """Whether the first period begins a round span, rather than lying somewhere inside it."""
    length = times[1] - first if len(times) > 1 else timedelta(days=1)
    return bucket(first) != bucket(first - length)


def _steps() -> list[tuple[str, Bucket]]:
    def seconds(step: int) -> Bucket:
        return lambda time: int((time - _EPOCH).total_seconds()) // step

    def months(step: int) -> Bucket:
        return lambda time: (12 * time.year + time.month - 1) // step

    return [
        *(("time", seconds(step)) for step in _SECONDS),
        *(("day", seconds(86_400 * step)) for step in _DAYS),
        *(("month", months(step)) for step in _MONTHS),
    ]


def _words(time: datetime, is_first: bool, kind: str) -> str:
    if kind == "time":
        if time.hour == time.minute == time.second == 0:
            return f"{time.day} {time:%b}"
        return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"
    if kind == "day":
        return f"{time.day} {time:%b}"
    return f"{time:%b %Y}" if is_first or time.month == 1 else f"{time:%b}"


def _whole(time: datetime, *, has_time: bool) -> str:
    clock = f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"
    return f"{time.day} {time:%b}, {clock}" if has_time else f"{time.day} {time:%b %Y}"


def _moment(label: str) -> datetime:
    when = datetime.fromisoformat(label)
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
