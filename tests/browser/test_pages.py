"""Every page in a real browser: over a year of releases, over none, and over a hostile codebook."""

from __future__ import annotations

import re

import pytest

from tests.browser.browser_contexts import PHONE, Visitor
from tests.browser.page_content import axe, background, charts, contrast, overflow, plain, undrawn
from tests.browser.pages import EMPTY, EVERY, FEW, POPULATED, SOME, View, each

_TEXTS = "main p, main td, main th, main a, main li, main h1, main h2, nav a, figcaption, label"


@each(EVERY)
def test_a_page_loads_whole_and_in_silence(kept: Visitor, view: View) -> None:
    page = kept.keep(view.site, view.path)
    assert kept.statuses[page.url] == 200
    assert page.locator("body").get_attribute("data-page") == view.page
    assert page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("main").count() == 1
    assert page.title()
    assert kept.faults(page) == []
    assert not re.search(r"\b(nan|NaN|undefined|inf|Infinity|object Object)\b", page.locator("main").inner_text())
    assert page.locator("main").get_by_text("None", exact=True).count() == 0


@each(EVERY)
def test_charts_are_really_drawn(kept: Visitor, view: View) -> None:
    found = charts(kept.keep(view.site, view.path))
    assert [why for chart in found if (why := undrawn(chart))] == []
    assert len(found) >= view.charts


@each(EVERY)
def test_a_phone_shows_a_page_without_scrolling_sideways(kept: Visitor, view: View) -> None:
    page = kept.keep(view.site, view.path, width=PHONE)
    assert overflow(page) == []
    assert [why for chart in charts(page) if (why := undrawn(chart))] == []


@each(EVERY, SOME)
def test_axe_finds_nothing_serious(kept: Visitor, view: View) -> None:
    assert axe(kept.keep(view.site, view.path)) == []


@pytest.mark.full
@each(POPULATED)
def test_axe_finds_nothing_serious_inside_charts(kept: Visitor, view: View) -> None:
    assert axe(kept.keep(view.site, view.path), inside_charts=True) == []


@each([*POPULATED, *EMPTY], FEW)
def test_dark_is_dark_and_readable(kept: Visitor, view: View) -> None:
    light = background(kept.keep(view.site, view.path))
    page = kept.keep(view.site, view.path, scheme="dark")
    assert light > 0.8
    assert background(page) < 0.05
    least = contrast(page, f"{_TEXTS}, figure.chart svg text")
    assert least[0][0] >= 4.5, least[:3]
    if view.charts:
        marks = contrast(page, "figure.chart svg :is(.mark, .data)")
        assert marks == [] or marks[-1][0] >= 3, marks[-3:]
    assert axe(page, "color-contrast") == []


@each([view for view in EMPTY if view.page != "collected"])  # what is collected is known before anything is
def test_an_empty_aggregator_says_what_to_expect(kept: Visitor, view: View) -> None:
    page = kept.keep(view.site, view.path)
    assert page.locator(".empty").count() >= 1
    assert len(page.locator(".empty").first.inner_text()) > 40


@each(POPULATED)
def test_the_policy_is_strict_and_nothing_is_cached_for_others(kept: Visitor, view: View) -> None:
    headers = kept.headers[kept.keep(view.site, view.path).url]
    policy = {
        part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";") if part.strip()
    }
    assert policy["default-src"] in (["'none'"], ["'self'"])
    for directive in ("script-src", "style-src"):
        assert not {"'unsafe-inline'", "'unsafe-eval'", "*", "data:", "http:", "https:"} & set(policy[directive])
    assert policy["frame-ancestors"] == ["'none'"]
    assert policy["base-uri"] == ["'none'"]
    assert policy["form-action"] == ["'self'"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "public" not in headers.get("cache-control", "")


def test_every_metric_has_a_card_with_its_numbers(kept: Visitor) -> None:
    page = kept.keep("populated", "/")
    cards = page.locator("article.card[data-metric]")
    assert sorted(card.get_attribute("data-metric") or "" for card in cards.all()) == [
        "camera",
        "dark_mode",
        "startup_ms",
        "theme",
    ]
    card = page.locator("article.card[data-metric=dark_mode]")
    text = plain(card.inner_text())
    assert re.search(r"\b5[3-9](\.\d+)?%", text), text  # the simulated share ends near 57 %
    assert "6,000 reports" in text
    assert card.locator("figure.chart").count() == 1
    assert card.get_by_role("link").first.get_attribute("href") == "/metric/dark_mode"


def test_numbers_on_the_page_are_those_of_the_api(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode?from=2027-01-14&to=2027-01-15")
    origin = visitor.sites["populated"]
    answer = page.request.get(f"{origin}/v1/metrics/dark_mode/estimate?from=2027-01-14&to=2027-01-15").json()
    for value in answer["segments"][0]["values"]:
        row = page.get_by_role("region", name="Estimates", exact=True).locator("tr", has_text=value["label"])
        shown = [float(number) / 100 for number in re.findall(r"(-?\d+\.\d)%", plain(row.inner_text()))]
        assert shown[:3] == pytest.approx([value["estimate"], value["low"], value["high"]], abs=0.0005 + 1e-9)


def test_both_segments_of_an_edited_metric_are_shown_apart(kept: Visitor) -> None:
    text = kept.keep("populated", "/metric/theme").locator("main").inner_text()
    assert "sepia" in text
    assert "7 Oct 2026" in text  # the first period of the new question
