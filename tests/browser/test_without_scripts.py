"""Pages without JavaScript: everything is there, as scripts only refresh."""

from __future__ import annotations

import re

from tests.browser.browser_contexts import Visitor
from tests.browser.page_content import charts, plain, undrawn
from tests.browser.pages import EMPTY, FEW, POPULATED, View, each


def _words(text: str) -> set[str]:
    """Without numbers: ages move on."""
    return set(re.findall(r"[A-Za-z_]{3,}", text))


@each([*POPULATED, *EMPTY], FEW)
def test_a_page_says_the_same_without_scripts(kept: Visitor, visitor: Visitor, view: View) -> None:
    page = visitor.open(view.site, view.path, java_script_enabled=False)
    with_scripts = kept.keep(view.site, view.path)
    assert _words(with_scripts.locator("main").inner_text()) - _words(page.locator("main").inner_text()) == set()
    found = charts(page)
    assert [why for chart in found if (why := undrawn(chart))] == []
    assert len(found) == len(charts(with_scripts))


def test_periods_and_options_are_picked_by_a_plain_form(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/theme", java_script_enabled=False)
    page.locator("details.picker > summary").click()
    form = page.locator("details.picker form")
    assert form.get_attribute("method") == "get"
    form.locator("input[name=from]").fill("2026-11-01")
    form.locator("input[name=to]").fill("2026-11-08")
    form.locator("select[name=confidence]").select_option("0.99")
    with page.expect_navigation():
        form.locator("button").click()
    assert "from=2026-11-01" in page.url
    text = plain(page.locator("main").inner_text())
    assert "1 to 7 Nov 2026" in text
    assert "99% confidence" in text


def test_two_ranges_are_compared_by_a_plain_form(visitor: Visitor) -> None:
    page = visitor.open(
        "populated",
        "/metric/dark_mode?from=2026-12-01&to=2026-12-08&compare_from=2026-06-01&compare_to=2026-06-08",
        java_script_enabled=False,
    )
    text = page.locator("main").inner_text()
    assert "1 to 7 Jun 2026" in text
    assert re.search(r"[Dd]iffer|[Cc]hange", text)


def test_post_processed_values_are_labelled_as_such(visitor: Visitor) -> None:
    page = visitor.open("populated", "/metric/camera?postprocess=norm_sub", java_script_enabled=False)
    assert "Post-processed by norm_sub" in page.locator("main").inner_text()
    assert page.get_by_role("columnheader", name="after norm_sub").count() == 1
    assert page.get_by_role("columnheader", name="raw", exact=True).count() == 1


def test_a_wrong_range_is_explained_on_the_page(visitor: Visitor) -> None:
    page = visitor.open(
        "populated", "/metric/dark_mode?from=2026-12-08&to=2026-12-01", java_script_enabled=False, expected=(400, 422)
    )
    assert page.locator("body").get_attribute("data-page") == "metric"
    assert len(page.get_by_role("alert").inner_text()) > 40


def test_an_unknown_page_is_a_page(visitor: Visitor) -> None:
    for path in ("/metric/no_such_metric", "/nowhere"):
        page = visitor.open("populated", path, expected=(404,), java_script_enabled=False)
        assert visitor.statuses[page.url] == 404
        assert page.locator("nav a[href='/']").count() >= 1
        assert page.locator("h1").count() == 1
