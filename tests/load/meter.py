"""CPU-seconds of each part of a run, with all its processes, also of those that were killed on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

import psutil

__all__ = ["Meter"]

_EVERY = 0.5


class Meter:
    """Looks at every process of each part twice a second; what one had used when last seen stays counted."""

    def __init__(self, parts: Mapping[str, Callable[[], list[int]]]) -> None:
        """`parts`: by name, the ids of the processes that it is made of now; their children count too."""
        self._parts = parts
        self._seen: dict[str, dict[tuple[int, float], float]] = {name: {} for name in parts}
        self._over = threading.Event()
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
        for name, roots in self._parts.items():
            for root in roots():
                with suppress(psutil.Error):
                    process = psutil.Process(root)
                    for each in (process, *process.children(recursive=True)):
                        with suppress(psutil.Error):
                            spent = each.cpu_times()
                            self._seen[name][each.pid, each.create_time()] = spent.user + spent.system
