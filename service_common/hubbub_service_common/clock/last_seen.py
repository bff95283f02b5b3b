"""The last-seen file: when a service last ran under a believed clock. The next start compares its clock with it.

Where both services are on one machine, they agree on whatever time it booted with. Until the machine reboots, its
monotonic clock tells how much later it is now, however long the service was stopped. After a reboot, up to an hour may
have passed. If the clock says more, either it is wrong or the service was away for long; nothing can tell which.

While a clock is in doubt, the file also has how long the service has run under it, so that short sessions add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT, TOLERANCE, Run
from hubbub_service_common.process import atomic_files

if TYPE_CHECKING:
    from hubbub_service_common.clock.trusted_clock import TrustedClock

__all__ = ["FILE", "LastSeen", "this_boot"]

FILE = "last-seen"
"""In the state directory. First line: the boot of the machine, its monotonic clock and its wall clock, as last
believed. Then a line for each run since: its seconds, and the clock at its start.
"""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "-"
_EVERY = 60.0
"""Seconds between two notes."""


def this_boot() -> str:
    """A name for this boot of this machine; containers on it share the name."""
    try:
        return _BOOT.read_text("ascii").strip() or _UNKNOWN
    except OSError:  # not Linux
        return _UNKNOWN


class LastSeen:
    """The file in one state directory. For a clock that is set on purpose it does nothing."""

    def __init__(self, directory: Path, clock: TrustedClock) -> None:
        self._file, self._clock, self._boot = directory / FILE, clock, this_boot()
        self._noted = -math.inf
        self._believed = ""
        """The first line of the file."""

    def recall(self, *, confirmed: bool = False) -> None:
        """Compare the clock with the file, once, at the start. Without a file nothing is known.

        `confirmed`: the operator says that the clock is right at this start. Then the file is not read.
        """
        if self._clock.is_set_on_purpose:
            return
        if confirmed:
            self._clock.recall(-math.inf, math.inf)
            return
        try:
            first, *others = self._file.read_text("ascii").splitlines()
            boot, running, wall = first.split()
            then, seen = int(running), int(wall)
            runs = [Run(*map(int, line.split())) for line in others]
        except (OSError, ValueError, TypeError):
            return
        self._believed = first
        if boot == self._boot != _UNKNOWN:
            now = seen + self._clock.monotonic() - then
            self._clock.recall(now - TOLERANCE, now + TOLERANCE, runs)
        else:
            self._clock.recall(seen - TOLERANCE, seen + LONGEST_WAIT, runs)

    def note(self, believed: float) -> None:
        """Note that the service runs. `believed`: the clock's time, or minus infinity if it is not believed.

        A time that is not believed is not kept, since it would vouch for itself at the next start. Only how long the
        service ran under it is kept.
        """
        running = self._clock.monotonic()
        if self._clock.is_set_on_purpose or running - self._noted < _EVERY:
            return
        runs: Sequence[Run] = ()
        if believed > -math.inf:
            self._believed = f"{self._boot} {int(running)} {int(believed)}"
        elif self._believed:
            runs = self._clock.runs()
        else:
            return  # no believed time is known
        lines = [self._believed, *(f"{int(run.seconds)} {int(run.start)}" for run in runs)]
        with suppress(OSError):  # a full disk shows elsewhere; within one boot an older note is as good
            atomic_files.write(self._file, "".join(f"{line}\n" for line in lines).encode("ascii"))
            self._noted = running
