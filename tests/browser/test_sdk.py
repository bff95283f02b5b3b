"""The browser SDK in a real Chromium: manners, tabs, kills, networks, storage and consent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import FLAGS, find
from tests.browser.sdk_site import BEGAN, Site, built
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, packages
from tests.support.patience import wait_for

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_DAY = 86_400
_TAB = "<!doctype html><title>A tab</title><script src=/page.js></script>"
_APP = "<!doctype html><title>An app</title><script type=module src=/app.js></script>"
_SCRIPT = 'import {Client} from "/browser.js"; globalThis.Client = Client;'
_SANDBOX = "<!doctype html><title>A frame</title><iframe sandbox=allow-scripts src=/framed></iframe>"
_FRAMED = "<!doctype html><title>In a frame</title><script src=/hubbub.js></script>"
_OPEN = """([address, trust, closed, now]) => {
  globalThis.now ??= now;
  globalThis.agrees ??= true;
  const [clock, consent] = [() => globalThis.now, () => globalThis.agrees];
  globalThis.client = hubbubTab.open({address, trust, clock, consent, step: () => {}, freshIsClosed: closed});
  return client.started;
}"""
_FLUSH = "() => client.flush({timeout: 0, now: true})"
_ROWS = """async (name) => {
  const open = indexedDB.open(name);
  const database = await new Promise((done) => { open.onsuccess = () => done(open.result); });
  const store = database.transaction("rows").objectStore("rows");
  const [keys, values] = [store.getAllKeys(), store.getAll()];
  await new Promise((done) => { values.onsuccess = done; });
  database.close();
  return Object.fromEntries(keys.result.map((key, i) => [key, values.result[i]]).filter(([key]) => key < "~"));
}"""


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


def tab(
    context: BrowserContext, address: str, site: Site, name: str, *, closed: bool = False, first: bool = True
) -> Page:
    """A tab with a client whose storage is named after the test."""
    page = context.new_page()
    page.goto(f"{address}/tab")
    trust = site.shuffler(name).trust
    page.evaluate(_OPEN, [f"{address}/{name}", trust, closed, BEGAN + _DAY / 2])
    if first:
        page.evaluate(_FLUSH)
    return page


def record(page: Page, metric: str, value: object) -> str:
    outcome: str = page.evaluate("([metric, value]) => client.record(metric, value)", [metric, value])
    return outcome


def rows(page: Page, address: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(_ROWS, f"hubbub {address}/{name}")
    return found


def waiting(page: Page, address: str, name: str) -> list[str]:
    """The payloads and nonces of the reports in the outbox."""
    found = rows(page, address, name)
    return sorted(row["nonce"] + row["payload"] for key, row in found.items() if key.startswith("report "))


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
        assert page.evaluate(_FLUSH) is False
        kept = "async () => [await indexedDB.databases(), Object.keys(localStorage), Object.keys(sessionStorage)]"
        assert page.evaluate(kept) == [[], [], []]
        assert [url for url in asked if "engine" in url or "/manners/" in url] == []
        page.evaluate("() => { globalThis.agrees = true; }")
        assert record(page, "theme", "dark") == "waiting"
        assert page.evaluate(_FLUSH) is True
        assert record(page, "theme", "dark") == "recorded"
        assert page.evaluate(_FLUSH) is True
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
        assert page.evaluate(_FLUSH) is False
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


def test_eight_tabs_are_one_device(site: Site, address: str, context: BrowserContext) -> None:
    name = "tabs"
    tabs = [tab(context, address, site, name) for _ in range(8)]
    for page in tabs:
        assert record(page, "theme", "dark") == "recorded"
        assert record(page, "clicks", 1) == "recorded"
    for page in tabs:  # all at once: the answers are waited for below
        page.evaluate(
            "(later) => { globalThis.now = later; globalThis.flushed = client.flush({timeout: 10, now: true}); }",
            BEGAN + 1.5 * _DAY,
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


def test_without_a_network_reports_wait_and_are_not_drawn_again(
    site: Site, address: str, context: BrowserContext
) -> None:
    name = "offline"
    page = tab(context, address, site, name)
    record(page, "theme", "light")
    context.set_offline(True)
    assert page.evaluate(_FLUSH) is False
    drawn = waiting(page, address, name)
    assert len(drawn) == 1
    assert page.evaluate(_FLUSH) is False
    assert waiting(page, address, name) == drawn
    context.set_offline(False)
    assert page.evaluate(_FLUSH) is True
    (sent,) = site.shuffler(name).reports_sent()
    assert drawn[0].startswith(sent.nonce.hex())
    assert record(page, "theme", "dark") == "recorded"
    assert page.evaluate(_FLUSH) is True
    assert len(site.shuffler(name).reports) == 1


def test_what_is_cleared_closes_the_day(site: Site, address: str, context: BrowserContext) -> None:
    """A cleared storage does not know what was spent, also while a page is open."""
    name = "cleared"
    page = tab(context, address, site, name)
    record(page, "theme", "dark")
    assert page.evaluate(_FLUSH) is True
    page.close()
    page = tab(context, address, site, name, closed=True)
    session = context.new_cdp_session(page)
    session.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": "all"})
    page.evaluate(_FLUSH)
    assert record(page, "theme", "light") == "over_budget"
    assert page.evaluate("() => client.ledger()")["closedBefore"] == BEGAN + _DAY / 2
    page.evaluate("(later) => { globalThis.now = later; }", BEGAN + _DAY)
    page.evaluate(_FLUSH)
    assert record(page, "theme", "light") == "recorded"
    assert page.evaluate(_FLUSH) is True
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
    page.evaluate(_FLUSH)  # whether or not it could be written, nothing was sent that was not
    drawn = len(waiting(page, address, name)) + len(site.shuffler(name).reports)
    assert drawn <= 1
    session.send("Storage.overrideQuotaForOrigin", {"origin": address})
    assert page.evaluate(_FLUSH) is True
    assert len(site.shuffler(name).reports_sent("theme")) == 1
    assert len(site.shuffler(name).reports) == 1


def test_a_switch_reaches_other_tabs_at_once(site: Site, address: str, context: BrowserContext) -> None:
    name = "switch"
    one, two = tab(context, address, site, name), tab(context, address, site, name)
    assert record(one, "theme", "dark") == "recorded"
    assert record(two, "clicks", 1) == "recorded"
    assert one.evaluate("() => client.disable()") is True
    wait_for(lambda: record(two, "theme", "dark") == "disabled")
    two.evaluate("(later) => { globalThis.now = later; }", BEGAN + 1.5 * _DAY)
    assert two.evaluate(_FLUSH) is False
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
    two.evaluate(_FLUSH)
    before = len(site.shuffler(name).requests)
    for day in (0.5, 1.5):
        one.evaluate("(now) => { globalThis.now = now; }", BEGAN + day * _DAY)
        assert one.evaluate(_FLUSH) is False
        assert record(one, "theme", "dark") == "disabled"
    assert len(site.shuffler(name).requests) == before
    assert (one.evaluate("() => client.preview()"))["takingPart"] is False
    found = rows(one, address, name)
    assert "since" not in found["about"]
    assert not [key for key in found if key.startswith(("state ", "report "))]
    # Somebody says yes again: from then on it holds for both.
    two.evaluate("(now) => { globalThis.agrees = true; globalThis.now = now; }", BEGAN + 1.5 * _DAY)
    assert two.evaluate(_FLUSH) is True
    assert one.evaluate(_FLUSH) is True
    assert record(one, "theme", "dark") == "recorded"
    assert one.evaluate(_FLUSH) is True
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
    assert page.evaluate(_FLUSH) is True
    ledger = page.evaluate("() => client.ledger()")
    assert (ledger["freshStorage"], ledger["closedBefore"]) == ("report", None)
    page.close()
    page = visited()
    assert record(page, "theme", "dark") == "waiting"
    page.close()
    page = visited(route=False)
    assert record(page, "theme", "light") == "waiting"
    assert page.evaluate(_FLUSH) is False  # nothing throws where the engine cannot be loaded
    assert page.evaluate("() => client.stats()") == {"waiting": 1}
    page.close()
    page = visited()
    assert page.evaluate(_FLUSH) is True
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
    page.evaluate(_FLUSH)
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
            page.evaluate(_TWIN, [f"{address}/{name}", shuffler.trust, BEGAN + day * _DAY])
            for hour in (1, 5, 9, 20):
                site.headers.clear()
                page.evaluate("(now) => { globalThis.now = now; }", BEGAN + day * _DAY + hour * 3600)
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


def persistent(browser: Browser, profile: Path) -> BrowserContext:
    """A browser of its own, which keeps pages that one goes back to."""
    return browser.browser_type.launch_persistent_context(
        profile, executable_path=find(), args=FLAGS, ignore_default_args=["--disable-back-forward-cache"]
    )


def killed(context: BrowserContext, profile: Path) -> None:
    """kill -9 of the whole browser."""
    with context.expect_event("close"):
        os.kill(int(os.readlink(profile / "SingletonLock").rpartition("-")[2]), signal.SIGKILL)
    (profile / "SingletonLock").unlink(missing_ok=True)


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
    assert page.evaluate(_FLUSH) is False
    drawn = waiting(page, address, name)
    assert len(drawn) == 1
    killed(context, profile)
    site.silent = False
    context = persistent(browser, profile)
    page = tab(context, address, site, name, first=False)
    assert waiting(page, address, name) == drawn
    assert page.evaluate(_FLUSH) is True
    record(page, "theme", "light")
    assert page.evaluate(_FLUSH) is True
    (sent,) = site.shuffler(name).reports_sent()
    assert drawn[0].startswith(sent.nonce.hex())
    context.close()
