"""Real flights through real processes, on both kinds of storage: short and long lists, a flag and a mean."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hubbub.accounting import guarantee
from hubbub.codebook import Codebook
from hubbub_cli.api_client import ask
from hubbub_cli.demo_data import crowd, flights
from hubbub_client.testing import Fleet
from tests.e2e.test_path import stack, wait_until_settled
from tests.support.redis_server import one_server

MINUTES = [str(minute) for minute in range(-100, 900)]
TEXT = f"""
[collection]
name = "flights"
period = "1s"
grace = "240s"
forward_horizon = "10m"
device_epsilon = 12
release = {{ epsilon = 4, delta = 1e-6 }}
[metrics.late]
type = "boolean"
epsilon = 1
[metrics.origin]
type = "category"
values = ["EWR", "JFK", "LGA", "other"]
other = "other"
epsilon = 2
[metrics.minutes]
type = "category"
values = {MINUTES}
epsilon = 6
[metrics.delay]
type = "mean"
bounds = [-30, 120]
epsilon = 2
"""
RUNS, DEVICES = 20, 600


@pytest.fixture(params=["sqlite", "redis"])
def storages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Settings of the aggregator and of the shuffler; each has a Redis of its own."""
    with ExitStack() as servers:
        if request.param == "sqlite":
            yield {}, {}
            return
        urls = []
        for name in ("aggregator", "shuffler"):
            (tmp_path / name).mkdir()
            urls.append(servers.enter_context(one_server(tmp_path / name)).url)
        yield {"STORAGE": urls[0]}, {"STORAGE": urls[1]}


@pytest.mark.full
@pytest.mark.timeout(900)
def test_flights_are_estimated_within_their_intervals(
    tmp_path: Path, storages: tuple[dict[str, str], dict[str, str]]
) -> None:
    """Sixty intervals of 95 % for a flag, a short list and a mean: more than 14 misses happen once in ten million runs.

    Of the long list's 20,000 intervals, which depend on each other a little, fewer than 7 % may miss.
    """
    codebook, rows = Codebook.from_toml(TEXT), flights()
    calendar = codebook.collection.calendar
    with stack(tmp_path, TEXT, {"BACKFILL_PERIODS": "25", **storages[0]}, storages[1]) as services:
        last = calendar.at(time.time()).index
        fleet = Fleet(services.shuffler, trust=services.anchor)
        truth: dict[tuple[str, int], Counter[str] | float] = {}
        for index in range(last - RUNS + 1, last + 1):
            devices = crowd(rows, DEVICES, index % 7)
            origins = [row["origin"] for row in devices]
            minutes = [str(min(max(round(row["departure_delay"]), -100), 899)) for row in devices]
            delays = [min(max(row["departure_delay"], -30.0), 120.0) for row in devices]
            flags = [row["late"] for row in devices]
            for name, values in (("late", flags), ("origin", origins), ("minutes", minutes), ("delay", delays)):
                assert fleet.report(name, values, index).acknowledged == DEVICES
            truth["late", index], truth["delay", index] = sum(flags) / DEVICES, sum(delays) / DEVICES
            truth["origin", index], truth["minutes", index] = Counter(origins), Counter(minutes)
        wait_until_settled(services, 4 * RUNS, time.time() + 600)
        few = many = 0
        for (name, index), real in truth.items():
            span = {"from": calendar.period(index).label, "to": calendar.period(index + 1).label}
            asked = {**span, "simultaneous": "false"}
            found = ask(services.aggregator, f"/v1/metrics/{name}/estimate", asked)["segments"][0]
            privacy = found["privacy"]
            promised = guarantee(codebook.metric(name).mechanism, privacy["honest_reports"], privacy["delta"])
            assert (privacy["epsilon"], privacy["honest_reports"]) == (promised.epsilon, DEVICES * 9 // 10)
            values = found["values"]
            if isinstance(real, Counter):
                shares = {row["value"]: real[row["value"]] / DEVICES for row in values}
                missed = sum(not row["low"] <= shares[row["value"]] <= row["high"] for row in values)
                many += missed if name == "minutes" else 0
                few += name == "origin" and not values[0]["low"] <= shares[values[0]["value"]] <= values[0]["high"]
            else:
                row = values[1 if name == "late" else 0]
                few += not row["low"] <= real <= row["high"]
        assert few <= 14
        assert many <= 0.07 * len(MINUTES) * RUNS
        whole = ask(services.aggregator, "/v1/metrics/late/estimate")["segments"][0]["privacy"]
        assert whole["epsilon"] > max(period["epsilon"] for period in whole["per_period"])
        ledger = ask(services.aggregator, "/v1/privacy")
        assert ledger
