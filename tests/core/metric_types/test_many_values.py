"""Shapes with many values: shown whole and in order, with names that differ and units."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from itertools import product
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.pages.url_parameters import Asked
from hubbub_aggregator.dashboard.routes import Dashboard
from hubbub_aggregator.models.metrics import NamedMetric
from hubbub_cli.all_commands import hubbub
from hubbub_cli.terminal.period_names import named
from tests.aggregator.dashboard.conftest import Visited
from tests.core.metric_types.conftest import listening
from tests.core.metric_types.long_toys import (
    COUNTRIES,
    DEPARTMENTS,
    EDGES,
    GROUPS,
    PERIODS,
    PLANS,
    SYSTEMS,
    long_toys,
)

pytestmark = pytest.mark.usefixtures("toys")

LEADS = "at most 410"
DAYS = ("2027-01-12", "2027-01-13", "2027-01-14", "2027-01-15")
COMPARED = f"a_from={DAYS[0]}&a_to={DAYS[1]}&b_from={DAYS[2]}&b_to={DAYS[3]}"
BESIDE = f"compare_from={DAYS[0]}&compare_to={DAYS[1]}&from={DAYS[2]}&to={DAYS[3]}"


@pytest.fixture(scope="module")
def long(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:  # noqa: ARG001  they must be known
    service = long_toys(tmp_path_factory.mktemp("long"))
    app = create_app(service)
    app.state.dashboard = Dashboard(app, is_patient=True)
    yield Visited(app, service)
    service.close()


@pytest.fixture(scope="module")
def address(long: Visited) -> Iterator[str]:
    with listening(long.app) as address:
        yield address


def told(address: str, *arguments: str) -> list[str]:
    found = CliRunner(env={"HUBBUB_ADDRESS": address}).invoke(hubbub, ["query", *arguments])
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert max(map(len, lines)) <= 80, "a terminal has eighty columns"
    return lines


def cut(line: str) -> list[str]:
    """A line of a table by its columns."""
    return re.split(r" {2,}", line)


def estimates(long: Visited, metric: str, asked: str = "") -> dict[str, float]:
    answer = long.get(f"/v1/metrics/{metric}/estimate?{asked}").json()
    return {row["label"]: row["estimate"] for row in answer["segments"][-1]["values"]}


def marks(svg: str) -> dict[str, tuple[float, float]]:
    """Where each mark or spot with a text lies, by what the text is about: its first line."""
    found = {}
    for tag, text in re.findall(r'<(?:path|rect) class="(?:mark|spot)"([^>]*)><title>([^<]*)</title>', svg):
        at = (
            re.search(r'transform="translate\(([-\d.]+),([-\d.]+)\)"', tag)
            or re.search(r'd="M([-\d.]+)[ ,]([-\d.]+)', tag)
            or re.search(r'x="([-\d.]+)" y="([-\d.]+)"', tag)
        )
        assert at is not None
        found[unescape(text).split("\n")[0]] = (float(at[1]), float(at[2]))
    return found


# -- placed by label ------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["", "?top=100", "?top=20"])
def test_every_cell_of_a_grid_is_drawn_in_its_place(long: Visited, asked: str) -> None:
    drawn = long.get(f"/chart/estimate/system.svg{asked}")
    assert drawn.status_code == 200
    assert long.get(f"/metric/system{asked}").status_code == 200
    at = marks(drawn.text)
    assert len(at) == 32
    columns = [at[f"{SYSTEMS[0]} × {plan}"][0] for plan in PLANS]
    assert columns == sorted(columns)
    for system, plan in product(SYSTEMS, PLANS):
        assert at[f"{system} × {plan}"] == (at[f"macOS × {plan}"][0], at[f"{system} × Trial"][1])


@pytest.mark.parametrize("asked", ["", "?top=100", "?top=20"])
def test_every_place_of_a_curve_is_drawn_at_its_place(long: Visited, asked: str) -> None:
    drawn = long.get(f"/chart/estimate/wait.svg{asked}")
    assert drawn.status_code == 200
    at = marks(drawn.text)
    found = estimates(long, "wait", f"from={DAYS[2]}")
    assert len(at) == 80
    across = [at[label][0] for label in found]
    assert across == sorted(across)
    (line,) = re.findall(r'<path d="M([^"]*)"[^>]*class="data line"', drawn.text)
    heights = [float(point.split(",")[1]) for point in line.split("L")]
    highest = list(found)[heights.index(min(heights))]
    assert highest == max(found, key=lambda label: found[label])


def test_values_along_axes_are_never_asked_for_by_size(long: Visited) -> None:
    listed = {one["name"]: NamedMetric(**one) for one in long.get("/v1/metrics").json()["metrics"]}
    for name in ("system", "country", "wait", "minutes"):
        assert Asked(top=20).listed(listed[name]) is None
        assert 'name="top"' not in long.get(f"/metric/{name}").text


@pytest.mark.parametrize("options", [(), ("--top", "100")])
def test_the_terminal_puts_numbers_under_their_columns(long: Visited, address: str, options: tuple[str, ...]) -> None:
    lines = told(address, "system", *options)
    found = estimates(long, "system")
    heads = [number for number, line in enumerate(lines) if "Free of charge" in line or "Education" in line]
    assert len(heads) == 2, "eight columns do not fit a line"
    for head in heads:
        plans = cut(lines[head].strip())
        assert set(plans) < set(PLANS)
        for system, line in zip(SYSTEMS, lines[head + 1 :], strict=False):
            assert line.startswith(system)
            numbers = re.findall(r"(-?[\d.]+)% ±", line)
            assert [float(one) for one in numbers] == [
                pytest.approx(100 * found[f"{system} × {plan}"], abs=0.051) for plan in plans
            ]


def test_the_largest_cells_are_listed_by_name(address: str) -> None:
    lines = told(address, "system", "--top", "3")
    (head,) = [number for number, line in enumerate(lines) if cut(line)[1:] == ["estimate", "low", "high"]]
    assert cut(lines[head])[0] == "operati…system × applica…n plan"
    assert lines[head + 1].startswith("Android × Internal ")
    assert lines[head + 4] == "and 29 smaller ones"


# -- the value that leads -------------------------------------------------------------------------


def test_a_series_of_the_headline_has_one_value_that_was_not_chosen_by_size(long: Visited) -> None:
    series = long.get("/v1/metrics/wait/series?headline=true").json()
    released = [point for point in series["points"] if point["state"] == "released"]
    assert [[row["label"] for row in point["values"]] for point in released] == PERIODS * [[LEADS]]
    assert {point["interval"]["selection"] for point in released} == {None}
    assert {point["interval"]["together"] for point in released} == {len(EDGES)}
    whole = long.get("/v1/metrics/wait/series").json()["points"]
    assert [point["values"] for point in released] == [
        [row for row in point["values"] if row["label"] == LEADS] for point in whole if point["state"] == "released"
    ]


def test_without_a_headline_a_series_has_what_top_says(long: Visited) -> None:
    points = long.get("/v1/metrics/system/series?headline=true&top=2").json()["points"]
    assert {len(point["values"]) for point in points if point["state"] == "released"} == {2}
    assert points[0]["interval"]["selection"] is not None


def test_a_long_curve_has_a_course_and_a_card_of_what_leads(long: Visited) -> None:
    course = marks(long.get("/chart/series/wait.svg").text)
    assert len(course) == PERIODS
    overview, page = long.page("/").text, long.page("/metric/wait").text
    assert LEADS in overview
    assert "at most 800" not in overview
    assert "which hold for all values together" in page


def test_the_terminal_follows_what_leads(address: str) -> None:
    lines = told(address, "wait", "--series")
    assert f"time to start (ms), {LEADS}:" in lines
    assert sum(line.startswith(named(DAYS[0])) for line in lines) == 1


# -- in the terminal ------------------------------------------------------------------------------


def test_a_long_curve_is_told_in_steps_and_in_order(address: str) -> None:
    lines = told(address, "wait")
    places = [int(line.split()[2]) for line in lines if line.startswith("at most")]
    assert places == sorted(places)
    assert {EDGES[0], 410, EDGES[-1]} < set(places)
    assert any(line.startswith("time to start (ms)") for line in lines)
    assert "21 of 80 places, evenly spaced and the leading one; --csv has all" in lines


def test_a_wide_grid_is_told_in_several_tables(address: str) -> None:
    lines = told(address, "country")
    heads = [line for line in lines if line.startswith("age group / country")]
    assert len(heads) > 5
    rows = [line for line in lines if line.startswith("group ")]
    assert sum(line.count("±") for line in rows) == len(GROUPS) * len(COUNTRIES)
    assert "smaller ones" not in "".join(lines)


@pytest.mark.parametrize("metric", ["system", "country", "wait", "minutes"])
def test_no_two_rows_of_a_comparison_have_one_name(address: str, metric: str) -> None:
    lines = told(address, metric, "--compare", f"{DAYS[0]}..{DAYS[1]}", f"{DAYS[2]}..{DAYS[3]}")
    (head,) = [number for number, line in enumerate(lines) if "  b - a  " in line]
    names = [cut(line)[0] for line in lines[head + 1 : lines.index("", head)] if len(cut(line)) > 5]
    assert len(names) == len(set(names)) >= 20


def test_units_are_said_wherever_there_are_numbers(long: Visited, address: str) -> None:
    assert "in min" in told(address, "minutes", "--compare", f"{DAYS[0]}..{DAYS[1]}", f"{DAYS[2]}..{DAYS[3]}")
    series = told(address, "minutes", "--series")
    assert any(line.endswith(", in min:") for line in series)
    assert any(re.search(r"can be off by [\d.]+ min$", line) for line in series)
    changed = long.page(f"/metric/minutes?{BESIDE}").text
    assert re.search(r"[+−][\d.]+\u202fmin", changed)


# -- pictures -------------------------------------------------------------------------------------


def shown_names(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]+)</text>", svg)]


def test_columns_that_have_no_room_for_a_name_are_left_out_and_that_is_said(long: Visited) -> None:
    names = [name for name in shown_names(long.get("/chart/estimate/country.svg").text) if name.startswith("Country")]
    assert [name[-2:] for name in names] == [country[-2:] for country in COUNTRIES[::2]]
    assert "one in 2 columns has its name above it" in long.page("/metric/country").text
    assert "has its name above it" not in long.page("/metric/system").text


def test_long_names_down_the_side_can_be_told_apart(long: Visited) -> None:
    names = [name for name in shown_names(long.get("/chart/estimate/minutes.svg").text) if name.startswith("Depart")]
    assert len(names) == len(set(names)) == len(DEPARTMENTS)


def test_what_the_rows_are_is_written_out(long: Visited) -> None:
    assert "operating system" in shown_names(long.get("/chart/estimate/system.svg").text)


def test_a_comparison_of_a_curve_is_a_curve_of_all_its_places(long: Visited) -> None:
    assert len(marks(long.get(f"/chart/compare/wait.svg?{BESIDE}").text)) == 80
    assert "largest changes" not in long.page(f"/metric/wait?{BESIDE}").text
    assert "the 40 largest changes of 240" in long.page(f"/metric/country?{BESIDE}").text


def test_names_on_a_card_can_be_told_apart(long: Visited) -> None:
    card = long.get("/").text.partition('/metric/minutes"')[2].partition("</article>")[0]
    first, *others = re.findall(r'<span class="(?:of|label)"[^>]*><bdi class="name">([^<]*)</bdi>', card)
    assert first == DEPARTMENTS[-1]
    newest = estimates(long, "minutes", f"from={DAYS[2]}&top=3")
    assert others == [f"Departme…hings {label[-2:]}" for label in newest if label != first]
    assert len(others) == 2


# -- comparisons ----------------------------------------------------------------------------------


def test_a_table_of_differences_says_the_row_the_column_and_the_place(long: Visited) -> None:
    def rows(metric: str) -> list[dict[str, str]]:
        text = long.get(f"/v1/metrics/{metric}/compare?{COMPARED}&format=csv").text
        assert text.startswith("metric,value,row,column,place,")
        return list(csv.DictReader(io.StringIO(text)))

    assert [(row["row"], row["column"]) for row in rows("system")] == list(product(SYSTEMS, PLANS))
    assert [float(row["place"]) for row in rows("wait")] == EDGES
    assert [row["row"] for row in rows("minutes")] == DEPARTMENTS


def test_two_values_that_a_type_has_made_of_shares_are_no_complements(long: Visited) -> None:
    """The mechanism's own estimates sum to one; the shares at or below two edges do not."""
    answer: Any = json.loads(long.get(f"/v1/metrics/steps/compare?{COMPARED}").text)
    assert answer["value_count"] == 2
    assert "for all 2 values together" in answer["correction"]
    for row in answer["values"]:
        assert row["adjusted_p_value"] == min(1.0, 2 * row["p_value"])
