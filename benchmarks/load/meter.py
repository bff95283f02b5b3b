"""CPU-seconds of each part of a run, over all its processes, including those killed during the run. Linux only."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

__all__ = ["Meter"]

_EVERY = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Reads every process of each part twice a second. The time of an ended process counts as last read."""

    def __init__(self, parts: Mapping[str, Callable[[], list[int]]]) -> None:
        """`parts`: by name, a function for the ids of its current processes. Their children count too."""
        self._parts = parts
        self._seen: dict[str, dict[tuple[int, int], float]] = {name: {} for name in parts}
        self._looking, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def seconds(self) -> dict[str, float]:
        """CPU-seconds so far, by part."""
        self._look()
        return {name: sum(seen.values()) for name, seen in self._seen.items()}

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        with self._looking:
            for name, roots in self._parts.items():
                for root in roots():
                    for process in _family(root):
                        if spent := _spent(process):
                            started, seconds = spent
                            self._seen[name][process, started] = seconds


def _family(root: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield root
    for thread in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:  # the process has ended
            continue
        for child in children:
            yield from _family(int(child))


def _spent(process: int) -> tuple[int, float] | None:
    """Start time of a process, which tells a reused id apart, and the CPU-seconds that it has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS
