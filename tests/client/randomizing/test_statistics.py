"""Statistics of what the SDK sends: opened and estimated, it is what the devices held, within the declared interval.

Real clients with a file each record a value of every kind in every period, and flush into memory; nothing is mocked but
the clock. False alarms: each check looks at six values, each by an interval that misses once in 1e7 times at most,
on fresh randomness from the operating system; together below 1e-6. The same check must notice planted errors.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hubbub.codebook import Codebook, Metric
from hubbub.mechanisms import Bounds, Interval
from hubbub_client.testing import MemoryTransport
from tests.client.world import START, Time, World, opened, signed
from tests.support.codebooks import dark_mode, photo_app, startup_ms, theme

MISSES = 1e-7
HOUR = 3_600
TOML = photo_app(
    dark_mode(4, min_batch=100),
    theme(4, other="other", min_batch=100),
    startup_ms(8, mechanism="laplace", min_batch=100),
    period="1h",
    grace="7d",
    device_epsilon=16,
    epsilon=1,
)
CODEBOOK = Codebook.from_toml(TOML)
THEMES = ["light"] * 9 + ["dark"] * 7 + ["sepia"] * 2 + ["solarized"] * 2
PERIODS_A_FLUSH = 24
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  only to be fast; the name is random
"""A hundred thousand fsyncs are not what is tested here."""


def held(number: int) -> dict[str, list[Any]]:
    """What device-period `number` records. Of a mean it may be several values: the device reports their mean."""
    launch = 400.0 + number % 311 * 20
    return {
        "dark_mode": [number % 10 < 3],
        "theme": [THEMES[number % 20]],
        "startup_ms": [launch - 150, launch + 150] if number % 10 == 0 else [launch],
    }


class Truth(NamedTuple):
    """The shares of each value, or the mean, and how far apart the ends of the scale are."""

    values: list[float]
    scale: float


def truth(metric: Metric, count: int) -> Truth:
    everything = [held(number)[metric.name] for number in range(count)]
    if metric.type == "mean":
        reduced = [min(max(sum(values) / len(values), 0.0), 5_000.0) for values in everything]
        return Truth([sum(reduced) / count], 5_000.0)
    inputs = [metric.values.input_of(values[0]) for values in everything]
    return Truth([inputs.count(index) / count for index in range(len(metric.values.labels()))], 1.0)


def collect(devices: int, periods: int) -> dict[bytes, list[bytes]]:
    """Let them record and report; the opened payloads by metric."""
    transport = MemoryTransport(signed(TOML, lifetime=2 * periods * HOUR + 86_400, max_age=86_400))
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for device in range(devices):
            time = Time(now=START + 10.0)
            world = World(Path(folder) / str(device), time=time, transport=transport)
            with world.ready(max_epsilon=1_000.0) as client:
                for period in range(periods):
                    for name, values in held(device * periods + period).items():
                        for value in values:
                            assert client.record(name, value).value == "recorded"
                    time.now += HOUR
                    if (period + 1) % PERIODS_A_FLUSH == 0 or period + 1 == periods:
                        assert client.flush(0, now=True)
    found: dict[bytes, list[bytes]] = {}
    nonces = set()
    for report in transport.reports:
        header, plaintext = opened(report)
        found.setdefault(header.metric, []).append(plaintext.payload)
        nonces.add(plaintext.nonce)
    assert len(nonces) == len(transport.reports) == devices * periods * len(CODEBOOK.metrics)
    return found


def interval_of(metric: Metric, payloads: list[bytes]) -> Interval:
    mechanism = metric.mechanism
    tally = mechanism.tally([mechanism.decode(payload) for payload in payloads])
    return mechanism.interval(tally, 1 - MISSES)


def outside(metric: Metric, payloads: list[bytes], count: int, error: float = 0.0) -> list[float]:
    """Which of the true values, moved by `error` of their scale, the declared interval does not hold."""
    interval, (values, scale) = interval_of(metric, payloads), truth(metric, count)
    moved = [value + error * scale for value in values]
    rows = zip(moved, interval.low, interval.high, strict=True)
    return [value for value, low, high in rows if not low <= value <= high]


def check(devices: int, periods: int) -> dict[bytes, list[bytes]]:
    count = devices * periods
    found = collect(devices, periods)
    for metric in CODEBOOK.metrics:
        assert len(found[metric.id]) == count
        assert outside(metric, found[metric.id], count) == [], metric.name
    return found


def planted(shares: dict[str, float]) -> Callable[[Metric, object], int | Fraction]:
    """`Metric.input_of` with a bug: of each metric this share of values becomes the last one, or the upper bound."""
    coins = random.Random(8)

    def input_of(metric: Metric, value: object) -> int | Fraction:
        domain = metric.mechanism.domain
        if coins.random() < shares[metric.name]:
            return domain.upper if isinstance(domain, Bounds) else domain.estimates - 1
        return metric.values.input_of(value)

    return input_of


@pytest.mark.parametrize("periods", [15, pytest.param(50, marks=pytest.mark.full)])
def test_a_thousand_of_each_kind_are_estimated_within_the_declared_interval(periods: int) -> None:
    """Every day it is three hundred: enough to notice a bug, as the next test shows."""
    check(devices=20, periods=periods)


def test_a_bug_that_changes_every_other_value_is_noticed_by_three_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves what is estimated by 35, 45 and 17 percent of the scale: eleven standard errors more than needed."""
    monkeypatch.setattr(Metric, "input_of", planted({metric.name: 0.5 for metric in CODEBOOK.metrics}))
    found = collect(devices=2, periods=150)
    assert all(outside(metric, found[metric.id], 300) for metric in CODEBOOK.metrics)


@pytest.mark.full
def test_a_hundred_thousand_records_are_estimated_within_the_declared_interval() -> None:
    """And an estimate that was off by one percent of the scale would not be."""
    found = check(devices=34, periods=1_000)
    for metric in CODEBOOK.metrics:
        assert outside(metric, found[metric.id], 34_000, error=0.01), metric.name
        assert outside(metric, found[metric.id], 34_000, error=-0.01), metric.name


@pytest.mark.full
def test_a_bug_that_moves_estimates_by_one_percent_is_noticed_by_a_hundred_thousand_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = {"dark_mode": 0.01 / 0.7, "theme": 0.01 / 0.9, "startup_ms": 0.01 / 0.35}
    monkeypatch.setattr(Metric, "input_of", planted(shares))
    found = collect(devices=34, periods=1_000)
    for metric in CODEBOOK.metrics:
        assert outside(metric, found[metric.id], 34_000), metric.name
