"""The detectors of the browser tests: each must see what is planted, or a green test means nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.browser_contexts import PHONE, Visitor
from tests.browser.chromium import find
from tests.browser.page_content import axe, charts, contrast, focus, overflow, undrawn

Plant = Callable[..., tuple[Page, Visitor]]

_MARKS = '<g><path class="mark" d="M0,0h9v9h-9z" fill="#123"/></g>'


def _figure(inside: str) -> str:
    return f'<figure class="chart">{inside}<figcaption>A chart</figcaption></figure>'


def test_a_quiet_page_is_quiet(planted: Plant) -> None:
    page, visitor = planted("<main><h1>Nothing</h1></main>")
    assert visitor.faults(page) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<script>console.error('planted')</script>", "console error: planted"),
        ("<script>console.warn('planted')</script>", "console warning: planted"),
        ("<script>undefinedFunction()</script>", "uncaught:"),
        ("<script>alert('planted')</script>", "dialog: planted"),
        ("<script>document.cookie = 'a=b'</script>", "cookie: a"),
        ("<script>localStorage.a = 1</script>", "kept: a"),
        ("<img alt='' src='http://elsewhere.example/x.png'>", "request to elsewhere: http://elsewhere.example/x.png"),
        ("<link rel=stylesheet href='http://127.0.0.1:10/x.css'>", "request to elsewhere: http://127.0.0.1:10/x.css"),
        ("<img alt='' src='/missing.png'>", "failed: http://"),
    ],
)
def test_what_a_page_does_wrong_is_seen(planted: Plant, body: str, expected: str) -> None:
    page, visitor = planted(body)
    assert any(fault.startswith(expected) for fault in visitor.faults(page)), visitor.faults(page)


@pytest.mark.parametrize("body", ["<script>var a = 1</script>", "<p style='color: red'>x</p>"])
def test_a_violation_of_the_policy_is_seen(planted: Plant, body: str) -> None:
    page, visitor = planted(body, **{"Content-Security-Policy": "default-src 'self'"})
    assert any(fault.startswith("console error: policy:") for fault in visitor.faults(page)), visitor.faults(page)


@pytest.mark.parametrize(
    ("chart", "expected"),
    [
        (f'<svg width="90" height="90" aria-label="x">{_MARKS}</svg>', None),
        ('<svg width="90" height="90" aria-label="x"></svg>', "it has no mark"),
        (f'<svg width="90" height="90" aria-label="x">{_MARKS.replace("h9v9h-9z", "")}</svg>', "it has no mark"),
        (f'<svg width="90" height="90" aria-label="x">{_MARKS.replace("#123", "none")}</svg>', "it has no mark"),
        (f'<svg width="90" height="90">{_MARKS}</svg>', "it has no alternative"),
        (f'<svg width="0" height="0" aria-label="x">{_MARKS}</svg>', "it is 0 x 0"),
        (f'<svg width="3000" height="90" aria-label="x">{_MARKS}</svg>', "it is wider than its place"),
        ('<img alt="x" width="90" height="90" src="data:image/png;base64,AAAA">', "its picture did not load"),
        ("<p>Soon</p>", "it is 0 x 0"),
    ],
)
def test_a_chart_that_is_none_is_seen(planted: Plant, chart: str, expected: str | None) -> None:
    page, _ = planted(_figure(chart))
    (found,) = charts(page)
    assert (undrawn(found) or "").startswith(expected or "")
    assert (undrawn(found) is None) == (expected is None)


def test_axe_sees_a_picture_without_text_and_grey_on_grey(planted: Plant) -> None:
    page, _ = planted("<main><h1>x</h1><img src='data:,'><p style='color: #999; background: #aaa'>pale</p></main>")
    found = axe(page)
    assert [one.split(":")[1].strip() for one in found] == ["color-contrast", "image-alt"]


def test_contrast_is_that_of_the_standard(planted: Plant) -> None:
    page, _ = planted("<main style='background: #fff'><p style='color: #767676'>4.54 : 1 by WCAG</p></main>")
    assert contrast(page, "p")[0][0] == pytest.approx(4.54, abs=0.01)


def test_what_is_too_wide_for_a_phone_is_seen(planted: Plant) -> None:
    page, _ = planted("<p style='width: 500px' class='wide'>x</p><div style='overflow: auto'><p style='width: 900px'>")
    page.set_viewport_size({"width": PHONE, "height": 700})
    assert overflow(page) == ["p.wide ends at 508 of 360", "the page scrolls sideways"]


@pytest.mark.parametrize(("style", "visible"), [("", True), ("outline: none", False)])
def test_a_focus_that_nobody_sees_is_seen(planted: Plant, style: str, *, visible: bool) -> None:
    page, _ = planted(f"<a href='#x' style='{style}'>x</a>")
    page.keyboard.press("Tab")
    found = focus(page)
    assert found is not None
    assert found["visible"] is visible


def test_a_browser_that_is_named_but_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_CHROMIUM", "/nonexistent/chromium")
    assert find() is None
