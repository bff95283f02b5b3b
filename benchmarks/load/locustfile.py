"""Locust file for load on both services: devices report, analysts ask, people read the dashboard. Loopback only.

    make load USERS=60 MINUTES=1 STORAGE=sqlite SHAPE=steady

`run.py` starts the services, seals reports ahead, starts Locust with this file and checks afterwards that every
acknowledged report was counted exactly once.
"""

from __future__ import annotations

from typing import Any

from locust import events
from locust.stats import StatsEntry

from benchmarks.load.askers import Analyst, Reader
from benchmarks.load.devices import Device, Gateway
from benchmarks.load.world import RUN

__all__ = ["Analyst", "Device", "Gateway", "Reader"]

KINDS = {"uploads": "upload of ", "pages": "page: ", "junk": "junk"}
"""Kinds of requests, by the start of their name; the others are queries."""


def prepare(environment: Any, **_: object) -> None:
    """Of every twenty users one is a gateway, one an analyst and one a reader (at least one each); the rest devices."""
    few = max(1, RUN.plan.users // 20)
    Gateway.fixed_count = Analyst.fixed_count = Reader.fixed_count = few
    Device.fixed_count = RUN.plan.users - 3 * few
    Gateway.host = Device.host = RUN.addresses["shuffler"]
    Analyst.host = Reader.host = RUN.addresses["aggregator"]
    environment.host = None


def keep(environment: Any, **_: object) -> None:
    """Save what devices were told, and their response times, for the check."""
    RUN.receipts.save(RUN.folder / "receipts.json")
    summed: dict[str, StatsEntry] = {}
    for (name, _method), entry in environment.stats.entries.items():
        kind = next((kind for kind, start in KINDS.items() if name.startswith(start)), "queries")
        if kind not in summed:
            summed[kind] = StatsEntry(environment.stats, kind, "", use_response_times_cache=False)
        summed[kind].extend(entry)
    times = {
        kind: {
            "requests": entry.num_requests,
            "failures": entry.num_failures,
            "p50_ms": entry.get_response_time_percentile(0.5),
            "p99_ms": entry.get_response_time_percentile(0.99),
        }
        for kind, entry in summed.items()
    }
    for error in environment.runner.exceptions.values():
        RUN.tally.faults[f"in this load test: {error['msg']}"] += error["count"]
    RUN.tally.save(RUN.folder / "tally.json", times=times)
    environment.process_exit_code = 0  # the check decides whether the run passes


events.init.add_listener(prepare)  # type: ignore[no-untyped-call]  # Locust has no types for it
events.quitting.add_listener(keep)  # type: ignore[no-untyped-call]  # as above
