"""CSV answers: any reader can read the table, and every number stands beside its guarantee."""

from __future__ import annotations

import csv
import io
import json
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub_aggregator.api.csv_tables import to_csv
from hubbub_aggregator.api.examples import ESTIMATE
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.models.estimate import Estimate
from tests.aggregator.world import CODEBOOK, DAY, START, Site

ODD = ["=1+1", "+49", "-5", "@cmd", "'quoted", 'a "b", c', "plain", "ünïcode ＝"]
GUARANTEE = ["epsilon", "delta", "honest_reports", "collusion_epsilon", "confidence", "together"]
PROSE = {"interval", "correction", "estimand", "method", "unit", "note"}
TWO_DAYS = "a_from=2027-01-15&a_to=2027-01-16&b_from=2027-01-16&b_to=2027-01-17"
TABLES = {
    "estimate": "/v1/metrics/odd/estimate",
    "series": "/v1/metrics/odd/series",
    "compare": f"/v1/metrics/odd/compare?{TWO_DAYS}",
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    """Names that a spreadsheet would run, and that a careless writer would break a row with; no test adds to it."""
    head = CODEBOOK.partition("[metrics.")[0]
    text = f'{head}\n[metrics.odd]\ntype = "category"\nvalues = {json.dumps(ODD, ensure_ascii=False)}\nepsilon = 2.0\n'
    site = Site.open(tmp_path_factory.mktemp("odd"), pool, text)
    for day in range(2):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("odd", ODD * 200, seed=day))
    yield site
    site.close()


def table(site: Site, path: str) -> list[dict[str, str]]:
    answer = site.get(path, headers={"Accept": "text/csv"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv; charset=utf-8")
    rows = list(csv.reader(io.StringIO(answer.content.decode(), newline=""), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert len(set(rows[0])) == len(rows[0])
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def taken_back(cell: str) -> str:
    """What the docs tell a reader who wants the text as it was."""
    return cell[1:] if cell.startswith("'") else cell


def number(cell: str) -> float | None:
    return float(cell) if cell else None


def test_an_estimate_has_a_row_for_each_value_with_the_numbers_of_the_json(odd: Site) -> None:
    (segment,) = odd.json(TABLES["estimate"])["segments"]
    rows = table(odd, TABLES["estimate"])
    assert [taken_back(row["value"]) for row in rows] == ODD
    for row, value in zip(rows, segment["values"], strict=True):
        for name in ("estimate", "stderr", "low", "high", "total", "total_low", "total_high"):
            assert number(row[name]) == value[name]
        assert [number(row[name]) for name in ("shown", "shown_low", "shown_high")] == list(value["shown"].values())
        assert int(row["reports"]) == segment["reports"]
        assert (row["from"], row["to"]) == ("2027-01-15", "2027-01-17")


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_carries_the_composed_guarantee_and_what_fakes_could_do(odd: Site, kind: str) -> None:
    answer = odd.json(TABLES[kind])
    rows = table(odd, TABLES[kind])
    assert rows
    for row in rows:
        assert all(row[name] for name in GUARANTEE)
        assert float(row["epsilon"]) == answer["privacy"]["epsilon"]
        assert float(row["collusion_epsilon"]) == answer["privacy"]["if_collusion"]["epsilon"]
        assert float(row["largest_period_epsilon"]) == max(p["epsilon"] for p in answer["privacy"]["per_period"])
        assert float(row["per_thousand_fakes"]) > 0


@pytest.mark.parametrize("kind", TABLES)
def test_numbers_come_before_prose_which_is_written_once(odd: Site, kind: str) -> None:
    rows = table(odd, TABLES[kind])
    names = list(rows[0])
    assert set(names[-(len(PROSE & set(names))) :]) <= PROSE
    assert names.index("shown") < names.index("stderr") < names.index("type")
    for name in PROSE & set(names):
        found = [row[name] for row in rows if row[name]]
        assert all(row[name] for row in rows[:1]) or not found
        assert all(one != other for one, other in pairwise(found))
    assert len(rows) > len([row for row in rows if row["unit"]]) == 1


def test_a_series_has_a_row_for_every_value_and_one_for_every_gap(odd: Site) -> None:
    odd.clock.now = START + 3 * DAY
    rows = table(odd, f"{TABLES['series']}?top=3")
    assert [row["state"] for row in rows] == ["released"] * 6 + ["open"] * 2
    assert {row["estimate"] for row in rows if row["state"] == "open"} == {""}
    assert all(row["period_epsilon"] for row in rows if row["state"] == "released")


def test_a_comparison_has_difference_and_p_value(odd: Site) -> None:
    answer = odd.json(TABLES["compare"])
    for row, value in zip(table(odd, TABLES["compare"]), answer["values"], strict=True):
        for name in ("a", "b", "difference", "stderr", "low", "high", "p_value", "adjusted_p_value"):
            assert number(row[name]) == value[name]
    assert table(odd, TABLES["compare"])[0]["correction"].startswith("Bonferroni")


def test_releases_metrics_and_ledger_are_tables_too(odd: Site) -> None:
    releases = table(odd, "/v1/releases")
    assert [row["period"] for row in releases] == ["2027-01-15", "2027-01-16"]
    assert all(row["epsilon"] and row["honest_reports"] for row in releases)
    assert [row["metric"] for row in table(odd, "/v1/metrics")] == ["odd"]
    assert {row["covers"] for row in table(odd, "/v1/privacy")} == {"total", "metric", "period", "through"}


def test_pages_of_a_table_are_linked_by_header(odd: Site) -> None:
    path, seen = "/v1/releases?limit=1&format=csv", []
    while path:
        answer = odd.get(path)
        seen += [row["id"] for row in csv.DictReader(io.StringIO(answer.text, newline=""))]
        path = answer.links["next"]["url"] if "next" in answer.links else ""
    assert len(seen) == len(set(seen)) == 2


def test_lines_end_as_the_standard_says(odd: Site) -> None:
    raw = odd.get(TABLES["estimate"], headers={"Accept": "text/csv"}).content
    assert raw.endswith(b"\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n") == 1 + len(ODD)


LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)


@given(label=st.one_of(LABELS, st.builds(str.__add__, st.sampled_from(list("=+-@'＝＋－＠")), LABELS)))
def test_no_cell_of_text_is_a_formula_and_each_can_be_taken_back(label: str) -> None:
    example: Any = json.loads(json.dumps(ESTIMATE))
    for value in example["segments"][0]["values"]:
        value["value"] = value["label"] = label
    raw = to_csv(Estimate.model_validate(example)).decode()
    for row in csv.DictReader(io.StringIO(raw, newline=""), strict=True):
        assert row["value"][0] not in "=+-@＝＋－＠\t\r"
        assert taken_back(row["value"]) == label
        assert float(row["low"]) == pytest.approx(float(row["estimate"]) - 0.0108)


def test_negative_numbers_stay_numbers() -> None:
    example: Any = json.loads(json.dumps(ESTIMATE))
    example["segments"][0]["values"][0]["low"] = -0.25
    raw = to_csv(Estimate.model_validate(example)).decode()
    assert next(csv.DictReader(io.StringIO(raw, newline="")))["low"] == "-0.25"
    assert all(c in string.printable for c in raw)
