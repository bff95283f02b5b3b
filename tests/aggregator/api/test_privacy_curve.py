"""/v1/privacy at any delta, its curve for groups, and the trade-off of a metric: as the accountant says, never less."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from hubbub.accounting import PrivacyCurve
from hubbub_aggregator.intake.open_reports import Pool
from tests.aggregator.world import DAY, Site
from tests.support.codebooks import dark_mode, photo_app

TEXT = photo_app(dark_mode(1.0, min_batch=400), grace="1d", epsilon=0.5, delta=1e-6, honest_fraction=0.9)


@pytest.fixture
def released(tmp_path: Path, pool: Pool) -> Site:
    site = Site.open(tmp_path, pool, TEXT)
    for seed in (1, 2):
        assert site.settle(site.batch("dark_mode", [True] * 450, seed))["state"] == "accepted"
        site.clock.now += DAY
        site.service.tick()
    return site


def test_the_ledger_answers_at_any_delta(released: Site) -> None:
    usual = released.json("/v1/privacy")["total"]
    curve = PrivacyCurve(((released.metric("dark_mode").mechanism, 405, 2),))
    for delta in (1e-3, 1e-6, 1e-12):
        found = released.json(f"/v1/privacy?delta={delta}")["total"]
        assert found["delta"] == delta
        assert found["epsilon"] == pytest.approx(curve.epsilon(delta), rel=1e-6)
    assert released.json("/v1/privacy?delta=1e-3")["total"]["epsilon"] < usual["epsilon"]
    one = released.json("/v1/privacy?delta=1e-3")["per_period"][0]
    assert one["epsilon"] < released.json("/v1/privacy")["per_period"][0]["epsilon"]
    for wrong in ("0", "1", "-1", "nan", "two"):
        assert released.get(f"/v1/privacy?delta={wrong}").status_code == 422


def test_the_curve_of_a_group_comes_as_json_and_csv(released: Site) -> None:
    mechanism = released.metric("dark_mode").mechanism
    for group in (1, 3):
        curve = PrivacyCurve(((mechanism, 405, 2),), devices=group)
        found = released.json(f"/v1/privacy/curve?delta=1e-6&group={group}")
        assert (found["group"], found["releases"], found["delta"]) == (group, 2, 1e-6)
        assert found["epsilon"] == pytest.approx(curve.epsilon(1e-6), rel=1e-6)
        assert found["local_epsilon"] == curve.local_epsilon
        heights = [point["delta"] for point in found["points"]]
        assert heights == sorted(heights, reverse=True)
        for point in found["points"][::8]:
            assert point["delta"] >= curve.delta(point["epsilon"]) * (1 - 1e-9)
        misses = [point["least_miss"] for point in found["errors"]]
        assert misses == sorted(misses, reverse=True)
        rows = list(csv.DictReader(io.StringIO(released.get(f"/v1/privacy/curve?group={group}&format=csv").text)))
        assert {row["kind"] for row in rows} == {"delta", "error"}
        assert len(rows) == len(found["points"]) + len(found["errors"])
    alone, three = (released.json(f"/v1/privacy/curve?delta=1e-6&group={group}")["epsilon"] for group in (1, 3))
    assert alone < three <= 6.0


def test_a_metric_that_nobody_knows_has_no_curve_and_an_empty_collection_an_empty_one(site: Site) -> None:
    assert site.get("/v1/privacy/curve?metric=nothing").status_code == 404
    found = site.json("/v1/privacy/curve?metric=dark_mode")
    assert (found["epsilon"], found["points"], found["releases"]) == (None, [], 0)


def test_the_trade_off_of_a_metric_is_the_planner_s(released: Site) -> None:
    found = released.json("/v1/metrics/dark_mode/tradeoff?reports=5000")
    assert (found["reports"], found["honest_reports"], found["epsilon"], found["local_epsilon"]) == (5000, 4500, 0.5, 1)
    errors = [point["standard_error"] for point in found["points"]]
    assert errors == sorted(errors, reverse=True)
    for point in found["points"]:
        assert point["standard_error"] >= point["local_bound"] * (1 - 1e-9) or errors[-1] == point["standard_error"]
    assert found["central_gaussian"] < errors[-1] < found["standard_error"]
    assert len(found["sides"]) == 2
    assert released.json("/v1/metrics/dark_mode/tradeoff")["reports"] == 450
    assert released.get("/v1/metrics/dark_mode/tradeoff?format=csv").text.startswith("metric,")
