"""Charts of a metric: bands hold their lines, gaps are grey, dates stand on periods, and spots say their numbers."""

from __future__ import annotations

import re
from datetime import date, timedelta
from html import unescape
from itertools import pairwise

import pytest

from hubbub_aggregator.dashboard.charts.curve import CurveChart, Mark
from hubbub_aggregator.dashboard.charts.grid import GridChart
from hubbub_aggregator.dashboard.charts.rows import Row, RowsChart
from hubbub_aggregator.dashboard.charts.series import Column, Edit, Reading, SeriesChart
from hubbub_aggregator.dashboard.charts.time_ticks import time_ticks
from hubbub_aggregator.dashboard.palette import DARK, themed
from hubbub_aggregator.dashboard.svg_canvas import FILE_WIDTH

START = date(2026, 1, 1)


def days(number: int) -> list[str]:
    return [(START + timedelta(days=day)).isoformat() for day in range(number)]


def row(label: str, value: float, wide: float = 0.02, **more: object) -> Row:
    return Row(label, value, value - wide, value + wide, f"{value:.0%}", "limits", "words", **more)  # type: ignore[arg-type]


def column(period: str, *values: float, run: str = "a") -> Column:
    if not values:
        return Column(period, f"{period}\nno number", "")
    return Column(period, f"{period}\nnumbers", run, tuple(Reading(v, v - 0.02, v + 0.03, f"{v:.0%}") for v in values))


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([-\d.]+),([-\d.]+)", path)]


def paths(svg: str, kind: str) -> list[list[tuple[float, float]]]:
    return [points(d) for d in re.findall(rf'<path d="M([^"]*)"[^>]*class="data {kind}"', svg)]


def words(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<title>([^<]*)</title>", svg)]


def texts(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


# -- the series -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [None, FILE_WIDTH])
@pytest.mark.parametrize("lines", [1, 3])
def test_every_point_of_a_line_lies_inside_its_band(width: int | None, lines: int) -> None:
    shown = [0.3 + 0.01 * (day % 7) for day in range(60)]
    columns = [
        column(day, *(value + 0.1 * line for line in range(lines))) for day, value in zip(days(60), shown, strict=True)
    ]
    svg = SeriesChart(columns, [f"line {n}" for n in range(lines)], is_share=True).svg(width)
    drawn, bands = paths(svg, "line"), paths(svg, "band")
    assert len(drawn) == len(bands) == lines
    for line, band in zip(drawn, bands, strict=True):
        upper, lower = band[: len(line)], band[len(line) :][::-1]
        for (x, y), (above_x, above), (below_x, below) in zip(line, upper, lower, strict=True):
            assert above_x == x == below_x
            assert above < y < below


def test_a_gap_breaks_line_and_band_and_is_grey_where_it_is() -> None:
    columns = [column(day, *([] if 10 <= at < 13 else [0.4])) for at, day in enumerate(days(40))]
    svg = SeriesChart(columns, ["yes"], is_share=True).svg()
    assert [len(line) for line in paths(svg, "line")] == [10, 27]
    (gap,) = re.findall(r'<rect x="([\d.]+)%"[^>]*width="([\d.]+)%"[^>]*class="gap"', svg)
    assert [float(end) for end in gap] == pytest.approx([25.0, 7.5], abs=0.01)


def test_what_the_shuffler_discarded_has_a_cross() -> None:
    columns = [column("2026-01-01", 0.4), Column("2026-01-02", "w", "", is_discarded=True), column("2026-01-03", 0.4)]
    assert texts(SeriesChart(columns, ["yes"], is_share=True).svg()).count("×") == 1


def test_an_edit_breaks_the_line_and_is_named_where_it_is() -> None:
    columns = [column(day, 0.4, run="a" if at < 30 else "b") for at, day in enumerate(days(40))]
    svg = SeriesChart(columns, ["yes"], is_share=True, edits=[Edit(30, "edited: 3 → 4 values")]).svg()
    assert len(paths(svg, "line")) == 2
    assert "edited: 3 → 4 values" in texts(svg)
    assert re.search(r'<line x1="75%"[^>]*class="edit"', svg)


def test_one_period_alone_has_a_whisker_and_a_dot() -> None:
    svg = SeriesChart([column("2026-01-01", 0.4), column("2026-01-02"), column("2026-01-03", 0.5)], ["yes"], True).svg()
    assert paths(svg, "line") == []
    assert svg.count("data whisker") == 2
    assert svg.count('class="data newest"') == 1


def test_the_newest_number_stands_beside_the_line() -> None:
    columns = [column(day, 0.4) for day in days(9)] + [column("2026-02-01", 0.57)]
    assert "57%" in texts(SeriesChart(columns, ["yes"], is_share=True).svg())


@pytest.mark.parametrize("number", [1, 2, 7, 45, 365])
def test_every_period_has_a_spot_as_wide_as_itself(number: int) -> None:
    svg = SeriesChart([column(day, 0.4, 0.2) for day in days(number)], ["a", "b"], is_share=True).svg()
    spots = re.findall(r'class="spot"[^>]*x="([\d.]+)%"[^>]*width="([\d.]+)%"', svg)
    assert len(spots) == number
    for at, (left, wide) in enumerate(spots):
        assert float(left) == pytest.approx(100 * at / number, abs=0.01)
        assert float(wide) == pytest.approx(100 / number, abs=0.01)
    assert words(svg)[0] == f"{days(1)[0]}\nnumbers"


def test_values_of_different_size_each_have_a_scale_of_their_own() -> None:
    """On one scale for all, an interval of two points in fifty would be a hair's breadth."""
    svg = SeriesChart([column(day, 0.02, 0.9) for day in days(60)], ["a", "b"], is_share=True).svg()
    for band in paths(svg, "band"):
        heights = [y for _, y in band]
        assert max(heights) - min(heights) > 25


# -- dates ----------------------------------------------------------------------------------------


def minutes(number: int, step: int) -> list[str]:
    return [f"2026-11-16T{(1380 * 60 + at * step) // 3600:02}:{at * step // 60 % 60:02}:{at * step % 60:02}Z"
            for at in range(number)]  # fmt: skip


@pytest.mark.parametrize(
    "labels", [days(n) for n in (1, 2, 3, 7, 8, 30, 90, 365)] + [minutes(n, 10) for n in (3, 6, 90)]
)
def test_dates_stand_on_periods_and_the_newest_always_has_one(labels: list[str]) -> None:
    ticks = time_ticks(labels)
    assert ticks[-1].at == len(labels) - 1
    assert ticks[-1].is_newest
    assert sum(tick.is_newest for tick in ticks) == 1
    places = [tick.at for tick in ticks]
    assert places == sorted(set(places))
    assert sum(not tick.is_wide for tick in ticks) <= 4, "a phone has room for few"
    assert len(ticks) <= 8
    assert len({tick.words for tick in ticks}) == len(ticks)


def test_dates_of_a_year_are_months_and_those_of_an_afternoon_its_hours() -> None:
    year = [tick.words for tick in time_ticks(days(365))]
    assert year[0].endswith("2026")
    assert set(year[1:-1]) < {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
    assert year[-1] == "31 Dec 2026"
    ten = [tick.words for tick in time_ticks([f"2026-11-16T17:{minute:02}:00Z" for minute in range(10, 40)])]
    assert all(re.fullmatch(r"17:\d\d", text) for text in ten[:-1])
    assert ten[-1] == "16 Nov, 17:39"


# -- values in rows -------------------------------------------------------------------------------


def test_a_bar_has_its_number_and_its_interval_beside_its_name() -> None:
    svg = RowsChart([row("light", 0.5), row("dark", 0.3)], "bars", is_share=True).svg()
    assert {"light", "50%", "dark", "30%", "limits"} <= set(texts(svg))
    assert svg.count('class="data"') == 2
    assert words(svg) == ["light\nwords", "dark\nwords"]


def test_changes_that_are_not_clear_are_grey() -> None:
    svg = RowsChart([row("a", 0.1), row("b", 0.01, is_clear=False)], "changes", is_share=True).svg()
    clear, unclear = re.findall(r'<circle [^>]*fill="(#[0-9a-f]+)"', svg)
    assert clear != unclear
    assert "+10" in texts(svg)


def test_a_number_is_shown_inside_what_it_may_be() -> None:
    svg = RowsChart([Row("mean", 990, 980, 1000, "990", "l", "w")], "dots", is_share=False, bounds=(0, 1000)).svg(700)
    assert max(float(tick.replace(",", "")) for tick in texts(svg)) == 1000


def test_text_of_a_codebook_stays_text() -> None:
    bad = row('<b>"x" & </svg>', 0.5)
    for svg in (
        RowsChart([bad], "bars", is_share=True).svg(),
        GridChart([bad], [bad.label], ["c"], ("a<", "b>")).svg(),
        SeriesChart([column("2026-01-01", 0.4)], [bad.label], is_share=True).svg(),
    ):
        assert "<b>" not in svg
        assert svg.count("<svg") == svg.count("</svg>")


# -- curves and grids -----------------------------------------------------------------------------


def test_places_that_grow_by_a_factor_have_a_logarithmic_axis() -> None:
    places = [10.0, 20.0, 40.0, 80.0, 160.0]
    chart = CurveChart([row(f"at {place:g}", 0.1 + place / 1000) for place in places], places, "ms", is_share=True)
    (line,) = paths(chart.svg(FILE_WIDTH), "line")
    steps = [b - a for (a, _), (b, _) in pairwise(line)]
    assert max(steps) - min(steps) < 0.1
    even = CurveChart(chart.rows, [10.0, 50.0, 60.0, 70.0, 80.0], "ms", is_share=True)
    (line,) = paths(even.svg(FILE_WIDTH), "line")
    assert line[1][0] - line[0][0] > 3 * (line[2][0] - line[1][0])


def test_a_histogram_has_bars_with_whiskers_and_marks_have_names() -> None:
    rows = [row(f"bin {at}", 0.1 + at / 100) for at in range(8)]
    marks = [Mark(6.0, "p95", 5.5, 6.6)]
    svg = CurveChart(rows, list(map(float, range(8))), "ms", is_share=True, is_histogram=True, marks=marks).svg()
    assert len(re.findall(r'<rect [^>]*class="data"', svg)) == 8
    assert paths(svg, "line") == []
    assert "p95" in texts(svg)
    assert len(words(svg)) == 8


def test_a_cell_of_a_grid_is_placed_by_its_label() -> None:
    cells = [row("b × y", 0.4), row("a × x", 0.1), row("a × y", 0.2)]
    svg = GridChart(cells, ["a", "b"], ["x", "y"], ("rows", "columns")).svg(100)
    places = {
        unescape(text).split("\n")[0]: (float(x), float(y))
        for x, y, text in re.findall(r'class="mark"[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*><title>([^<]*)', svg)
    }
    assert places["a × x"][0] < places["a × y"][0] == places["b × y"][0]
    assert places["a × x"][1] == places["a × y"][1] < places["b × y"][1]


# -- files ----------------------------------------------------------------------------------------


def test_a_file_has_a_size_and_in_the_dark_no_light_colour() -> None:
    svg = RowsChart([row("light", 0.5, raw=0.6)], "bars", is_share=True).svg(FILE_WIDTH)
    assert re.search(r'viewBox="0 0 \d+ \d+"', svg)
    assert "%" not in re.sub(r"<t(?:ext|itle)[^>]*>[^<]*", "", svg)
    assert not set(DARK) & set(re.findall(r'"(#[0-9a-f]{6})"', themed(svg, "dark")))
