"""An open epsilon on the whole path: compiled from target and crowd, released on target, or never opened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hubbub.accounting import guarantee
from hubbub.codebook import Codebook
from hubbub_cli.api_client import ask
from hubbub_cli.compile_codebook import compiled
from hubbub_client.testing import Fleet
from tests.e2e.test_path import stack, wait_until_settled

DEVICES, MARGIN = 1_000, 0.8
TARGET, DELTA, HONEST = 1.0, 1e-6, 0.9
TEXT = f"""
[collection]
name = "auto"
period = "1s"
grace = "60s"
forward_horizon = "10m"
device_epsilon = 12
release = {{ epsilon = {TARGET}, delta = {DELTA} }}
honest_fraction = {HONEST}
devices = {DEVICES}
devices_margin = {MARGIN}
local_epsilon_cap = 5.0

[metrics.theme]
type = "category"
values = ["light", "dark", "sepia", "other"]
missing = "light"
epsilon = "auto"

[metrics.dark]
type = "boolean"
missing = false
epsilon = "auto"
"""


@pytest.mark.full
@pytest.mark.timeout(600)
def test_auto_meets_the_target_at_the_actual_crowd_and_a_smaller_crowd_is_never_opened(tmp_path: Path) -> None:
    """Compiled and served by the services themselves; reports of the SDK's fleet; the answer of the public API.

    What is checked is exact: no statistics.
    """
    (tmp_path / "again.toml").write_text(TEXT)
    book = compiled(tmp_path / "again.toml")
    with stack(tmp_path, TEXT, {"BACKFILL_PERIODS": "8"}) as services:
        served = Codebook.from_compiled((tmp_path / "codebook.json").read_bytes())
        assert served.id == book.id  # what is worked out is frozen, and the same each time
        fleet = Fleet(services.shuffler, trust=services.anchor)
        calendar = book.collection.calendar
        last = calendar.at(time.time()).index
        enough, few = last - 3, last - 1
        least = {metric.name: metric.min_batch or 0 for metric in book.metrics}
        crowd = int(DEVICES * MARGIN)
        for name, few_enough in least.items():
            value: object = name == "dark" or "dark"
            assert few_enough <= crowd  # the crowd that it was worked out for is released
            assert fleet.report(name, [value] * crowd, enough).acknowledged == crowd
            assert fleet.report(name, [value] * (few_enough - 1), few).acknowledged == few_enough - 1
        status = wait_until_settled(services, 4, time.time() + 300)

        assert status["discards"] == 2
        assert (status["batches"]["accepted"], status["batches"]["refused"]) == (2, 0)
        records = ask(services.aggregator, "/v1/releases", {})["releases"]
        assert {record["metric"] for record in records} == set(least)
        for record in records:
            metric = book.metric(record["metric"])
            assert 1 < float(metric.epsilon) <= 5
            assert (record["reports"], record["honest_reports"]) == (crowd, int(crowd * HONEST))
            assert record["epsilon"] <= TARGET
            assert record["epsilon"] == guarantee(metric.mechanism, record["honest_reports"], DELTA).epsilon
            assert record["local_epsilon"] <= 5 + 1e-9
        ledger = ask(services.aggregator, "/v1/privacy", {})
        assert (ledger["total"]["releases"], ledger["opened_and_refused"]) == (2, 0)
