"""When a service last ran under a clock that was believed, in a file: what its clock is held against at the next start.

Where both services are on one machine they agree on whatever time it booted with. Until the machine reboots, its
monotonic clock tells how much later it is now, however long the service was stopped. After a reboot it can be up to an
hour later. If the clock says more, either it is wrong or the service was away for long, and there is no way to tell.

While a clock is in doubt, the file has behind that how long the service has run under it: short sessions add up.
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
"""In the state directory: which boot of which machine, its monotonic clock and its wall clock, as it was believed last.
Behind that a line for each run since then: its seconds, and the clock at its start.
"""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "-"
_EVERY = 60.0
"""Seconds between two notes."""


def this_boot() -> str:
    """Names this boot of this machine; containers on it share the name."""
    try:
        return _BOOT.read_text("ascii").strip() or _UNKNOWN
    except OSError:  # another system than Linux
        return _UNKNOWN


class LastSeen:
    """The file of one state directory. For a clock that is set on purpose it does nothing."""

    def __init__(self, directory: Path, clock: TrustedClock) -> None:
        self._file, self._clock, self._boot = directory / FILE, clock, this_boot()
        self._noted = -math.inf
        self._believed = ""
        """The first line of the file."""

    def recall(self, *, confirmed: bool = False) -> None:
        """Hold the clock against the file, once, at the start. Without a file nothing is known.

        `confirmed`: the operator says that the clock is right at this start. Then the file is not asked.
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
        """That the service runs; `believed`: as the clock has it, minus infinity if it can't be believed.

        A time that is not believed would vouch for itself at the next start: only for how long it lasted is kept.
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
            return  # nothing is known of any other time
        lines = [self._believed, *(f"{int(run.seconds)} {int(run.start)}" for run in runs)]
        with suppress(OSError):  # a full disk shows elsewhere; an older note is as good within one boot
            atomic_files.write(self._file, "".join(f"{line}\n" for line in lines).encode("ascii"))
            self._noted = running
