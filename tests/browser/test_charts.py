"""Charts: a mouse, a finger, a keyboard and a screen reader can read their values, and they can be downloaded."""

from __future__ import annotations

import re

from tests.browser.browser_contexts import PHONE, Visitor
from tests.browser.page_content import charts


def test_values_are_read_by_pointing_at_them(kept: Visitor) -> None:
    """SVG titles are what browsers show for a pointer that rests; each mark with data says its value and interval."""
    page = kept.keep("populated", "/metric/theme?from=2027-01-08&to=2027-01-15")
    titles: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('figure.chart :is(.mark, .spot) > title')].map((each) => each.textContent)"
    )
    for value in ("light", "dark", "other", "sepia"):
        assert any(re.search(rf"{value}.*\d.*\d", words) for words in titles), (value, titles[:5])


def test_values_are_read_with_the_keyboard_too(kept: Visitor) -> None:
    """Either marks can have the focus, or the same values stand in a table beside the chart."""
    page = kept.keep("populated", "/metric/theme?from=2027-01-08&to=2027-01-15")
    focusable = page.locator("figure.chart svg [tabindex='0']").count()
    table = page.get_by_role("region", name="Estimates", exact=True).inner_text()
    assert focusable or all(value in table for value in ("light", "dark", "other", "sepia"))


def test_text_alternatives_say_what_the_chart_says(kept: Visitor) -> None:
    """Numbers, not only a title."""
    for path in ("/", "/metric/theme", "/metric/camera", "/privacy"):
        for chart in charts(kept.keep("populated", path)):
            assert re.search(r"\d", chart["alternative"]), chart
            assert len(chart["alternative"]) > 30, chart


def test_a_thousand_values_and_a_year_stay_readable(kept: Visitor) -> None:
    page = kept.keep("populated", "/metric/camera")
    rows = page.get_by_role("region", name="Estimates", exact=True).locator("tbody tr").count()
    assert 5 <= rows <= 100
    assert page.evaluate("() => document.body.scrollHeight") < 12_000
    crowded: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("figure.chart svg")].flatMap((svg) => {
          const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim())
            .map((each) => [each.textContent, each.getBoundingClientRect()]);
          return texts.filter(([words, box], i) => texts.some(([_, other], j) => j > i
            && Math.min(box.right, other.right) - Math.max(box.left, other.left) > 2
            && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 3)).map(([words]) => words); })"""
    )
    assert crowded == []


def test_charts_and_tables_can_be_taken_away(kept: Visitor) -> None:
    page = kept.keep("populated", "/metric/theme")
    origin = kept.sites["populated"]
    starts = {".svg": b"<svg", ".png": b"\x89PNG", "csv": b""}
    for kind, start in starts.items():
        links = [
            href for link in page.locator("main a[href]").all() if kind in (href := link.get_attribute("href") or "")
        ]
        assert links, kind
        answer = page.request.get(f"{origin}{links[0]}")
        assert answer.status == 200, links[0]
        assert start in answer.body()[:200], answer.body()[:100]
        assert len(answer.body()) > 200


def test_type_in_charts_is_readable_on_a_phone(kept: Visitor) -> None:
    for path in ("/metric/theme", "/metric/camera", "/privacy"):
        page = kept.keep("populated", path, width=PHONE)
        sizes: list[float] = page.evaluate(
            """() => [...document.querySelectorAll("svg.plot")].flatMap((svg) => {
              const drawn = svg.viewBox.baseVal && svg.viewBox.baseVal.width;  // a fluid chart has none
              const scale = drawn ? svg.getBoundingClientRect().width / drawn : 1;
              return [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim())
                .map((each) => scale * parseFloat(getComputedStyle(each).fontSize)); })"""
        )
        assert sizes
        assert min(sizes) >= 10.5
