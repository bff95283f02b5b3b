"""Live updates: new releases appear by themselves, and the page stays where the reader left it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.storage import SqliteStorage
from tests.browser.browser_contexts import PHONE, Visitor
from tests.browser.crowd import Crowd
from tests.browser.page_content import plain
from tests.browser.sites import TODAY


@pytest.fixture
def release(state: Path, sites: dict[str, str]) -> Callable[[str, int], None]:  # noqa: ARG001  the state is made with them
    """Devices whose reports to a metric all say yes, as another process would release them. Other workers look at the
    same site: each test has a metric of its own."""

    def another(metric: str, reports: int) -> None:
        storage = SqliteStorage(state / "living" / "state" / DATABASE)
        try:
            crowd = Crowd(storage, Codebooks(storage), seed=reports)
            crowd.shares(metric, TODAY - 1, np.array([0.0, 1.0]), reports)
        finally:
            storage.close()

    return another


def test_a_new_release_changes_numbers_and_nothing_else(visitor: Visitor, release: Callable[[str, int], None]) -> None:
    page = visitor.open("living", "/", width=PHONE, alone=True)
    card = page.locator("article.card[data-metric=metric_00]")
    before = card.inner_text()
    link = page.locator("article.card[data-metric=metric_03] a").first
    link.focus()
    begun = page.evaluate("() => scrollY")
    page.mouse.wheel(0, 300)
    scrolled = (
        "(begun) => Math.abs(scrollY - Math.min(begun + 300, document.documentElement.scrollHeight - innerHeight)) < 1"
    )
    page.wait_for_function(scrolled, arg=begun)  # a smooth scroll takes real time
    place = "() => [scrollY, document.activeElement.getAttribute('href')]"
    stood = page.evaluate(place)
    release("metric_00", 7_001)
    page.clock.fast_forward("10:00")
    changed = "(before) => document.querySelector('article[data-metric=metric_00]').innerText !== before"
    page.wait_for_function(changed, arg=before)
    (there,) = re.findall(r"([\d,]+) reports", plain(before))
    assert f"{int(there.replace(',', '')) + 7_001:,} reports" in plain(card.inner_text())
    # a card may have become shorter: at the end of the page there is then less to scroll
    room = page.evaluate("() => document.documentElement.scrollHeight - innerHeight")
    assert page.evaluate(place) == [pytest.approx(min(stood[0], room), abs=1), stood[1]]
    assert page.locator("article.card").count() == 4


def test_what_is_typed_is_not_lost(visitor: Visitor, release: Callable[[str, int], None]) -> None:
    page = visitor.open("living", "/metric/metric_01", alone=True)
    before = page.locator("main").inner_text()
    page.locator("details.picker > summary").click()
    field = page.locator("input[name=from]")
    field.fill("2027-01-12")
    release("metric_01", 5_001)
    page.clock.fast_forward("10:00")
    assert field.input_value() == "2027-01-12"
    assert page.evaluate("() => document.activeElement.name") == "from"
    field.blur()
    page.clock.fast_forward("10:00")
    page.wait_for_function("(before) => document.querySelector('main').innerText !== before", arg=before)
    assert field.input_value() == "2027-01-12"


def test_a_refresh_that_fails_leaves_the_page_and_says_so(visitor: Visitor) -> None:
    page = visitor.open("living", "/", alone=True)
    before = page.locator("article.card").all_inner_texts()
    watch = visitor.watch(page)
    page.context.set_offline(True)
    page.clock.fast_forward("10:00")
    page.wait_for_timeout(300)
    assert page.locator("article.card").all_inner_texts() == before
    watch.faults[:] = [fault for fault in watch.faults if not re.search("ERR_INTERNET_DISCONNECTED", fault)]


def test_a_hidden_page_asks_nobody(visitor: Visitor) -> None:
    page = visitor.open("living", "/", alone=True)
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {get: () => true});"
        " Object.defineProperty(document, 'visibilityState', {get: () => 'hidden'});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    asked = len(visitor.watch(page).requests)
    page.clock.fast_forward("30:00")
    page.wait_for_timeout(200)
    assert len(visitor.watch(page).requests) == asked
