"""The browser SDK in a real Chromium: manners, tabs, kills, networks, storage and consent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.sdk_site import BEGAN, Site, built
from tests.browser.sdk_tab import DAY, FLUSH, killed, persistent, record, rows, tab, waiting
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, packages

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_TAB = "<!doctype html><title>A tab</title><script src=/page.js></script>"
_APP = "<!doctype html><title>An app</title><script type=module src=/app.js></script>"
_SCRIPT = 'import {Client} from "/browser.js"; globalThis.Client = Client;'
_SANDBOX = "<!doctype html><title>A frame</title><iframe sandbox=allow-scripts src=/framed></iframe>"
_FRAMED = "<!doctype html><title>In a frame</title><script src=/hubbub.js></script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = built(tmp_path_factory.mktemp("sdk"))
    other = "<!doctype html><title>Another page</title>"
    return Site(
        folder,
        {"/tab": _TAB, "/app": _APP, "/app.js": _SCRIPT, "/sandbox": _SANDBOX, "/framed": _FRAMED, "/other": other},
    )


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    with AppServer(site) as address:
        yield address


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def test_a_page_says_little_and_keeps_nothing_without_consent(site: Site, address: str, browser: Browser) -> None:
    """Under a strict policy, from another origin: the shuffler sees no cookie, no referrer and no language."""
    shuffler = site.shuffler("manners", time.time)
    site.policies["/app"] = (
        f"default-src 'none'; script-src 'self'; connect-src {address}; require-trusted-types-for 'script'"
    )
    context = browser.new_context(locale="de-CH")
    with AppServer(site) as other:
        context.add_cookies([{"name": "id", "value": "1", "url": address}, {"name": "id", "value": "2", "url": other}])
        page = context.new_page()
        violations: list[str] = []
        page.on("console", lambda message: violations.append(message.text) if message.type == "error" else None)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{other}/app")
        page.evaluate(
            """([address, trust]) => {
              globalThis.agrees = false;
              const options = {trust, consent: () => agrees, background: false, freshStorage: "report"};
              globalThis.client = new Client(address, options);
            }""",
            [f"{address}/manners", shuffler.trust],
        )
        assert record(page, "theme", "dark") == "disabled"
        assert page.evaluate(FLUSH) is False
        kept = "async () => [await indexedDB.databases(), Object.keys(localStorage), Object.keys(sessionStorage)]"
        assert page.evaluate(kept) == [[], [], []]
        assert [url for url in asked if "engine" in url or "/manners/" in url] == []
        page.evaluate("() => { globalThis.agrees = true; }")
        assert record(page, "theme", "dark") == "waiting"
        assert page.evaluate(FLUSH) is True
        assert record(page, "theme", "dark") == "recorded"
        assert page.evaluate(FLUSH) is True
        assert len(shuffler.reports_sent("theme")) == 1
        shown = page.evaluate("() => client.preview()")
        assert [metric["name"] for metric in shown["metrics"]] == ["clicks", "theme", "volume", "wide"]
        seen = [headers for headers in site.headers if headers["path"].startswith("/manners/")]
        assert {headers["method"] for headers in seen} == {"GET", "POST"}
        for headers in seen:
            assert "cookie" not in headers
            assert "referer" not in headers
            assert headers["accept-language"] == "*"
            assert headers["origin"] == other
        assert page.evaluate("() => document.cookie") == "id=2"
        assert page.evaluate("() => navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
        assert violations == []
        # A later page of a visitor who took consent back deletes what was kept, and sends nothing.
        record(page, "clicks", 1)
        page.evaluate("() => { globalThis.agrees = false; }")
        before = len(shuffler.requests)
        page.evaluate("() => client.flush()")
        found = rows(page, address, "manners")
        assert not [name for name in found if name.startswith(("state ", "report "))]
        assert [name for name in found if name.startswith("ledger ")]
        assert not [name for name in page.evaluate("() => Object.keys(localStorage)") if " note " in name]
        assert len(shuffler.requests) == before
    context.close()


def test_a_browser_that_says_no_for_all_sites_is_heard(site: Site, address: str, browser: Browser) -> None:
    for says in ("globalPrivacyControl: {value: true}", 'doNotTrack: {value: "1"}'):
        context = browser.new_context()
        context.add_init_script(f"Object.defineProperties(navigator, {{{says}}})")
        page = context.new_page()
        page.goto(f"{address}/app")
        trust = site.shuffler("says-no", time.time).trust
        page.evaluate(
            "([address, trust]) => { globalThis.client = new Client(address, {trust, consent: true}); }",
            [f"{address}/says-no", trust],
        )
        assert record(page, "theme", "dark") == "disabled"
        assert page.evaluate(FLUSH) is False
        assert site.shuffler("says-no").requests == []
        context.close()


def test_a_frame_that_may_keep_nothing_says_so(site: Site, address: str, context: BrowserContext) -> None:
    """Also: the file for a script tag defines one name."""
    page = context.new_page()
    page.goto(f"{address}/sandbox")
    frame = page.frames[1]
    frame.wait_for_function("() => 'hubbub' in globalThis")
    said = frame.evaluate(
        "([address, trust]) => new hubbub.Client(address, {trust, consent: true}).record('theme', 'dark')",
        [f"{address}/sandboxed", site.shuffler("sandboxed").trust],
    )
    assert said == "no_durable_state"
    page.goto(f"{address}/framed")
    assert page.evaluate("() => Object.keys(hubbub)") == ["Client"]


def test_without_a_network_reports_wait_and_are_not_drawn_again(
    site: Site, address: str, context: BrowserContext
) -> None:
    name = "offline"
    page = tab(context, address, site, name)
    record(page, "theme", "light")
    context.set_offline(True)
    assert page.evaluate(FLUSH) is False
    drawn = waiting(page, address, name)
    assert len(drawn) == 1
    assert page.evaluate(FLUSH) is False
    assert waiting(page, address, name) == drawn
    context.set_offline(False)
    assert page.evaluate(FLUSH) is True
    (sent,) = site.shuffler(name).reports_sent()
    assert drawn[0].startswith(sent.nonce.hex())
    assert record(page, "theme", "dark") == "recorded"
    assert page.evaluate(FLUSH) is True
    assert len(site.shuffler(name).reports) == 1


def test_what_is_cleared_closes_the_day(site: Site, address: str, context: BrowserContext) -> None:
    """A cleared storage does not know what was spent, also while a page is open."""
    name = "cleared"
    page = tab(context, address, site, name)
    record(page, "theme", "dark")
    assert page.evaluate(FLUSH) is True
    page.close()
    page = tab(context, address, site, name, closed=True)
    session = context.new_cdp_session(page)
    session.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": "all"})
    page.evaluate(FLUSH)
    assert record(page, "theme", "light") == "over_budget"
    assert page.evaluate("() => client.ledger()")["closedBefore"] == BEGAN + DAY / 2
    page.evaluate("(later) => { globalThis.now = later; }", BEGAN + DAY)
    page.evaluate(FLUSH)
    assert record(page, "theme", "light") == "recorded"
    assert page.evaluate(FLUSH) is True
    assert sorted(report.period for report in site.shuffler(name).reports_sent("theme")) == ["2026-01-05", "2026-01-06"]


def test_where_nothing_more_can_be_kept_a_record_says_so(site: Site, address: str, context: BrowserContext) -> None:
    name = "full"
    page = tab(context, address, site, name)
    page.evaluate(
        """() => { for (let size = 1 << 20, i = 0; size;) {
        try { localStorage.setItem("filler" + i++, "x".repeat(size)); } catch { size >>= 1; } } }"""
    )
    assert record(page, "clicks", 1) == "no_durable_state"
    page.evaluate(
        "() => Object.keys(localStorage).forEach((name) => /^filler/.test(name) && localStorage.removeItem(name))"
    )
    assert record(page, "clicks", 1) == "recorded"
    session = context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": address, "quotaSize": 1})
    assert record(page, "theme", "dark") == "recorded"
    page.evaluate(FLUSH)  # whether or not it could be written, nothing was sent that was not
    drawn = len(waiting(page, address, name)) + len(site.shuffler(name).reports)
    assert drawn <= 1
    session.send("Storage.overrideQuotaForOrigin", {"origin": address})
    assert page.evaluate(FLUSH) is True
    assert len(site.shuffler(name).reports_sent("theme")) == 1
    assert len(site.shuffler(name).reports) == 1


def test_a_browser_that_is_killed_sends_what_it_drew_and_draws_nothing_again(
    site: Site, address: str, browser: Browser, tmp_path: Path
) -> None:
    """Also: a page from the cache of pages that one goes back to works on."""
    name, profile = "killed", tmp_path / "profile"
    context = persistent(browser, profile)
    page = tab(context, address, site, name)
    record(page, "theme", "dark")
    page.evaluate("() => { globalThis.before = true; }")
    page.goto(f"{address}/other")
    page.go_back(wait_until="commit")
    assert page.evaluate("() => globalThis.before") is True, "the page was not kept"
    site.silent = True
    assert page.evaluate(FLUSH) is False
    drawn = waiting(page, address, name)
    assert len(drawn) == 1
    killed(context, profile)
    site.silent = False
    context = persistent(browser, profile)
    page = tab(context, address, site, name, first=False)
    assert waiting(page, address, name) == drawn
    assert page.evaluate(FLUSH) is True
    record(page, "theme", "light")
    assert page.evaluate(FLUSH) is True
    (sent,) = site.shuffler(name).reports_sent()
    assert drawn[0].startswith(sent.nonce.hex())
    context.close()
