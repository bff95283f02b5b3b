"""Toy types and a mechanism that the product does not know: codebook, SDK, both services and the API take them.

Nothing in the product is changed or set for them: they are registered, as a file of a contributor's own would be.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hubbub.codebook import Codebook, lint
from hubbub.errors import HubbubError
from hubbub_client import Outcome
from hubbub_client.testing import Device
from tests.core.metric_types.conftest import DEVICES, Ran
from tests.core.metric_types.toys import CODEBOOK

CELLS = ["light × small", "light × medium", "light × large", "dark × small", "dark × medium", "dark × large"]
EDGES = ["at most 10", "at most 20.5", "at most 50"]
PLANS = ["free", "paid", "team"]

pytestmark = pytest.mark.usefixtures("toys")


def truth(metric: str, held: list[Any]) -> dict[str, float]:
    """What devices that hold this have in common, by the label of each value, computed by hand."""
    match metric:
        case "look":
            pairs = Counter(f"{one['theme']} × {one['size']}" for one in held)
            return {cell: pairs[cell] / len(held) for cell in CELLS}
        case "wait":
            return {
                label: sum(one <= edge for one in held) / len(held)
                for label, edge in zip(EDGES, (10, 20.5, 50), strict=True)
            }
    return {plan: sum(one["amount"] for one in held if one["plan"] == plan) / len(held) for plan in PLANS}


def rows(ran: Ran, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ran.get(path).text)))


def test_a_codebook_of_toys_is_compiled_read_back_and_linted() -> None:
    book = Codebook.from_toml(CODEBOOK)
    again = Codebook.from_compiled(book.to_bytes())
    assert again == book
    assert again.metric("look").missing == ["light", "small"]
    assert again.metric("wait").reduce == "median"
    assert "metrics.wait.missing" in {finding.key for finding in lint(book, today=date(2027, 1, 1))}


def test_a_unit_of_a_toy_is_no_part_of_its_id() -> None:
    other = Codebook.from_toml(CODEBOOK.replace('unit = "min"', 'unit = "h"'))
    assert other.metric("minutes").id == Codebook.from_toml(CODEBOOK).metric("minutes").id


def test_an_app_records_mappings_and_a_number(tmp_path: Path) -> None:
    """Before there is a codebook, too: what waits is a copy that the app can't change any more."""
    with Device(CODEBOOK, tmp_path) as device:
        early = {"theme": "dark", "size": "large"}
        assert device.client.record("look", early) in (Outcome.WAITING, Outcome.RECORDED)
        early["size"] = "small"
        device.client.flush(0, now=True)
        for size in ("large", "medium", "large"):
            assert device.client.record("look", {"theme": "dark", "size": size}) is Outcome.RECORDED
        assert device.client.record("wait", 12) is Outcome.RECORDED
        assert device.client.record("minutes", {"plan": "paid", "amount": 42}) is Outcome.RECORDED
        pending = {one.metric: one.value for one in device.client.preview().pending}
        assert pending == {"look": ["dark", "large"], "wait": 12.0, "minutes": ["paid", 42.0]}
        device.next_period()
        sent = {report.metric: report.value for report in device.reports_sent()}
    assert set(sent["look"]) == {"theme", "size"}, "a report by shrug names a value, so it is shown as one"
    assert sent["wait"] in (10.0, 20.5, 50.0, 51.0)
    assert sent["minutes"]["plan"] in PLANS


def test_what_a_toy_does_not_take_is_said_in_its_own_words(tmp_path: Path) -> None:
    with Device(CODEBOOK, tmp_path) as device:
        device.client.flush(0, now=True)
        with pytest.raises(HubbubError, match="takes a mapping with theme and size"):
            device.client.record("look", {"theme": "dark"})
        with pytest.raises(HubbubError, match="takes a mapping with plan and amount"):
            device.client.record("minutes", {"plan": "paid", "amount": -1})


@pytest.mark.parametrize(("metric", "labels"), [("look", CELLS), ("wait", EDGES), ("minutes", PLANS)])
@pytest.mark.parametrize("period", [0, 1])
def test_both_services_carry_them(ran: Ran, metric: str, labels: list[str], period: int) -> None:
    found, known = ran.found[period][metric], truth(metric, ran.held[period][metric])
    assert found["reports"] == DEVICES
    assert [row["label"] for row in found["values"]] == labels
    for row in found["values"]:
        assert abs(row["estimate"] - known[row["label"]]) < 8 * row["stderr"]
        assert row["low"] < row["high"]


def test_an_answer_says_how_a_grid_is_shown(ran: Ran) -> None:
    found = ran.found[0]["look"]
    assert (found["shape"], found["measure"], found["order"]) == ("grid", "share", "listed")
    assert [axis["name"] for axis in found["axes"]] == ["theme", "size"]


def test_an_answer_says_how_a_curve_is_shown(ran: Ran) -> None:
    found = ran.found[0]["wait"]
    assert (found["shape"], found["headline"]["label"]) == ("curve", "at most 20.5")
    assert found["axes"][0]["places"] == [10, 20.5, 50]
    assert found["axes"][0]["unit"] == "ms"
    assert "norm_sub" not in found["postprocessing"], "these do not sum to one"


def test_an_answer_says_how_numbers_by_group_are_shown(ran: Ran) -> None:
    found = ran.found[0]["minutes"]
    assert (found["shape"], found["measure"], found["unit"], found["order"]) == ("numbers", "number", "min", "listed")
    assert found["axes"] == [
        {"name": "plan", "labels": PLANS, "places": None, "unit": None, "edges": None, "scale": "linear"}
    ]
    assert found["postprocessing"] == ["none", "clip"]


def test_the_api_lists_and_follows_them(ran: Ran) -> None:
    listed = {metric["name"]: metric["versions"][-1] for metric in ran.get("/v1/metrics").json()["metrics"]}
    assert {name: (one["shape"], one["value_count"], one["inputs"]) for name, one in listed.items()} == {
        "look": ("grid", 6, 6),
        "wait": ("curve", 3, 4),
        "minutes": ("numbers", 3, 9),
    }
    for metric, labels in (("look", CELLS), ("wait", EDGES), ("minutes", PLANS)):
        series = ran.get(f"/v1/metrics/{metric}/series").json()
        released = [point for point in series["points"] if point["state"] == "released"]
        assert len(released) == 2
        assert all([row["label"] for row in point["values"]] == labels for point in released)
    refused = ran.get("/v1/metrics/wait/estimate?postprocess=norm_sub")
    assert refused.status_code == 422
    assert "use clip or none" in refused.json()["detail"]


def asked(ran: Ran, metric: str) -> str:
    (a_from, a_to), (b_from, b_to) = ran.ranges(metric)
    return f"a_from={a_from}&a_to={a_to}&b_from={b_from}&b_to={b_to}"


@pytest.mark.parametrize("metric", ["look", "wait", "minutes"])
def test_the_api_compares_them(ran: Ran, metric: str) -> None:
    """The second period differs from the first by what its devices hold, and the answer says by how much."""
    answer = ran.get(f"/v1/metrics/{metric}/compare?{asked(ran, metric)}").json()
    assert answer["shape"] == ran.found[0][metric]["shape"]
    before, after = (truth(metric, held[metric]) for held in ran.held)
    for row in answer["values"]:
        change = after[row["label"]] - before[row["label"]]
        assert row["difference"] == pytest.approx(row["b"] - row["a"])
        assert abs(row["difference"] - change) < 8 * row["stderr"]
        assert row["low"] < row["difference"] < row["high"]
        assert row["adjusted_p_value"] < 0.001, "all of them moved by far more than noise does"


def test_a_table_says_the_row_the_column_and_the_place(ran: Ran) -> None:
    look = rows(ran, "/v1/metrics/look/estimate?format=csv")
    assert [(row["value"], row["row"], row["column"]) for row in look][3] == ("dark × small", "dark", "small")
    assert {row["shape"] for row in look} == {"grid"}
    wait = rows(ran, "/v1/metrics/wait/series?format=csv")
    assert [row["place"] for row in wait if row["place"]] == 2 * ["10.0", "20.5", "50.0"]
    minutes = rows(ran, "/v1/metrics/minutes/estimate?format=csv")
    assert [(row["value"], row["row"], row["shape"], row["value_unit"]) for row in minutes] == [
        (plan, plan, "numbers", "min") for plan in PLANS
    ]


@pytest.mark.parametrize(("metric", "labels"), [("look", CELLS), ("wait", EDGES), ("minutes", PLANS)])
def test_a_table_of_differences_has_them(ran: Ran, metric: str, labels: list[str]) -> None:
    found = rows(ran, f"/v1/metrics/{metric}/compare?{asked(ran, metric)}&format=csv")
    assert [row["value"] for row in found] == labels
    assert all(float(row["low"]) < float(row["difference"]) < float(row["high"]) for row in found)
