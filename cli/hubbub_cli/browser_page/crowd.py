"""Simulated devices that join a visitor's report in `hubbub demo`, since nothing is published of one device alone."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric
    from hubbub_cli.services.processes import Services

__all__ = ["Crowd"]

_MARGIN = 1.1
"""How much more than the largest of the smallest batches comes, so that a few that fail don't matter."""


class Crowd:
    """As many devices as the releases of all metrics need, once for each period."""

    def __init__(self, services: Services, codebook: Codebook, values: Callable[[Metric, int], list[Any]]) -> None:
        """`values`: what this many devices record of a metric."""
        self._services, self._codebook, self._values = services, codebook, values
        self._came: set[int] = set()
        self._one_at_a_time = threading.Lock()

    def __call__(self, starts: list[int]) -> dict[str, Any]:
        """Let a crowd report for the periods that start at these moments, and are open."""
        from hubbub_client.testing import Fleet

        calendar, grace = self._codebook.collection.calendar, self._codebook.collection.grace
        with self._one_at_a_time:
            now = wall()
            periods = [period for period in {calendar.at(start) for start in starts} if period.start in starts]
            wanted = sorted(
                (one for one in periods if one.start <= now < one.closes_at(grace) and one.start not in self._came),
                key=lambda one: one.start,
            )
            metrics = [metric for metric in self._codebook.metrics if metric.enabled]
            devices, reports = max(map(self._needed, metrics), default=0), 0
            if wanted:
                fleet = Fleet(self._services.shuffler, trust=self._services.anchor)
            for period in wanted:
                self._came.add(period.start)
                for metric in metrics:
                    reports += fleet.report(metric.name, self._values(metric, devices), period).acknowledged
            return {"reports": reports, "periods": [period.start for period in wanted]}

    def _needed(self, metric: Metric) -> int:
        """Devices of which enough take part, whatever share of them is asked."""
        needed = max(self._services.frozen.metric(metric.name).min_batch or 0, self._services.floor)
        return math.ceil(_MARGIN * needed / metric.share)
