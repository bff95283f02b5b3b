"""Confirmation of the wall clock: when a second look at it counts, before anything is deleted because of its age.

A wall clock may be set to any time, twice within a minute. The monotonic clock tells how much time really passed: two
looks count if an hour of it lies between them. It is good for one *run*: from boot to boot where the system tells boots
apart, otherwise for the life of one process.

An app that runs for a minute a day never has such an hour if each process is a run of its own. Then the third run
counts, if each came an hour or more after the one before it by the wall clock. So old data is kept for an hour of
running, or for two more runs, and not for ever.

A look that finds the clock before an earlier look starts over. Nothing here depends on what was recorded.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hubbub_client._process.clock_and_entropy import token

__all__ = ["Look", "Moment", "read", "this_run", "write"]

SECOND_LOOK = 3_600.0
"""Seconds between two looks."""
_RUNS = 3
"""Separate runs that count as much as an hour of one run."""
_REMEMBERED = 4
"""Runs whose clocks are remembered, for processes that take turns where each is a run of its own."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """A look at both clocks."""

    now: float
    """By the wall clock."""
    running: float
    """By the monotonic clock, which is good within `run` only."""
    run: str


@cache
def this_run() -> str:
    """A name for this run. It is not the system's own id of the boot, which other files may hold, too."""
    with suppress(OSError):
        return hashlib.sha256(b"hubbub run " + _BOOT.read_bytes()).hexdigest()[:16]
    return token(8)  # a forked child shares it, as it shares the clock


@dataclass(frozen=True, slots=True)
class Look:
    """What is known from looks that found the same."""

    counted: tuple[float, ...]
    """The wall clock at the first look of runs, each an hour or more after the one before."""
    runs: tuple[Moment, ...]
    """The first look of each of the last runs."""

    @classmethod
    def first(cls, moment: Moment) -> Look:
        return cls((moment.now,), (moment,))

    def then(self, moment: Moment) -> tuple[Look, float | None]:
        """What is known after another look; if it counts, also the time that is confirmed to be over."""
        ours = next((each for each in self.runs if each.run == moment.run and each.running <= moment.running), None)
        if moment.now < (ours.now if ours else self.counted[-1]):
            return Look.first(moment), None
        if ours is not None:
            passed = moment.running - ours.running >= SECOND_LOOK
            return (Look.first(moment), ours.now) if passed else (self, None)
        apart = moment.now >= self.counted[-1] + SECOND_LOOK
        counted = (*self.counted, moment.now) if apart else self.counted
        if len(counted) >= _RUNS:
            return Look.first(moment), counted[0]
        others = [each for each in self.runs if each.run != moment.run]
        return Look(counted, (*others, moment)[-_REMEMBERED:]), None


def read(connection: sqlite3.Connection, name: str) -> Look | None:
    """The look that is kept under this name, if it can be read."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    with suppress(ValueError, TypeError, LookupError):
        if row is not None:
            counted, runs = json.loads(row[0])
            found = [Moment(float(now), float(running), str(run)) for now, running, run in runs]
            return Look(tuple(float(each) for each in counted), tuple(found)) if counted else None
    return None


def write(connection: sqlite3.Connection, name: str, look: Look | None) -> None:
    if look is None:
        connection.execute("DELETE FROM facts WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps([look.counted, look.runs])))
