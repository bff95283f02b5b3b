"""Tabs with the browser SDK in a real Chromium: one device, one consent, and values that outlive their page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.sdk_site import BEGAN, Site, built
from tests.browser.sdk_tab import DAY, FLUSH, record, rows, tab
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, packages
from tests.support.patience import wait_for

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_TAB = "<!doctype html><title>A tab</title><script src=/page.js></script>"
_APP = "<!doctype html><title>An app</title><script type=module src=/app.js></script>"
_SCRIPT = 'import {Client} from "/browser.js"; globalThis.Client = Client;'
_TWIN = """([address, trust, now]) => {
  globalThis.now = now;
  // The same coins for both twins, by purpose, subject and number (FNV-1a, then mulberry32).
  const coins = (...about) => {
    let a = 2166136261;
    for (const char of about.join(" ")) a = Math.imul(a ^ char.charCodeAt(0), 16777619);
    return (n) => Uint8Array.from({length: n}, () => {
      a = (a + 0x6d2b79f5) | 0;
      let t = Math.imul(a ^ (a >>> 15), 1 | a);
      t ^= t + Math.imul(t ^ (t >>> 7), 61 | t);
      return (t ^ (t >>> 14)) & 255;
    });
  };
  const clock = () => globalThis.now;
  globalThis.client = hubbubTab.open({address, trust, clock, coins, consent: () => true, step: () => {}});
  return client.started;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(built(tmp_path_factory.mktemp("sdk")), {"/tab": _TAB, "/app": _APP, "/app.js": _SCRIPT})


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    with AppServer(site) as address:
        yield address


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def test_eight_tabs_are_one_device(site: Site, address: str, context: BrowserContext) -> None:
    name = "tabs"
    tabs = [tab(context, address, site, name) for _ in range(8)]
    for page in tabs:
        assert record(page, "theme", "dark") == "recorded"
        assert record(page, "clicks", 1) == "recorded"
    for page in tabs:  # all at once: the answers are waited for below
        page.evaluate(
            "(later) => { globalThis.now = later; globalThis.flushed = client.flush({timeout: 10, now: true}); }",
            BEGAN + 1.5 * DAY,
        )
    assert [page.evaluate("() => flushed") for page in tabs] == [True] * 8
    shuffler = site.shuffler(name)
    assert sorted((report.metric, report.period) for report in shuffler.reports_sent()) == [
        ("clicks", "2026-01-05"),
        ("theme", "2026-01-05"),
        ("wide", "2026-01-05"),
    ]
    assert len(shuffler.reports) == 3
    ledgers = [page.evaluate("() => client.ledger()") for page in tabs]
    assert all(ledger == ledgers[0] for ledger in ledgers)


def test_a_switch_reaches_other_tabs_at_once(site: Site, address: str, context: BrowserContext) -> None:
    name = "switch"
    one, two = tab(context, address, site, name), tab(context, address, site, name)
    assert record(one, "theme", "dark") == "recorded"
    assert record(two, "clicks", 1) == "recorded"
    assert one.evaluate("() => client.disable()") is True
    wait_for(lambda: record(two, "theme", "dark") == "disabled")
    two.evaluate("(later) => { globalThis.now = later; }", BEGAN + 1.5 * DAY)
    assert two.evaluate(FLUSH) is False
    found = rows(two, address, name)
    assert not [key for key in found if key.startswith(("state ", "report "))]
    assert site.shuffler(name).reports == []
    assert two.evaluate("() => client.enable()") is True
    wait_for(lambda: record(one, "theme", "dark") != "disabled")


def test_consent_that_is_withdrawn_in_one_tab_holds_in_the_others(
    site: Site, address: str, context: BrowserContext
) -> None:
    """Also in a tab that was told yes once and for all, and does not know better."""
    name = "withdrawn"
    one, two = tab(context, address, site, name), tab(context, address, site, name)
    assert record(one, "theme", "dark") == "recorded"
    two.evaluate("() => { globalThis.agrees = false; }")
    two.evaluate(FLUSH)
    before = len(site.shuffler(name).requests)
    for day in (0.5, 1.5):
        one.evaluate("(now) => { globalThis.now = now; }", BEGAN + day * DAY)
        assert one.evaluate(FLUSH) is False
        assert record(one, "theme", "dark") == "disabled"
    assert len(site.shuffler(name).requests) == before
    assert (one.evaluate("() => client.preview()"))["takingPart"] is False
    found = rows(one, address, name)
    assert "since" not in found["about"]
    assert not [key for key in found if key.startswith(("state ", "report "))]
    # Somebody says yes again: from then on it holds for both.
    two.evaluate("(now) => { globalThis.agrees = true; globalThis.now = now; }", BEGAN + 1.5 * DAY)
    assert two.evaluate(FLUSH) is True
    assert one.evaluate(FLUSH) is True
    assert record(one, "theme", "dark") == "recorded"
    assert one.evaluate(FLUSH) is True
    assert [report.period for report in site.shuffler(name).reports_sent("theme")] == ["2026-01-06"]


def test_a_value_outlives_a_page_that_ends_before_the_engine_is_loaded(
    site: Site, address: str, context: BrowserContext
) -> None:
    name = "early"
    trust = site.shuffler(name, time.time).trust

    def visited(route: bool = True) -> Page:
        page = context.new_page()
        if not route:
            page.route("**/engine-*", lambda route: route.abort())
        page.goto(f"{address}/app")
        page.evaluate(
            """([address, trust]) => {
              const options = {trust, consent: true, background: false, freshStorage: "report"};
              globalThis.client = new Client(address, options);
            }""",
            [f"{address}/{name}", trust],
        )
        return page

    page = visited()
    assert page.evaluate(FLUSH) is True
    ledger = page.evaluate("() => client.ledger()")
    assert (ledger["freshStorage"], ledger["closedBefore"]) == ("report", None)
    page.close()
    page = visited()
    assert record(page, "theme", "dark") == "waiting"
    page.close()
    page = visited(route=False)
    assert record(page, "theme", "light") == "waiting"
    assert page.evaluate(FLUSH) is False  # nothing throws where the engine cannot be loaded
    assert page.evaluate("() => client.stats()") == {"waiting": 1}
    page.close()
    page = visited()
    assert page.evaluate(FLUSH) is True
    assert len(site.shuffler(name).reports_sent("theme")) == 1
    assert not [key for key in page.evaluate("() => Object.keys(localStorage)") if f"{name} note " in key]
    page.close()
    page = visited(route=False)
    record(page, "volume", 1)
    assert page.evaluate("() => client.disable()") is True
    assert record(page, "volume", 1) == "disabled"
    page.close()
    page = visited()
    assert record(page, "volume", 1) == "disabled"
    page.evaluate(FLUSH)
    assert not [key for key in page.evaluate("() => Object.keys(localStorage)") if f"{name} note " in key]
    assert site.shuffler(name).reports_sent("volume") == []


def test_twins_of_which_one_records_ask_and_send_alike(site: Site, address: str, browser: Browser) -> None:
    """Two devices with the same coins: the shuffler sees the same requests at the same times, of the same sizes, with
    the same metrics, periods and nonces. Only the payloads differ."""
    seen: list[list[Any]] = []
    for records in (False, True):
        name, shuffler = "twins", site.shuffler("twins")
        context, notes = browser.new_context(), list[Any]()
        shuffler.reports.clear()
        for day in range(6):
            page = context.new_page()
            page.goto(f"{address}/tab")
            page.evaluate(_TWIN, [f"{address}/{name}", shuffler.trust, BEGAN + day * DAY])
            for hour in (1, 5, 9, 20):
                site.headers.clear()
                page.evaluate("(now) => { globalThis.now = now; }", BEGAN + day * DAY + hour * 3600)
                for metric, value in (("clicks", hour), ("wide", True)) if records else ():
                    record(page, metric, value)
                page.evaluate("() => client.flush({timeout: 0})")
                asked = [
                    (h["method"], h["path"], h.get("content-length"), h.get("if-none-match")) for h in site.headers
                ]
                notes.append((day, hour, asked))
            page.close()
        notes.append([(report.metric, report.period, report.nonce) for report in shuffler.reports_sent()])
        seen.append(notes)
        context.close()
    assert seen[0] == seen[1]
    assert len(seen[0][-1]) >= 6
    assert any(method == "POST" for _, _, asked in seen[0][:-1] for method, *_ in asked)
