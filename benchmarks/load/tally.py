"""Counts of the load generator, in addition to Locust's own statistics."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

__all__ = ["Tally"]

DOCUMENTED_503 = frozenset({"overloaded", "no-bundle"})
"""Problems by which a service says that it is busy or cannot reach its storage: wait, and try again."""


@dataclass
class Tally:
    """Counts of one run."""

    uploads: int = 0
    retries: int = 0
    repeated: int = 0
    """Uploads sent once more on purpose, after they were acknowledged."""
    hung_up: int = 0
    """Uploads whose sender closed the connection before the answer."""
    sold_out: int = 0
    """How often a device had nothing left to send in a period: then the stock was the limit, see RATE."""
    unreachable: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Refused honest reports, by the name of the refusal, including those that were taken at a later try."""
    junk: Counter[str] = field(default_factory=Counter)
    """Uploads of junk, by their answer."""
    faults: Counter[str] = field(default_factory=Counter)
    """Answers that no service should give."""
    taken: Counter[int] = field(default_factory=Counter)
    """Reports acknowledged for the first time, by second."""

    def acknowledged(self, reports: int) -> None:
        self.taken[int(time.time())] += reports

    def judge(self, where: str, status: int, name: str | None) -> None:
        """Note an answer that no service should give: an error of the service other than a named 503."""
        if status >= 500 and not (status == 503 and name in DOCUMENTED_503):
            self.faults[f"{where}: {status} {name or 'without a name'}"] += 1

    def save(self, path: Path, **more: Any) -> None:
        path.write_text(json.dumps({**self.__dict__, "taken": {str(at): n for at, n in self.taken.items()}, **more}))

    @classmethod
    def load(cls, path: Path) -> tuple[Self, dict[str, Any]]:
        """The counts, and what else was saved with them."""
        document = json.loads(path.read_text())
        own = {name: document.pop(name) for name in cls.__dataclass_fields__}
        for name in ("refused", "junk", "faults"):
            own[name] = Counter(own[name])
        own["taken"] = Counter({int(at): n for at, n in own["taken"].items()})
        return cls(**own), document
