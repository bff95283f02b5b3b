"""JavaScript and Python devices in one batch of a real `hubbub up`: one estimate, for every type by every mechanism.

An estimate fails if it is more than 8 standard errors off. Counts of 300 reports that have a probability of at least
0.07 each are that far off with probability below 1e-9, by Chernoff's bound: a thousand of them with less than 1e-6.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hubbub.mechanisms import registered
from hubbub.metric_types import registered as registered_types
from hubbub_cli.api_client import Refusal, ask
from hubbub_cli.demo_data import truth
from hubbub_client._http.transport import CannotReach
from hubbub_client.testing import Fleet
from tests.e2e.test_reference_device import services
from tests.support.compiled import compiled
from tests.support.every_metric import a_metric, every_metric
from tests.support.node import NO_NODE, TYPESCRIPT, node

pytestmark = pytest.mark.skipif(node() is None, reason=NO_NODE)

SIGMAS = 8
_HEAD = """[collection]
name = "both"
period = "{period}s"
grace = "{grace}s"
delay = "5s"
device_epsilon = 100
release = {{ epsilon = 1, delta = 1e-6 }}
"""


def _fleet(address: str) -> Fleet:
    """Python devices, once the shuffler has a bundle."""
    until = time.time() + 90
    while True:
        try:
            return Fleet(address)
        except CannotReach:
            assert time.time() < until, "the services do not start"
            time.sleep(0.2)


def _javascript(shuffler: str, values: list[dict[str, Any]], start: float, end: float) -> dict[str, Any]:
    """What became of JavaScript devices that record this, each an object of its own, and report."""
    done = subprocess.run(
        [str(node()), "--disable-warning=ExperimentalWarning", "test/crowd.ts"],
        cwd=TYPESCRIPT,
        input=json.dumps({"address": shuffler, "values": values, "at": start + 1, "until": end + 1}),
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _answer(aggregator: str, metric: str, start: str, end: str) -> Any:
    """The estimate of one period, once it is there."""
    give_up = time.time() + 90
    while True:
        try:
            return ask(aggregator, f"/v1/metrics/{metric}/estimate", {"from": start, "to": end})
        except Refusal:
            assert time.time() < give_up, f"{metric} was not released"
            time.sleep(0.5)


def report(folder: Path, metrics: dict[str, str], each: int, period: int, grace: int) -> list[tuple[str, float]]:
    """Let as many devices of each kind report; how far off each estimate is, in standard errors."""
    written = _HEAD.format(period=period, grace=grace) + "".join(metrics.values())
    codebook, rng = compiled(written), random.Random(20261119)
    assert {metric.name for metric in codebook.metrics} == set(metrics)
    assert 2 * each >= max(metric.min_batch or 0 for metric in codebook.metrics)
    python, javascript = (
        [{m.name: m.values.made_up(rng.random(), 0) for m in codebook.metrics} for _ in range(each)] for _ in range(2)
    )
    with services(folder, written) as (shuffler, aggregator), _fleet(shuffler) as fleet:
        now = fleet.period_of()
        closes = now.closes_at(grace)
        said = _javascript(shuffler, javascript, now.start, now.end)
        assert said["outcomes"] == {"recorded": each * len(metrics)}
        assert said["done"] == each
        assert said["stats"]["acknowledged"] == each * len(metrics)
        for name in metrics:
            assert fleet.report(name, [values[name] for values in python], now).acknowledged == each
        assert time.time() < closes, "this machine is too slow for the grace"
        time.sleep(max(0.0, closes + 1 - time.time()))
        off: list[tuple[str, float]] = []
        for metric in codebook.metrics:
            answer = _answer(aggregator, metric.name, now.label, now.calendar.period(now.index + 1).label)
            (segment,) = answer["segments"]
            assert segment["reports"] == 2 * each
            held = [values[metric.name] for values in python + javascript]
            expected = dict(zip(metric.values.labels(), truth(metric, held), strict=True))
            assert len(segment["values"]) == len(expected)
            off += [
                (metric.name, (value["estimate"] - expected[value["label"]]) / value["stderr"])
                for value in segment["values"]
            ]
    return off


def test_javascript_and_python_devices_share_a_batch(tmp_path: Path) -> None:
    off = report(tmp_path, {"both": a_metric("both", "boolean", 1)}, each=60, period=10, grace=25)
    assert len(off) == 2
    assert max(abs(error) for _, error in off) <= SIGMAS


@pytest.mark.full  # three minutes; every day, one metric does the same
@pytest.mark.timeout(900)
def test_they_do_for_every_type_by_every_mechanism(tmp_path: Path) -> None:
    metrics = every_metric()
    for name in registered():
        assert any(metric.endswith(f"_by_{name.replace('-', '_')}") for metric in metrics)
    assert {metric.partition("_by_")[0] for metric in metrics} == set(registered_types())
    off = report(tmp_path, metrics, each=150, period=30, grace=120)
    for name, error in off:
        print(f"{name:28} {error:+5.2f}")  # noqa: T201
    assert len(off) > 2 * len(metrics)
    assert max(abs(error) for _, error in off) <= SIGMAS
