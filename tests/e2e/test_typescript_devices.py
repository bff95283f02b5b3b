"""JavaScript and Python devices in one batch of a real `hubbub up`: one estimate, by every mechanism of every type.

An estimate fails if it is more than 6 standard errors off. For normal errors that has probability 2e-9 for one value.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from hubbub.mechanisms import registered
from hubbub_client._http.transport import CannotReach
from hubbub_client.testing import Fleet
from tests.e2e.test_reference_device import (
    CATEGORIES,
    MEANS,
    SIGMAS,
    codebook,
    metric_name,
    query,
    recorded,
    services,
    truth,
)
from tests.support.node import NO_NODE, TYPESCRIPT, node

EACH = 200
"""Devices of each kind. No batch of this codebook needs more than 210 reports."""
_PERIOD, _GRACE = 60, 240
_START = 10
"""Seconds of the period that must be left for all devices to begin in it."""


def _fleet(address: str) -> Fleet:
    """Python devices, once the shuffler has a bundle."""
    until = time.time() + 90
    while True:
        try:
            return Fleet(address)
        except CannotReach:
            assert time.time() < until, "the services do not start"
            time.sleep(0.2)


@pytest.mark.full
@pytest.mark.skipif(node() is None, reason=NO_NODE)
def test_javascript_and_python_devices_share_a_batch(tmp_path: Path) -> None:
    rng = random.Random(27)
    python, javascript = ([recorded(rng) for _ in range(EACH)] for _ in range(2))
    written = codebook().replace('period = "30s"', f'period = "{_PERIOD}s"').replace('"50s"', f'"{_GRACE}s"')
    mechanisms = ["rr", *CATEGORIES, *MEANS]
    assert set(mechanisms) == set(registered())
    with services(tmp_path, written) as (shuffler, aggregator), _fleet(shuffler) as fleet:
        start = (int(time.time()) // _PERIOD + 1) * _PERIOD
        time.sleep(start + 0.2 - time.time())
        values = [{metric_name(name): value for name, value in each.items()} for each in javascript]
        crowd = subprocess.Popen(
            [str(node()), "--disable-warning=ExperimentalWarning", "test/crowd.ts"],
            cwd=TYPESCRIPT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert crowd.stdin is not None
        crowd.stdin.write(json.dumps({"address": shuffler, "values": values, "until": start + _PERIOD}))
        crowd.stdin.close()
        for name in mechanisms:
            delivered = fleet.report(metric_name(name), [each[name] for each in python])
            assert delivered.acknowledged == EACH, delivered
        assert time.time() < start + _PERIOD - _START, "this machine is too slow for the period"
        assert crowd.stdout is not None
        said = json.loads(crowd.stdout.read())
        assert crowd.wait(timeout=60) == 0
        assert said["outcomes"] == {"recorded": EACH * len(mechanisms)}
        assert said["done"] == EACH
        assert said["stats"]["acknowledged"] == EACH * len(mechanisms)
        print(said)  # noqa: T201
        time.sleep(max(0.0, start + _PERIOD + _GRACE + 2 - time.time()))
        off = []
        for name in mechanisms:
            give_up = time.time() + 60
            while "error" in (answer := query(aggregator, name, start, _PERIOD)) and time.time() < give_up:
                time.sleep(1)
            assert "error" not in answer, answer
            (segment,) = answer["segments"]
            assert segment["reports"] == 2 * EACH
            expected = truth(name, python + javascript)
            for value in segment["values"]:
                if value["label"] in expected:
                    off.append((value["estimate"] - expected[value["label"]]) / value["stderr"])
                    print(f"{name:12} {value['label']:5} {value['estimate']:8.4f} {off[-1]:+5.2f}")  # noqa: T201
        assert len(off) == 218
        assert max(map(abs, off)) <= SIGMAS
