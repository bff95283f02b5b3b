"""The page of a metric under a mouse, a finger and the arrow keys: columns that say their numbers, presets, order."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page

from tests.browser.browser_contexts import DESKTOP, PHONE, Visitor
from tests.browser.page_content import plain
from tests.browser.pages import POPULATED, View, each
from tests.browser.sites import DISCARDED, TODAY

_SERIES = "[data-chart=series]"
_COMPARED = "/metric/dark_mode?from=2026-12-01&to=2026-12-31&compare_from=2026-03-01&compare_to=2026-03-31"


def _readout(page: Page, chart: str = _SERIES) -> Locator:
    return page.locator(f"figure.chart:has({chart}) .readout")


def _point(page: Page, across: float, down: float, chart: str = _SERIES) -> None:
    """Move the mouse to a place inside a chart, as a share of its width and height."""
    plot = page.locator(chart).first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def test_anywhere_in_a_column_its_numbers_are_at_the_pointer(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode")
    texts = set()
    for down in (0.1, 0.5, 0.85):  # above, on and below the line
        _point(page, 0.7, down)
        text = plain(_readout(page).inner_text())
        assert re.fullmatch(r"\d+ \w+ 202\d\nyes: \d+\.\d%, \d+\.\d% to \d+\.\d%\n6,000 reports", text), text
        texts.add(text)
        shown, plot = _readout(page).bounding_box(), page.locator(_SERIES).bounding_box()
        assert shown is not None
        assert plot is not None
        pointer = plot["x"] + 0.7 * plot["width"]
        assert min(abs(shown["x"] - pointer), abs(shown["x"] + shown["width"] - pointer)) < 30
    assert len(texts) == 1
    page.mouse.move(1, 1)
    assert _readout(page).inner_text() == ""


def test_a_column_without_a_number_says_why(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode")
    _point(page, 1 - (TODAY - DISCARDED[0] - 0.5) / 365, 0.5)
    assert "the shuffler discarded it" in _readout(page).inner_text()
    assert page.locator(f"{_SERIES} text", has_text="×").count() == len(DISCARDED)


def test_arrow_keys_walk_from_period_to_period(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode")
    page.locator("summary", has_text="Choose dates").focus()
    while page.evaluate("() => document.activeElement.dataset.chart") != "series":
        page.keyboard.press("Tab")
    assert _readout(page).inner_text().startswith("14 Jan 2027"), "the newest first"
    page.keyboard.press("ArrowLeft")
    assert _readout(page).inner_text().startswith("13 Jan 2027")
    page.keyboard.press("Home")
    assert _readout(page).inner_text().startswith("15 Jan 2026")
    page.keyboard.press("Escape")
    assert _readout(page).inner_text() == ""
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    assert _readout(page).inner_text() == ""


def test_a_finger_reads_a_column_and_the_words_stay_on_the_screen(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/theme", width=PHONE, has_touch=True)
    plot = page.locator(_SERIES)
    plot.scroll_into_view_if_needed()
    for across in (0.02, 0.5, 0.98):
        box = plot.bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + across * box["width"], box["y"] + 30)
        assert "reports" in _readout(page).inner_text()
        shown = _readout(page).bounding_box()
        assert shown is not None
        assert shown["x"] >= 0
        assert shown["x"] + shown["width"] <= PHONE


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_dates_under_the_line_do_not_touch_and_the_newest_is_there(kept: Visitor, width: int) -> None:
    for path in ("/metric/dark_mode", "/metric/theme", "/metric/dark_mode?from=2027-01-08&to=2027-01-15"):
        page = kept.keep("populated", path, width=width)
        boxes: list[tuple[float, float, float, str]] = page.evaluate(
            """(chart) => [...document.querySelectorAll(`${chart} text`)].filter((one) => one.getClientRects().length)
              .map((one) => { const box = one.getBoundingClientRect();
                return [box.top, box.left, box.right, one.textContent]; })""",
            _SERIES,
        )
        lowest = max(top for top, *_ in boxes)
        dates = sorted((left, right, words) for top, left, right, words in boxes if top > lowest - 3)
        assert dates[-1][2] == "14 Jan 2027"
        assert len(dates) >= 2
        assert all(right + 4 < left for (_, right, _), (left, *_) in pairwise(dates)), dates


def test_the_edit_of_a_codebook_is_named_in_the_series(kept: Visitor) -> None:
    page = kept.keep("populated", "/metric/theme")
    assert page.locator(f"{_SERIES} text", has_text="edited: 3 → 4 values").count() == 1
    assert page.locator(f"{_SERIES} .edit").count() == 1
    assert page.locator(f"{_SERIES} .gap").count() == 4, "one silence, in each of the four lines"


def test_the_series_is_as_wide_as_the_page(kept: Visitor) -> None:
    for width in (PHONE, DESKTOP):
        page = kept.keep("populated", "/metric/dark_mode", width=width)
        room, plot = page.locator("main").bounding_box(), page.locator(_SERIES).bounding_box()
        assert room is not None
        assert plot is not None
        assert plot["width"] > 0.65 * room["width"]
        assert plot["height"] >= 230


def test_presets_lead_to_the_last_days(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode")
    for preset, first in (
        ("last 7 days", "8 to 14 Jan"),
        ("last 30 days", "16 Dec 2026 to"),
        ("last 90 days", "17 Oct"),
    ):
        with page.expect_navigation():
            page.get_by_role("link", name=preset, exact=True).click()
        assert first in page.locator("h2.range").inner_text()
        current = page.get_by_role("navigation", name="Periods to show").locator("[aria-current]").all_inner_texts()
        assert current[0] == preset


def test_values_stand_by_size_with_other_last_or_as_in_the_codebook(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/theme")
    rows = page.get_by_role("region", name="Estimates", exact=True).locator("tbody th")
    assert rows.all_inner_texts() == ["dark", "light", "sepia", "other"], "though other is larger than sepia"
    page.locator("details.picker > summary").click()
    page.locator("select[name=order]").select_option("codebook")
    with page.expect_navigation():
        page.locator("details.picker button").click()
    assert rows.all_inner_texts() == ["light", "dark", "other", "sepia"]
    long = visitor.open("populated", "/metric/camera")
    by_size = long.get_by_role("region", name="Estimates", exact=True).locator("tbody th").all_inner_texts()
    with long.expect_navigation():
        long.get_by_role("link", name="as in the codebook").click()
    listed = long.get_by_role("region", name="Estimates", exact=True).locator("tbody th").all_inner_texts()
    assert sorted(listed) == sorted(by_size)
    assert listed != by_size


def test_a_change_is_said_in_a_sentence_and_drawn(kept: Visitor) -> None:
    page = kept.keep("populated", _COMPARED)
    said = plain(page.locator(".said-change .result").inner_text())
    assert re.match(r"Yes rose from 3\d\.\d% to 5\d\.\d%: by \+\d+\.\dpp, ", said), said
    assert "Chance alone would do that less than once in a million times." in said
    assert page.locator("[data-chart=compare] .data").count() == 2
    assert (
        "None of"
        in kept.keep(
            "populated", "/metric/camera?from=2027-01-14&to=2027-01-15&compare_from=2027-01-13&compare_to=2027-01-14"
        )
        .locator(".said-change")
        .inner_text()
    )


def test_every_period_can_be_read_without_scripts(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode", java_script_enabled=False)
    titles = page.locator(f"{_SERIES} .spot > title")
    assert titles.count() == 365
    assert re.search(r"yes: \d+\.\d%, .*\n6,000 reports", plain(titles.last.text_content() or ""))
    assert page.locator("input[name=from]").get_attribute("type") == "date"


@each(POPULATED)
def test_no_page_weighs_a_hundred_kilobytes(visitor: Visitor, view: View) -> None:
    """Compressed, with its style sheet and script, over a year of releases and a list of a thousand values."""
    page = visitor.open(view.site, view.path)
    weight: float = page.evaluate(
        """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
          .filter((one) => one.initiatorType !== "fetch").reduce((sum, one) => sum + one.encodedBodySize, 0)"""
    )
    assert 5_000 < weight < 100_000
