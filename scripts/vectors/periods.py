"""tests/vectors/v1/periods.json: which period a time lies in, and how long it takes reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hubbub.errors import InvalidParameter
from hubbub.period import Calendar, duration_seconds

__all__ = ["period_at", "periods"]

_DAY = 86_400
_LAST = 253_402_300_799
"""The last second of the year 9999."""


def periods() -> dict[str, Any]:
    return {"times": list(_times()), "periods": list(_periods()), "lengths": list(_lengths())}


def period_at(case: dict[str, Any]) -> dict[str, Any] | None:
    """The period of a length and a time in thousandths of a second, or None where there is none."""
    try:
        period = Calendar(case["seconds"]).at(case["milliseconds"] / 1000)
    except InvalidParameter:
        return None
    return _described(case["seconds"], period.index, case["grace"])


def _described(seconds: int, index: int, grace: int) -> dict[str, Any]:
    period = Calendar(seconds).period(index)
    return {"index": index, "start": period.start, "end": period.end, "closes_at": period.closes_at(grace)}


def _times() -> Iterator[dict[str, Any]]:
    for text in ("1s", "15m", "1h", "6h", "1d", "3d", "7d", "2w", "52w", "520w"):
        seconds = duration_seconds(text)
        border = Calendar(seconds).at(1_800_000_000).start
        for time in (0, border - 1, border, border + seconds - 1, border + seconds, 4 * _DAY - 1, 4 * _DAY):
            yield _timed(seconds, 1_000 * time)
        yield _timed(seconds, 1_000 * border - 1)
        yield _timed(seconds, 1_000 * border + 999)
    for seconds in (1, _DAY, 3 * _DAY, 7 * _DAY):
        for time in (-1, _LAST - 8 * _DAY, _LAST - _DAY, _LAST, _LAST + 1, 2**32 - 1, 2**32):
            yield _timed(seconds, 1_000 * time)
    yield _timed(_DAY, -1)


def _timed(seconds: int, milliseconds: int) -> dict[str, Any]:
    case = {"seconds": seconds, "milliseconds": milliseconds, "grace": seconds // 2 or 1}
    return case | {"period": period_at(case)}


def _periods() -> Iterator[dict[str, Any]]:
    """Periods by their index, or null where there is none."""
    for seconds, index in (
        *((1, index) for index in (0, 2**32 - 1, 2**32, -1)),
        *((_DAY, index) for index in (0, 20_800, 2_932_895, 2_932_896)),
        *((7 * _DAY, index) for index in (0, 1, 418_984, 418_985, 418_986)),
    ):
        try:
            period = _described(seconds, index, _DAY)
        except InvalidParameter:
            period = None
        yield {"seconds": seconds, "index": index, "grace": _DAY, "period": period}


def _lengths() -> Iterator[dict[str, Any]]:
    """Lengths that a calendar may have, and others."""
    good = (1, 2, 5, 60, 7 * 60 + 12, 8_640, 43_200, _DAY, 2 * _DAY, 3 * _DAY, 7 * _DAY, 14 * _DAY, 520 * 7 * _DAY)
    for seconds in (*good, 0, -1, 7, 7 * 3_600, 36 * 3_600, _DAY + 1, 520 * 7 * _DAY + _DAY):
        try:
            start = Calendar(seconds).origin
        except InvalidParameter:
            start = None
        yield {"seconds": seconds, "start_of_period_0": start}
