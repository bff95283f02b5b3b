"""Keyboard use: every control can be reached without a mouse, and the focus is visible."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.browser_contexts import Visitor
from tests.browser.page_content import focus

_PAGES = {"/": "overview", "/privacy": "privacy", "/operations": "operations", "/what-is-collected": "collected"}
_MOST = 60


def _tab_to(page: Page, href: str) -> None:
    """Press Tab until this link has the focus; every stop on the way must be seen."""
    for _ in range(_MOST):
        page.keyboard.press("Tab")
        found = focus(page)
        assert found is not None, f"the focus left the page before {href}"
        assert found["visible"], found
        assert found["inside"], found
        if found["href"] == href:
            return
    raise AssertionError(f"{href} was not reached in {_MOST} steps")


def test_every_page_is_reached_with_tab_and_enter(visitor: Visitor) -> None:
    page = visitor.open("populated", "/operations")
    for path, name in _PAGES.items():
        _tab_to(page, path)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert page.locator("body").get_attribute("data-page") == name
    assert page.locator("nav a[aria-current=page]").get_attribute("href") == "/what-is-collected"


def test_a_metric_is_reached_from_its_card(visitor: Visitor) -> None:
    page = visitor.open("populated", "/")
    _tab_to(page, "/metric/theme")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.locator("body").get_attribute("data-page") == "metric"


def test_the_first_stop_skips_the_navigation(visitor: Visitor) -> None:
    page = visitor.open("populated", "/operations")
    page.keyboard.press("Tab")
    found = focus(page)
    assert found is not None
    assert found["href"].startswith("#"), found
    assert found["visible"], found
    assert found["inside"], found
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "() => !!document.activeElement.closest('main')"
    assert page.evaluate(inside)


def test_the_whole_metric_page_can_be_walked(visitor: Visitor) -> None:
    """No trap: Tab comes out at the end, and every stop is seen."""
    page = visitor.open("populated", "/metric/dark_mode")
    stops = []
    for _ in range(400):
        page.keyboard.press("Tab")
        found = focus(page)
        if found is None:
            break
        assert found["visible"], found
        stops.append(found)
    else:
        raise AssertionError("Tab never left the page")
    assert "summary" in {stop["tag"] for stop in stops}
    assert len(stops) < 120, "that many stops are a trap of their own"


def test_a_period_is_picked_with_the_keyboard(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/dark_mode")
    page.locator("details.picker > summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    field = page.locator("form input[name=from]")
    assert page.evaluate("() => document.activeElement.name") == "from"
    field.fill("2026-12-01")
    page.locator("form input[name=to]").fill("2026-12-11")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "from=2026-12-01" in page.url
    assert "to=2026-12-11" in page.url
    assert "1 to 10 Dec 2026" in page.locator("main").inner_text()
