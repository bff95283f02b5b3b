"""Charts as SVG: they show intervals, have gaps where no value is known, and are drawn once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hubbub_aggregator.dashboard import vega_render
from hubbub_aggregator.dashboard.chart_style import axis, chart
from hubbub_aggregator.dashboard.pages.cards import every_nth
from hubbub_aggregator.dashboard.sparkline import sparkline
from hubbub_aggregator.dashboard.vega_render import Drawer


@pytest.fixture(scope="module")
def drawer() -> Drawer:
    return Drawer()


def test_text_is_not_touched_where_tags_are_tidied(drawer: Drawer) -> None:
    data = [{"name": 'v 1.23456789 opacity="1" class="x"', "v": 0.5, "text": 'd="M1.23456789" > 2'}]
    encoding = {
        "x": {"field": "v", "type": "quantitative", "axis": axis()},
        "y": {"field": "name", "type": "nominal"},
        "description": {"field": "text"},
    }
    svg = drawer.svg(chart({"values": data}, [{"mark": "point", "encoding": encoding}], height=40))
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
