"""Means by each mechanism, from the codebook through the SDK to an estimate."""

from __future__ import annotations

import json

import pytest

from hubbub.codebook import Codebook
from hubbub_client.testing import Fleet, MemoryTransport
from tests.client.world import START, TOML, Time, opened, period_of, signed

TIMES = [*range(0, 6_000, 6)]
TRUTH = sum(min(value, 5_000) for value in TIMES) / len(TIMES)


@pytest.mark.everyday
@pytest.mark.parametrize("name", ["hybrid", "piecewise", "table"])
@pytest.mark.parametrize("epsilon", [0.4, 2])
def test_what_is_estimated_is_what_the_devices_hold(name: str, epsilon: float) -> None:
    """Within an interval that misses once in 1e7 times: twelve values on fresh randomness, together about 1e-6."""
    toml = TOML.replace("epsilon = 1\n", f"epsilon = {epsilon}\n").replace('"laplace"', f'"{name}"')
    transport, moment = MemoryTransport(signed(toml)), Time()
    devices = Fleet(transport, clock=moment, pace=moment.pace)

    assert devices.report("startup_ms", TIMES, period_of(START)).acknowledged == len(TIMES)

    mechanism = Codebook.from_toml(toml).metric("startup_ms").mechanism
    payloads = [opened(report)[1].payload for report in transport.reports]
    assert {len(payload) for payload in payloads} == {1}
    tally = mechanism.tally([mechanism.decode(payload) for payload in payloads])
    found = mechanism.estimate(tally)
    for population in ("reports", "superpopulation"):
        interval = mechanism.interval(tally, 1 - 1e-7, population=population)
        assert interval.low[0] < TRUTH < interval.high[0]
        assert interval.high[0] - interval.low[0] < 14 * found.stderr[0]
    # and it is noise that was added: no mean of a thousand values in 1 .. 5000 has this error without it
    assert found.stderr[0] > 20


def test_the_codebook_carries_the_whole_table() -> None:
    """An upgrade of SDK or server can't change what a report means: nothing is looked up."""
    book = Codebook.from_toml(TOML.replace('"laplace"', '"table"'))
    compiled = json.loads(book.to_bytes())
    (metric,) = [metric for metric in compiled["metrics"] if metric["name"] == "startup_ms"]
    assert set(metric["mechanism"]["parameters"]) == {"steps", "low", "high", "columns"}
    again = Codebook.from_compiled(book.to_bytes())
    assert again.metric("startup_ms").mechanism == book.metric("startup_ms").mechanism
