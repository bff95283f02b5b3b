"""A number's distribution on the whole path: codebook, devices, both services as processes, every kind of answer."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hubbub.codebook import Codebook
from hubbub_cli.all_commands import hubbub
from hubbub_cli.api_client import ask, fetch
from hubbub_client.testing import Fleet
from hubbub_query import Query
from tests.e2e.test_path import stack, wait_until_settled
from tests.support.redis_server import one_server

TEXT = """
[collection]
name = "latency"
period = "1s"
grace = "90s"
forward_horizon = "10m"
device_epsilon = 4
release = { epsilon = 4, delta = 1e-6 }
honest_fraction = 1

[metrics.startup]
type = "distribution"
bounds = [10, 10000]
bins = 32
edges = "log"
unit = "ms"
epsilon = 4
min_batch = 400
"""
DEVICES = 4_000
QUANTILES = (0.5, 0.9)


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
@pytest.mark.timeout(600)
def test_a_distribution_goes_from_devices_to_every_kind_of_answer(
    tmp_path: Path, storages: tuple[dict[str, str], dict[str, str]]
) -> None:
    """Two periods, the second twice as slow. Limits of 1 - 1e-7 on all that is looked at, 70 numbers: once in 1e5."""
    codebook = Codebook.from_toml(TEXT)
    calendar = codebook.collection.calendar
    rng = np.random.default_rng(5)
    with stack(tmp_path, TEXT, {"BACKFILL_PERIODS": "8", **storages[0]}, storages[1]) as services:
        last = calendar.at(time.time()).index
        fleet = Fleet(services.shuffler, trust=services.anchor)
        held = {}
        for index, median in ((last - 2, 300), (last, 600)):
            held[index] = median * np.exp(0.7 * rng.standard_normal(DEVICES))
            assert fleet.report("startup", held[index].tolist(), index).acknowledged == DEVICES
        wait_until_settled(services, 2, time.time() + 400)
        spans = {index: (calendar.period(index).label, calendar.period(index + 1).label) for index in held}

        client = Query(services.aggregator)
        for index, (start, end) in spans.items():
            truth = held[index]
            found = client.distribution(
                "startup", start=start, end=end, confidence=1 - 1e-7, quantiles=QUANTILES, ranges=[(123, 456)]
            ).newest
            assert found.reports == DEVICES
            for one in found.below:
                assert one.band_low <= one.low <= (truth < one.edge).mean() <= one.high <= one.band_high
            for q in found.quantiles:
                assert (q.low or 0) <= np.quantile(truth, q.q) <= (q.high or np.inf)
            (share,) = found.ranges
            assert share.low <= ((truth >= 123) & (truth < 456)).mean() <= share.high
            assert found.mean.low is not None
            assert found.mean.high is not None
            assert found.mean.low <= truth.clip(10, 10_000).mean() <= found.mean.high

        (before, after) = spans.values()
        moved = client.distribution("startup", start=after[0], end=after[1], before=before, quantiles=[0.5]).shifts
        assert moved is not None
        assert (moved[0].shift.low or -np.inf) <= 300 * 1.1
        assert moved[0].shift.estimate == pytest.approx(300, abs=150)
        both = client.distribution("startup", quantiles=[0.5]).newest
        assert both.reports == 2 * DEVICES

        text = fetch(services.aggregator, "/v1/metrics/startup/distribution", {"format": "csv"}).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["statistic"] for row in rows].count("below") == 31
        assert {"quantile", "mean", "total", "deviation"} <= {row["statistic"] for row in rows}
        plain = ask(services.aggregator, "/v1/metrics/startup/estimate")["segments"][0]
        assert plain["axes"][0]["scale"] == "log"
        assert len(plain["axes"][0]["edges"]) == 33

        shown = CliRunner().invoke(hubbub, ["query", "startup", "--address", services.aggregator])
        assert shown.exit_code == 0, shown.output
        assert "half of the devices are below" in shown.output
        assert max(map(len, shown.output.splitlines())) <= 80
        (tmp_path / "shown.txt").write_text(shown.output)
