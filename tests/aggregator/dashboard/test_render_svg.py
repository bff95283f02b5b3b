"""Charts as SVG: they show intervals, have gaps where no value is known, and are drawn once."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import pytest

from hubbub_aggregator.dashboard import vega_render, vega_specs
from hubbub_aggregator.dashboard.pages.cards import every_nth
from hubbub_aggregator.dashboard.palette import DARK, themed
from hubbub_aggregator.dashboard.sparkline import sparkline
from hubbub_aggregator.dashboard.vega_render import Drawer
from hubbub_aggregator.dashboard.vega_specs import Bar, Moment

ROWS = [Bar("light", 0.5, 0.45, 0.55, "light: 50 %"), Bar("dark", 0.3, 0.25, 0.35, "dark: 30 %")]


@pytest.fixture(scope="module")
def drawer() -> Drawer:
    return Drawer()


def test_a_bar_chart_has_a_bar_and_a_whisker_for_each_value(drawer: Drawer) -> None:
    svg = drawer.svg(vega_specs.bars(ROWS))
    assert svg.count('class="mark"') == 2
    assert len(re.findall(r'<line [^>]*stroke="#1b1f24"[^>]*stroke-width="1.5"', svg)) == 2
    assert "<title>light: 50 %</title>" in svg


def test_a_course_breaks_where_nothing_was_released(drawer: Drawer) -> None:
    days = [Moment(f"2027-01-0{day}", "yes", 0.4, 0.35, 0.45, "t1", f"run {day > 3}") for day in (1, 2, 3, 5, 6)]
    svg = drawer.svg(vega_specs.course(days, ["yes"], share=True))
    bands = re.findall(r'<path [^>]*d="(M[^"]*Z)"[^>]*fill="#0072b2" (?:fill-)?opacity="0.3"', svg)
    assert len(bands) == 2
    assert svg.count('class="mark"') == 5


def test_an_afternoon_is_not_called_a_morning(drawer: Drawer) -> None:
    """With periods below a day the axis has hours, of 24."""
    minutes = [Moment(f"2027-01-01T17:0{n}:00Z", "yes", 0.4, 0.35, 0.45, "t1", "run") for n in range(6)]
    shown = re.findall(r">(\d\d:\d\d)<", drawer.svg(vega_specs.course(minutes, ["yes"], share=True)))
    assert shown
    assert all(text.startswith("17:") for text in shown)


def test_text_is_not_touched_where_tags_are_tidied(drawer: Drawer) -> None:
    rows = [Bar('v 1.23456789 opacity="1" class="x"', 0.5, 0.4, 0.6, 'd="M1.23456789" > 2')]
    svg = drawer.svg(vega_specs.bars(rows))
    assert "<title>d=&quot;M1.23456789&quot; &gt; 2</title>" in svg
    assert "v 1.23456" in svg


def test_a_chart_is_drawn_once_and_old_ones_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def convert(spec: str) -> str:
        drawn.append(spec)
        return f'<svg width="1" height="1">{"x" * 1000}</svg>'

    monkeypatch.setattr(vega_render, "_convert", convert)
    small = Drawer(most_bytes=3000)
    specs: list[dict[str, Any]] = [{"n": number} for number in range(4)]
    for spec in [specs[0], specs[0], *specs, specs[3], specs[0]]:
        small.svg(spec)
    assert len(drawn) == 5  # the first was dropped when the fourth came


def test_a_file_in_the_dark_has_no_light_colour(drawer: Drawer) -> None:
    svg = themed(drawer.svg(vega_specs.bars(ROWS, processed=True)), "dark")
    assert not set(DARK) & set(re.findall(r'"(#[0-9a-f]{6})"', svg))


def test_a_sparkline_draws_its_band_and_shows_gaps() -> None:
    dots = [(0.4, 0.3, 0.5, "a"), (0.5, 0.4, 0.6, "a"), None, (0.5, 0.4, 0.6, "a"), (0.6, 0.5, 0.7, "b")]
    svg = sparkline(dots, 'a "name" <b>', ("0 <", "1"))
    assert svg.count("spark-band") == 1
    assert svg.count("spark-whisker") == svg.count("spark-dot") == 2
    assert re.findall(r"<text[^>]*>([^<]*)</text>", svg) == ["1", "0 &lt;"]
    assert 'aria-label="a &quot;name&quot; &lt;b&gt;"' in svg


def test_a_year_is_thinned_by_whole_weeks() -> None:
    assert [every_nth(periods) for periods in (2, 60, 61, 365, 420, 421, 9999)] == [1, 1, 7, 7, 7, 28, 91]


def test_starting_the_app_loads_no_chart_engine() -> None:
    import subprocess
    import sys

    code = (
        "import sys, hubbub_aggregator.app; print([m for m in ('vl_convert', 'altair', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def _year(labels: tuple[str, ...]) -> list[Moment]:
    start = date(2026, 1, 1)
    days = [(start + timedelta(days=7 * week)).isoformat() for week in range(52)]
    return [
        Moment(
            day,
            label,
            0.1 + 0.4 * (label == "b"),
            0.09 + 0.4 * (label == "b"),
            0.11 + 0.4 * (label == "b"),
            "t1",
            label,
        )
        for day in days
        for label in labels
    ]


def test_each_of_several_values_has_a_band_that_is_seen(drawer: Drawer) -> None:
    """On a scale of its own: on one for all, an interval of two points in fifty would be a hair's breadth."""
    svg = drawer.svg(vega_specs.course(_year(("a", "b")), ["a", "b"], share=True))
    bands = re.findall(r'<path [^>]*d="M([^"]*)Z"[^>]*(?:fill-)?opacity="0.3"', svg)
    assert len(bands) == 2
    for band in bands:
        heights = [float(pair.rpartition(",")[2]) for pair in re.findall(r"[-\d.]+,[-\d.]+", band)]
        assert max(heights) - min(heights) > 25


def test_one_period_alone_has_a_whisker(drawer: Drawer) -> None:
    days = [Moment(f"2027-01-0{day}", "yes", 0.4, 0.35, 0.45, "t1", f"run {day > 3}") for day in (1, 2, 3, 5)]
    svg = drawer.svg(vega_specs.course(days, ["yes"], share=True))
    assert len(re.findall(r"<line [^>]*opacity=\"0.6\"", svg)) == 4
