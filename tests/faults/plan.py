"""Plan of a world of real processes: codebook, periods, leases, how many of each, and whose clock can be set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias, get_args

from hubbub.codebook import Codebook
from hubbub.period import Calendar

__all__ = ["KEY", "PARTIES", "SMALL", "STORAGES", "Party", "Plan", "StorageName"]

StorageName: TypeAlias = Literal["sqlite", "redis"]
STORAGES: tuple[StorageName, ...] = get_args(StorageName)
Party: TypeAlias = Literal["aggregator", "shuffler", "host", "redis", "device"]
"""Who has a clock; the host is one machine with both services on it."""
PARTIES: tuple[Party, ...] = get_args(Party)

KEY, SMALL = "key", "small"
"""The metric of which every report has a value of its own, and the one whose crowd is always below its minimum."""

_CODEBOOK = """
[collection]
name = "faults"
period = "{period}s"
grace = "{grace}s"
forward_horizon = "{horizon}"
device_epsilon = 60
release = {{ epsilon = 30, delta = 1e-8 }}
honest_fraction = 1
"""
_METRIC = """
[metrics.{name}]
type = "category"
values = {values}
epsilon = 30
mechanism = "krr"
min_batch = {least}
"""
"""At epsilon 30 an estimate is the count itself: krr takes less than a millionth away from it."""


@dataclass(frozen=True)
class Plan:
    """One world, and how busy its devices are."""

    storage: StorageName
    seed: int = 1
    period: int = 4
    grace: int = 2
    horizon: str = "1h"
    lease: float = 3.0
    max_batch: int | None = None
    """Most reports in a batch: larger buckets are cut."""
    shufflers: int = 1
    aggregators: int = 1
    settable: tuple[Party, ...] = ()
    """Whose clock can be set; needs libfaketime, but for devices."""
    forked: bool = True
    """Services are forked from a process that has loaded the code, to start fast. One whose clock can be set is not."""
    bad_network: bool = False
    """Whether devices and shuffler speak through proxies that mistreat requests."""
    senders: int = 16
    """Threads of devices; each device is new, and sends once."""
    pause: float = 0.5
    """Mean seconds between two uploads of one thread."""
    values: int = 2_000
    """Devices of one period at most."""
    least: int = 20
    least_small: int = 50
    most_small: int = 40
    """Distinct devices of the small crowd, which come in many copies."""
    max_age: int = 4
    """Seconds for which a bundle is cached."""

    @classmethod
    def for_clocks(cls, storage: StorageName, party: Party) -> Self:
        """Periods that are long beside the smallest error of a clock, and a horizon that is short beside the others.

        Several of these worlds run at once: a lease is long enough for a machine with that much to do.
        """
        return cls(
            storage, period=10, grace=5, horizon="10m", lease=20.0, settable=(party,), senders=30, pause=2.0, max_age=10
        )

    @property
    def minimum(self) -> dict[str, int]:
        return {KEY: self.least, SMALL: self.least_small}

    def toml(self) -> str:
        """metrics.toml of this world."""
        head = _CODEBOOK.format(period=self.period, grace=self.grace, horizon=self.horizon)
        sizes = {KEY: self.values, SMALL: self.most_small}
        return head + "".join(
            _METRIC.format(name=name, least=least, values=json.dumps([f"v{n}" for n in range(sizes[name])]))
            for name, least in self.minimum.items()
        )

    @cached_property
    def codebook(self) -> Codebook:
        return Codebook.from_toml(self.toml())

    @property
    def calendar(self) -> Calendar:
        return Calendar(self.period)

    def closes(self, period: int) -> float:
        """When a period's grace is over."""
        return float(self.calendar.period(period).closes_at(self.grace))
