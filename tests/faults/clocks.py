"""Wrong clocks: libfaketime gives a process a wall clock that can be set as it runs. Its monotonic clock stays true."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["NO_FAKETIME", "Clock", "faketime", "offset_text"]

NO_FAKETIME = "libfaketime is not installed: run scripts/libfaketime.sh, or install Debian's package libfaketime"


def faketime() -> str | None:
    """The library, where it is installed."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") + glob.glob("/usr/lib*/faketime/libfaketimeMT.so.1")
    return found[0] if found else None


class Clock:
    """The clock of one party: right, until it is set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        """Ahead by so much, or behind if it is less than 0; at once, in all processes that have it."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        os.replace(fresh, self._file)  # nobody reads half of it

    def environment(self) -> Mapping[str, str]:
        """For processes that are to have this clock."""
        library = faketime()
        assert library is not None, NO_FAKETIME
        return {
            # libc's own malloc: the jemalloc of a Redis asks for the time before the library is ready
            "LD_PRELOAD": f"{library}:libc.so.6",
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": str(Path(__file__).with_name("faked")),  # lets Python sleep, which this library prevents
        }


def offset_text(seconds: int) -> str:
    """As a person writes it: +2h."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size:+d}{unit}"
    return f"{seconds:+d}s"
