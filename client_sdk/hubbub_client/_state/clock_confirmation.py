"""When a second look at the clock counts: the rule before anything is deleted for its time.

A wall clock may be set to any time, twice within a minute. Time that passed is believed by another clock, which only
runs: two looks count if an hour of it lies between them. It is good for one *run*: from boot to boot where the system
tells boots apart, else one life of a process.

An app that runs for a minute a day has no such hour where each of its runs stands alone. There the third run counts, if
each came an hour or more after the one before it by the wall clock. So what is over is kept for an hour of running, or
for two more runs, and not for ever.

A look that finds the clock before an earlier one begins anew. Nothing here depends on what was recorded.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Look", "Moment", "read", "this_run", "write"]

SECOND_LOOK = 3_600.0
"""Seconds between two looks."""
_RUNS = 3
"""So many runs that stand alone count as much as an hour of one."""
_REMEMBERED = 4
"""Runs whose clocks are remembered: processes that take turns, where each is a run of its own."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """A look at both clocks."""

    now: float
    """By the wall clock."""
    running: float
    """By the clock that only runs; of one run."""
    run: str


@cache
def this_run() -> str:
    """What stands for it. Not the system's own name of the boot, which other files may have, too."""
    with suppress(OSError):
        return hashlib.sha256(b"hubbub run " + _BOOT.read_bytes()).hexdigest()[:16]
    return secrets.token_hex(8)  # a child of this process goes by the same clock


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of looks that found the same."""

    counted: tuple[float, ...]
    """The wall clock at the first look of runs, each an hour or more after the one before."""
    runs: tuple[Moment, ...]
    """The first look of each of the last runs."""

    @classmethod
    def first(cls, moment: Moment) -> Look:
        return cls((moment.now,), (moment,))

    def then(self, moment: Moment) -> tuple[Look, float | None]:
        """What is known after another one; if it counts, also the time up to which that is sure."""
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
    """What was noted under this name, if it can be understood."""
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
