"""Plan of a load run: how many users, for how long, on which storage, in which shape. Bounded in count and time."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args
from urllib.parse import urlsplit

__all__ = ["SHAPES", "STORAGES", "Plan", "Shape", "StorageName", "refuse_other_hosts"]

Shape: TypeAlias = Literal["steady", "spike", "outage"]
StorageName: TypeAlias = Literal["sqlite", "redis"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
STORAGES: tuple[StorageName, ...] = get_args(StorageName)

MOST_USERS, MOST_MINUTES, MOST_RATE, MOST_REPORTS = 500, 60.0, 20_000, 4_000_000
METRICS = 4
"""A device reports each metric once per period, all in one upload, as the SDK sends reports that are due together."""
MOST_VALUES = 65_536
TWINS = 0.01
"""Share of reports that are sealed a second time with the same nonce, as after a revoked key. They count once."""
EPSILON = 30
"""As in tests/e2e: nothing is hidden in a load run, so that each report can be found again."""

CODEBOOK = """
[collection]
name = "load"
period = "{period}s"
grace = "{grace}s"
forward_horizon = "2h"
device_epsilon = {budget}
release = {{ epsilon = {epsilon}, delta = 1e-8 }}
honest_fraction = 1
"""
METRIC = """
[metrics.{name}]
type = "category"
mechanism = "krr"
epsilon = {epsilon}
values = {values}
"""


@dataclass(frozen=True)
class Plan:
    """One run. `rate` is the number of reports per second that are sealed ahead: the most that the run can send."""

    users: int
    seconds: int
    storage: StorageName = "sqlite"
    shape: Shape = "steady"
    rate: int = 8_000
    period: int = 10
    grace: int = 20

    def __post_init__(self) -> None:
        if not 4 <= self.users <= MOST_USERS:
            raise ValueError(f"USERS is from 4 (one of each kind) to {MOST_USERS}, got {self.users}")
        if not 5 <= self.seconds <= 60 * MOST_MINUTES:
            raise ValueError(f"MINUTES is from 0.1 to {MOST_MINUTES:g}, got {self.seconds / 60:g}")
        if self.storage not in STORAGES:
            raise ValueError(f"STORAGE is one of {', '.join(STORAGES)}, got {self.storage!r}")
        if self.shape not in SHAPES:
            raise ValueError(f"SHAPE is one of {', '.join(SHAPES)}, got {self.shape!r}")
        if not 10 <= self.rate <= MOST_RATE:
            raise ValueError(f"RATE is from 10 to {MOST_RATE:,} reports a second, got {self.rate}")

    @property
    def periods(self) -> int:
        """Periods for which reports are sealed: those of the run, and those in which it begins and ends."""
        return math.ceil(self.seconds / self.period) + 2

    @cached_property
    def values(self) -> int:
        """Values of each metric: as many as devices can report in a period, so that each device has its own value."""
        wanted = min(self.rate * self.period, MOST_REPORTS // self.periods) // METRICS
        return max(2, min(wanted, MOST_VALUES))

    @cached_property
    def reports(self) -> int:
        """Distinct reports of one period."""
        return self.values * METRICS

    @property
    def twins(self) -> int:
        """How many reports of a period are sealed twice."""
        return math.ceil(self.reports * TWINS)

    @property
    def metrics(self) -> list[str]:
        return [f"slot_{number}" for number in range(METRICS)]

    def codebook(self) -> str:
        """metrics.toml of the run."""
        head = CODEBOOK.format(period=self.period, grace=self.grace, budget=EPSILON * METRICS, epsilon=EPSILON)
        values = json.dumps([f"v{number}" for number in range(self.values)])
        return head + "".join(METRIC.format(name=name, epsilon=EPSILON, values=values) for name in self.metrics)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text()))


def refuse_other_hosts(address: str) -> None:
    """Refuse to send load to another machine."""
    host = urlsplit(address).hostname or ""
    try:
        here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here:
        raise SystemExit(f"load tests run against this machine only, not {host or address!r}")
