"""Periods as people name them, in a title and in a list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

__all__ = ["between", "in_list", "named"]


def named(label: str) -> str:
    """One period by its start, or any moment: "18 Nov 2026", or with its time of day and zone."""
    from hubbub_aggregator.dashboard.formatting import date

    return date(label)


def between(start: str, end: str) -> str:
    """A range of periods whose end is left out, as the API gives it."""
    from hubbub_aggregator.dashboard import formatting

    return formatting.between(start, end)


def in_list(labels: Sequence[str]) -> list[str]:
    """Each period by its start (UTC), without what a title above the list says for all of them.

    Periods of one day have their time only, and those of one year have no year. A whole day always has its year: that
    is how people write a date.
    """
    starts = [_utc(label) for label in labels]
    if not any("T" in label for label in labels):
        return [_day(start) for start in starts]
    clock = "%H:%M:%S" if any(start.second for start in starts) else "%H:%M"
    if len({start.date() for start in starts}) == 1:
        return [f"{start:{clock}}" for start in starts]
    if len({start.year for start in starts}) == 1:
        return [f"{start.day} {start:%b} {start:{clock}}" for start in starts]
    return [f"{_day(start)} {start:{clock}}" for start in starts]


def _utc(label: str) -> datetime:
    found = datetime.fromisoformat(label)
    return found if found.tzinfo is None else found.astimezone(UTC)


def _day(start: datetime) -> str:
    return f"{start.day} {start:%b %Y}"
