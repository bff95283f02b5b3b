"""`hubbub report` in a browser: the same pages in one file that needs no server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.browser_contexts import PHONE
from tests.browser.browser_events import Watch
from tests.browser.page_content import axe, background, charts, overflow, undrawn


@pytest.fixture(scope="package")
def report(sites: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    command = [sys.executable, "-m", "hubbub_cli", "report", "--address", sites["living"], "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.full  # every day tests/dashboard/test_report.py reads the same file without a browser
def test_a_report_stands_alone(browser: Browser, report: Path) -> None:
    """From a file, without a network: everything is drawn, and the one request is for the file itself."""
    watch = Watch("file://")
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        watch.attach(page)
        page.goto(report.as_uri())
        assert watch.faults == []
        assert [url for url in watch.requests if not url.startswith("data:")] == [report.as_uri()]
        found = charts(page)
        assert [why for chart in found if (why := undrawn(chart))] == []
        assert len(found) >= 4
        assert page.locator("article.card").count() == 4
        assert "http://127.0.0.1" not in page.content()
        assert axe(page) == []
        light = background(page)
        page.emulate_media(color_scheme="dark")
        assert background(page) < 0.05 < light
        page.set_viewport_size({"width": PHONE, "height": 800})
        assert overflow(page) == []
    finally:
        context.close()


def test_links_of_a_report_stay_inside_it(browser: Browser, report: Path) -> None:
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        hrefs: list[str] = page.evaluate("() => [...document.links].map((one) => one.getAttribute('href'))")
        assert hrefs
        assert [href for href in hrefs if not href.startswith("#")] == []
        missing = "(hrefs) => hrefs.filter((one) => one !== '#' && !document.getElementById(one.slice(1)))"
        assert page.evaluate(missing, hrefs) == []
    finally:
        context.close()


def test_a_metric_has_at_most_two_pages_on_paper(browser: Browser, report: Path) -> None:
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        names: list[str] = page.evaluate("() => [...document.querySelectorAll('[id^=metric-]')].map((one) => one.id)")
        assert len(names) == 4
        for name in names:
            page.goto(report.as_uri())
            alone = "(name) => document.querySelectorAll('.part').forEach((one) => one.id === name || one.remove())"
            page.evaluate(alone, name)
            assert 1 <= page.pdf(format="A4").count(b"/Type /Page\n") <= 2, name
    finally:
        context.close()
