"""Pauses in the collection: a period without a live key collects nothing, and devices stay silent in it.

That happens after a revocation and after a restore without keys. Periods that have begun, or begin within two cache
lifetimes of the bundle, get no other key: a second one would split their crowd. Even with periods of seconds, such a
pause lasts hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.period import Calendar
    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.storage import StoredKey
    from hubbub_service_common.process.fault_episodes import Episode

__all__ = ["Collecting", "Pause", "pause_at"]


@dataclass(frozen=True, slots=True)
class Pause:
    """The present period has no live key."""

    until: int | None
    """When the next period with one begins, in Unix seconds; None if no key is made for one yet."""

    @property
    def end(self) -> str:
        """When reports are collected again, in words."""
        if self.until is None:
            return "a key is made"
        return f"{datetime.fromtimestamp(self.until, UTC):%Y-%m-%d %H:%M:%S} UTC"


def pause_at(now: float, calendar: Calendar, keys: Sequence[StoredKey]) -> Pause | None:
    """None if the present period has a live key."""
    present = calendar.index_at(now)
    coming = [max(key.first_period, present) for key in keys if not key.revoked and key.last_period >= present]
    if present in coming:
        return None
    return Pause(calendar.period(min(coming)).start if coming else None)


@dataclass(slots=True)
class Collecting:
    """The pause as of the last look, for answers that must not wait for the storage."""

    log: Episode
    pause: Pause | None = None
    ended: str | None = None
    """What to say if a total has ended the collection."""

    def look(self, now: float, codebooks: Codebooks, keys: Sequence[StoredKey]) -> None:
        """See whether there is a pause now, and say in the log when it begins and ends."""
        begun = codebooks.to_come(now) is None  # before the first codebook there is nothing to pause
        self.ended = codebooks.why_closed(now)
        self.pause = pause_at(now, codebooks.collection.calendar, keys) if begun and not self.ended else None
        if (said := self.warning()) is None:
            self.log.none()
        else:
            self.log.fault(said)

    def warning(self) -> str | None:
        if self.pause is None:
            return self.ended
        return (
            f"no live key for the present period until {self.pause.end}: nothing is collected before that. A key was "
            "revoked, by hand or by a restore without keys, and a second one would split the crowds of periods for "
            "which devices may hold it"
        )
