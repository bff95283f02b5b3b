"""Grafana's dashboard of estimates: each of its queries, asked as the Infinity plugin asks, gets the API's numbers.

There is no Grafana here. What the plugin does with a query of type `csv` and parser `backend` is little, and is done
here: it puts the data source's address before the path, sends the token, takes the columns by the names in the header,
and keeps the rows that fulfil the filter expression. An empty cell of a number is null.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import yaml

from scripts import make_grafana_estimates
from tests.aggregator.served import served_by_http
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start
from tests.support import http
from tests.support.codebooks import dark_mode, photo_app, startup_ms, theme
from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "estimates.json").read_text())
SOURCE: dict[str, Any] = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "hubbub.yaml").read_text())
TOKEN = "of-the-analyst-of-these-tests"  # noqa: S105  it guards nothing else
PERIODS = 6
LOST = TODAY - 3
"""The period whose crowd was too small."""

PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in DASHBOARD["panels"]}
VARIABLES: dict[str, dict[str, Any]] = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
NUMBERS = ["shown", "shown_low", "shown_high"]


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Six days of three metrics, one of them with a gap, behind a token."""
    root = tmp_path_factory.mktemp("grafana")
    text = photo_app(
        dark_mode(1.0),
        theme(2.0, values=["light", "dark", 'it\'s "quoted", or not']),
        startup_ms(1.0),
        grace="1d",
        device_epsilon=4.0,
    )
    start(root, text, (TODAY - PERIODS) * DAY + 60.0).storage.close()
    service = start(root, text, analyst_token=TOKEN)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - PERIODS, TODAY):
        if period == LOST:
            crowd.discard("dark_mode", period)
        else:
            crowd.shares("dark_mode", period, np.array([0.99, 0.01]), 4000)
        crowd.shares("theme", period, np.array([5, 3, 1]), 4000)
        crowd.numbers("startup_ms", period, 900, 200, 4000)
    with served_by_http(service) as address:
        yield address
    service.storage.close()


Row = dict[str, str | float | None]


def ask(address: str, query: dict[str, Any], **variables: str) -> list[Row]:
    """The frame that the plugin makes of a query."""
    assert (query["type"], query["parser"], query["source"]) == ("csv", "backend", "url")
    filled = {key: fill(query[key], variables) for key in ("url", "filterExpression")}
    with http.client(base_url=address) as asking:
        answer = asking.get(filled["url"], headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert rows, "the header alone"
    frame = []
    for row in rows:
        assert {column["selector"] for column in query["columns"]} <= row.keys()
        frame.append({column["text"]: cell(row[column["selector"]], column["type"]) for column in query["columns"]})
    keep = condition(filled["filterExpression"])
    return [row for row in frame if keep(row)]


def fill(text: str, variables: dict[str, str]) -> str:
    """Grafana's variables: as they are, or in single quotes as the format `singlequote` gives them."""
    for name, value in variables.items():
        quoted = value.replace("'", "\\'")
        text = text.replace("${" + name + "}", value).replace("${" + name + ":singlequote}", f"'{quoted}'")
    assert "$" not in text, f"a variable that the test does not set: {text}"
    return text


def cell(text: str, kind: str) -> str | float | None:
    if kind == "number":
        return float(text) if text else None
    if kind == "timestamp":
        assert re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", text), "a form that the plugin reads by itself"
    return text


def condition(expression: str) -> Callable[[Row], bool]:
    """A filter expression of the kind that is used here: comparisons of a column with a text; one must hold."""
    tests = []
    for part in filter(None, expression.split(" || ")):
        name, sign, text = re.fullmatch(r"(\w+) (==|!=) '(.*)'", part).groups()  # type: ignore[union-attr]  # it must be
        tests.append((name, sign == "==", text.replace("\\'", "'")))

    def keep(row: Row) -> bool:
        assert all(name in row for name, *_ in tests), "the filter sees the chosen columns only"
        return not tests or any((row[name] == text) == equal for name, equal, text in tests)

    return keep


def answer(address: str, path: str) -> Any:
    with http.client(base_url=address) as asking:
        return asking.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).json()


# -- the files


def test_the_dashboard_is_what_the_script_writes() -> None:
    assert make_grafana_estimates.main() == make_grafana_estimates.PATH.read_text(), (
        "python -m scripts.make_grafana_estimates"
    )


def test_the_token_is_sent_by_grafana_and_only_to_the_aggregator() -> None:
    (source,) = SOURCE["datasources"]
    assert source["type"] == VARIABLES["datasource"]["query"] == "yesoreyeram-infinity-datasource"
    assert source["access"] == "proxy"
    assert source["jsonData"]["auth_method"] == "bearerToken"
    assert source["jsonData"]["allowedHosts"] == [source["url"]] == ["$HUBBUB_ADDRESS"]
    assert source["secureJsonData"] == {"bearerToken": "$HUBBUB_TOKEN"}
    assert "TOKEN" not in json.dumps(DASHBOARD).upper()


def test_the_provider_names_a_folder_and_the_page_puts_the_dashboard_there() -> None:
    provider = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "hubbub.yaml").read_text())["providers"][0]
    page = (ROOT / "docs" / "how-to" / "grafana.md").read_text()
    assert f"deploy/grafana/estimates.json {provider['options']['path']}/" in page
    for file in (FOLDER / "provisioning").rglob("*.yaml"):
        assert str(file.relative_to(ROOT)) in page


def test_every_query_is_run_here() -> None:
    queries = [target for panel in PANELS.values() for target in panel["targets"]]
    assert len(queries) == len(PANELS) == 6
    assert VARIABLES.keys() == {"datasource", "metric", "value"}


# -- the queries


def test_without_the_token_the_aggregator_refuses(aggregator: str) -> None:
    with http.client(base_url=aggregator) as asking:
        assert asking.get(PANELS["${metric}"]["targets"][0]["url"].replace("${metric}", "theme")).status_code == 401


def test_the_lists_of_metrics_and_values_are_filled(aggregator: str) -> None:
    metrics = ask(aggregator, VARIABLES["metric"]["query"]["infinityQuery"])
    assert [row["metric"] for row in metrics] == ["dark_mode", "theme", "startup_ms"]
    values = ask(aggregator, VARIABLES["value"]["query"]["infinityQuery"], metric="theme")
    assert [row["value"] for row in values] == ["light", "dark", 'it\'s "quoted", or not']
    assert [row["value"] for row in ask(aggregator, VARIABLES["value"]["query"]["infinityQuery"], metric="startup_ms")]


@pytest.mark.parametrize(("metric", "label"), [("dark_mode", "yes"), ("startup_ms", "mean"), ("theme", "light")])
def test_the_first_panel_has_the_headline_with_its_band_and_a_gap(aggregator: str, metric: str, label: str) -> None:
    panel = PANELS["${metric}"]
    rows = ask(aggregator, panel["targets"][0], metric=metric)
    said = answer(aggregator, f"/v1/metrics/{metric}/series?headline=true&top=1")
    assert [row["period"] for row in rows] == [point["period"] for point in said["points"]]
    for row, point in zip(rows, said["points"], strict=True):
        if point["state"] == "released":
            (value,) = (one for one in point["values"] if one["label"] == label)
            assert [row[name] for name in NUMBERS] == numbers(value)
            assert row["shown_low"] <= row["shown"] <= row["shown_high"]  # type: ignore[operator]  # they are numbers
        else:
            assert [row[name] for name in NUMBERS] == [None, None, None]
    gaps = [row["period"] for row in rows if row["shown"] is None]
    assert len(gaps) == (2 if metric == "dark_mode" else 1), "the discarded period, and the open one"


def numbers(value: dict[str, Any]) -> list[float]:
    return [value["shown"][name] for name in ("value", "low", "high")]


def test_a_band_is_filled_between_the_limits() -> None:
    for title in ("${metric}", "${value}"):
        by_name = {one["matcher"]["options"]: one["properties"] for one in PANELS[title]["fieldConfig"]["overrides"]}
        assert {"id": "custom.fillBelowTo", "value": NUMBERS[1]} in by_name[NUMBERS[2]]
        assert all({"id": "custom.lineWidth", "value": 0} in by_name[name] for name in NUMBERS[1:])


def test_all_values_are_lines_by_value(aggregator: str) -> None:
    panel = PANELS["All values of ${metric}"]
    rows = ask(aggregator, panel["targets"][0], metric="theme")
    said = answer(aggregator, "/v1/metrics/theme/series?top=12")
    expected = [
        (point["period"], value["label"], numbers(value)[0])
        for point in said["points"]
        if point["state"] == "released"
        for value in point["values"]
    ]
    assert len(expected) == 3 * PERIODS
    assert [(row["period"], row["value"], row[NUMBERS[0]]) for row in rows] == expected
    assert panel["transformations"][0]["options"]["fields"] == ["value"]


@pytest.mark.parametrize("value", ["light", "dark", 'it\'s "quoted", or not'])
def test_each_value_has_its_own_band(aggregator: str, value: str) -> None:
    panel = PANELS["${value}"]
    assert panel["repeat"] == "value"
    rows = ask(aggregator, panel["targets"][0], metric="theme", value=value)
    said = answer(aggregator, "/v1/metrics/theme/series")
    expected = [numbers(one) for point in said["points"] for one in point.get("values") or [] if one["label"] == value]
    assert [[row[name] for name in NUMBERS] for row in rows if row["value"]] == expected
    assert len(expected) == PERIODS
    assert [row[NUMBERS[0]] for row in rows if not row["value"]] == [None], "the open period is a gap"


def test_the_tables_say_the_whole_the_gaps_and_the_cost(aggregator: str) -> None:
    whole = ask(aggregator, PANELS["Over all periods"]["targets"][0], metric="dark_mode")
    said = answer(aggregator, "/v1/metrics/dark_mode/estimate?top=50")["segments"][0]
    assert [[row[name] for name in NUMBERS] for row in whole] == [numbers(value) for value in said["values"]]
    assert {row["reports"] for row in whole} == {said["reports"]}

    gaps = ask(aggregator, PANELS["Periods without a number"]["targets"][0], metric="dark_mode")
    assert [row["state"] for row in gaps] == ["discarded", "open"]

    cost = ask(aggregator, PANELS["What it cost each device"]["targets"][0])
    assert {row["name"] for row in cost} == {"everything", "dark_mode", "startup_ms", "theme"}
    assert all(row["epsilon"] < row["collusion_epsilon"] for row in cost)  # type: ignore[operator]  # they are numbers
