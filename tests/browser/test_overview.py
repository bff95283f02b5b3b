"""The overview at a glance: the number first, whether its change is real, what it cost; and how to find a metric."""

from __future__ import annotations

import re

import pytest

from tests.browser.browser_contexts import DESKTOP, PHONE, Visitor
from tests.browser.page_content import plain


def test_a_card_leads_with_its_number_and_says_whether_it_changed(kept: Visitor) -> None:
    card = kept.keep("populated", "/").locator("article.card[data-metric=dark_mode]")
    words = [line for line in plain(card.inner_text()).split("\n") if line]
    at = next(number for number, line in enumerate(words) if re.match(r"5\d\.\d%", line))
    assert at <= 2, "only the name and what it is about stand before it"
    said = r"(No clear change since|(up|down) \d+\.\dpp since) 13 Jan 2027"
    assert any(re.search(said, line) for line in words), words
    sizes: list[float] = card.evaluate(
        "(card) => [...card.querySelectorAll('strong, p')].map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert max(sizes) >= 30
    ends = card.locator(".spark-ends text").all_inner_texts()
    assert len(ends) == 2, "a trend has a scale"
    assert card.locator("figcaption").inner_text().startswith("yes, ")


def test_both_guarantees_are_one_line_that_explains_itself_on_focus(visitor: Visitor) -> None:
    page = visitor.open("populated", "/")
    cost = page.locator("article.card[data-metric=dark_mode] .explained")
    tip = cost.locator(".tip")
    assert not tip.is_visible()
    cost.focus()
    assert tip.is_visible()
    assert "work together" in tip.inner_text()
    card, box = page.locator("article.card[data-metric=dark_mode]").bounding_box(), tip.bounding_box()
    assert card is not None
    assert box is not None
    assert box["x"] >= card["x"]
    assert box["x"] + box["width"] <= card["x"] + card["width"]


def test_a_metric_is_found_by_name_owner_or_description(visitor: Visitor) -> None:
    page = visitor.open("populated", "/?group=owner")
    assert page.locator("h2.group").count() == 3
    assert page.locator("h2.group", has_text="ui-team@example.com").count() == 1
    for words, found in (
        ("dark_mode", {"dark_mode"}),
        ("performance@", {"startup_ms"}),
        ("newest picture", {"camera"}),
    ):
        page.get_by_role("searchbox").fill(words)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        names = {card.get_attribute("data-metric") for card in page.locator("article.card").all()}
        assert names == found
        assert "1 of 4 metrics" in page.get_by_role("search").inner_text()
    page.get_by_role("searchbox").fill("no such words")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "No metric has these words" in page.locator("main").inner_text()


@pytest.mark.parametrize("width", [PHONE, 768, DESKTOP, 1600])
@pytest.mark.parametrize("site", ["populated", "hostile"])
def test_cards_fill_their_rows_and_are_never_narrow(kept: Visitor, site: str, width: int) -> None:
    page = kept.keep(site, "/", width=width)
    boxes: list[list[float]] = page.evaluate(
        """() => [...document.querySelectorAll("article.card")].map((one) => one.getBoundingClientRect())
          .map((box) => [Math.round(box.top), box.left, box.right])"""
    )
    room: list[float] = page.evaluate(
        "() => { const box = document.querySelector('.cards').getBoundingClientRect(); return [box.left, box.right]; }"
    )
    rows: dict[float, list[list[float]]] = {}
    for box in boxes:
        rows.setdefault(box[0], []).append(box)
    for row in rows.values():
        assert min(left for _, left, _ in row) == pytest.approx(room[0], abs=1)
        assert max(right for *_, right in row) == pytest.approx(room[1], abs=1)
        assert min(right - left for _, left, right in row) >= min(280, room[1] - room[0])


def test_the_menu_has_one_line_on_a_phone(kept: Visitor) -> None:
    for path in ("/", "/privacy", "/operations", "/what-is-collected"):
        page = kept.keep("populated", path, width=PHONE)
        tops = page.evaluate("() => [...document.querySelectorAll('.top nav a')].map((one) => one.offsetTop)")
        assert len(set(tops)) == 1, path


@pytest.mark.parametrize("path", ["/operations", "/metric/theme"])
@pytest.mark.parametrize("width", [PHONE, 768, DESKTOP])
def test_no_table_is_cut_off(kept: Visitor, path: str, width: int) -> None:
    page = kept.keep("populated", path, width=width)
    cut: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main .scroll")]
          .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
          .map((one) => one.getAttribute("aria-label"))"""
    )
    assert cut == []


def test_dates_are_dates_and_no_period_is_called_a_10_seconds(kept: Visitor) -> None:
    for path in ("/", "/metric/theme", "/operations", "/privacy", "/what-is-collected"):
        text = kept.keep("populated", path).locator("main").inner_text()
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text), path
        assert not re.search(r"\ba \d+ (?:second|minute|hour|day)s\b", text), path
        assert not re.search(r"\d %", text), path
