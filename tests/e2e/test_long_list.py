"""A list of 65,536 values on the whole path: codebook, SDK, both services as real processes, every kind of answer."""

from __future__ import annotations

import csv
import io
import json
import statistics
import time
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub_cli.api_client import ask, fetch
from hubbub_client import Client, Outcome
from hubbub_client.testing import Fleet
from tests.e2e.test_path import stack, wait_until_settled

SIZE = 65_536
PAGES = [f"https://example.com/articles/{number:05d}" for number in range(SIZE)]
TEXT = f"""
[collection]
name = "pages"
period = "1s"
grace = "90s"
forward_horizon = "10m"
device_epsilon = 4
release = {{ epsilon = 4, delta = 1e-6 }}
honest_fraction = 1

[metrics.page]
type = "category"
values = {json.dumps(PAGES)}
epsilon = 4
mechanism = "linear-hash"
report_bytes = 32
min_batch = 400
"""
DEVICES = 1_500


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_list_of_65536_values_goes_from_devices_to_every_kind_of_answer(tmp_path: Path) -> None:
    """Half of the devices hold one value, another one in the second period; the rest hold one each.

    Seven standard errors (2.6e-12 two-sided) on four estimates, and joint intervals of 1 - 1e-7 on all 65,536.
    """
    codebook = Codebook.from_toml(TEXT)
    calendar, mechanism = codebook.collection.calendar, codebook.metric("page").mechanism
    with stack(tmp_path, TEXT, {"BACKFILL_PERIODS": "8"}) as services:
        last = calendar.at(time.time()).index
        first = last - 3
        fleet = Fleet(services.shuffler, trust=services.anchor)
        for index, favourite in ((first, 7), (last, SIZE - 1)):
            values = [PAGES[favourite]] * (DEVICES // 2) + PAGES[1000 : 1000 + DEVICES // 2]
            assert fleet.report("page", values, index).acknowledged == DEVICES
        # a device with the SDK itself, in a later period
        with Client(
            services.shuffler,
            trust=services.anchor,
            consent=True,
            state_dir=tmp_path / "device",
            background=False,
            min_period="1s",
        ) as client:
            assert client.flush(60, now=True)
            assert client.record("page", PAGES[-1]) is Outcome.RECORDED
            assert client.flush(60, now=True)
            stats = client.stats()
            assert (stats["recorded"], stats["acknowledged"], stats["outbox"]) == (1, 1, 0)
            assert "linear-hash" in str(client.preview())
        wait_until_settled(services, 2, time.time() + 400)

        spans = [(calendar.period(index).label, calendar.period(index + 1).label) for index in (first, last)]
        for (start, end), favourite, other in ((spans[0], 7, SIZE - 1), (spans[1], SIZE - 1, 7)):
            asked = {"from": start, "to": end, "confidence": str(1 - 1e-7), "simultaneous": "true"}
            found = ask(services.aggregator, "/v1/metrics/page/estimate", asked)["segments"][0]
            assert found["reports"] == DEVICES
            assert found["mechanism"]["name"] == "linear-hash"
            assert [row["value"] for row in found["values"]] == PAGES
            held = {favourite: 0.5} | dict.fromkeys(range(1000, 1000 + DEVICES // 2), 1 / DEVICES)
            for index, row in enumerate(found["values"]):
                assert row["low"] <= held.get(index, 0.0) <= row["high"]
            for index, share in ((favourite, 0.5), (other, 0.0)):
                row = found["values"][index]
                assert abs(row["estimate"] - share) <= 7 * row["stderr"]
            error = (mechanism.typical_variance() / DEVICES) ** 0.5
            # The stderr of one value follows its estimate, which is random; that of the median value hardly does.
            assert statistics.median(row["stderr"] for row in found["values"]) < 1.1 * error

        top = ask(services.aggregator, "/v1/metrics/page/estimate", {"top": "2"})["segments"][0]
        assert {row["value"] for row in top["values"]} == {PAGES[7], PAGES[-1]}
        course = ask(services.aggregator, "/v1/metrics/page/series", {"top": "2", "from": spans[0][0]})
        assert [len(point["values"]) for point in course["points"] if point["state"] == "released"] == [2, 2]
        ranges = {"a_from": spans[0][0], "a_to": spans[0][1], "b_from": spans[1][0], "b_to": spans[1][1]}
        changed = ask(services.aggregator, "/v1/metrics/page/compare", {**ranges, "top": "2"})
        assert {row["value"] for row in changed["values"]} == {PAGES[7], PAGES[-1]}
        assert all(row["adjusted_p_value"] < 1e-6 for row in changed["values"])
        text = fetch(services.aggregator, "/v1/metrics/page/estimate", {"format": "csv"}).decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["value"] for row in rows] == PAGES
