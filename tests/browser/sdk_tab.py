"""A tab with the browser SDK, whose clock and consent a test sets; and a browser that a test kills."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import FLAGS, find
from tests.browser.sdk_site import BEGAN, Site

__all__ = ["DAY", "FLUSH", "killed", "persistent", "record", "rows", "tab", "waiting"]

DAY = 86_400
FLUSH = "() => client.flush({timeout: 0, now: true})"
_OPEN = """([address, trust, closed, now]) => {
  globalThis.now ??= now;
  globalThis.agrees ??= true;
  const [clock, consent] = [() => globalThis.now, () => globalThis.agrees];
  globalThis.client = hubbubTab.open({address, trust, clock, consent, step: () => {}, freshIsClosed: closed});
  return client.started;
}"""
_ROWS = """async (name) => {
  const open = indexedDB.open(name);
  const database = await new Promise((done) => { open.onsuccess = () => done(open.result); });
  const store = database.transaction("rows").objectStore("rows");
  const [keys, values] = [store.getAllKeys(), store.getAll()];
  await new Promise((done) => { values.onsuccess = done; });
  database.close();
  return Object.fromEntries(keys.result.map((key, i) => [key, values.result[i]]).filter(([key]) => key < "~"));
}"""


def tab(
    context: BrowserContext, address: str, site: Site, name: str, *, closed: bool = False, first: bool = True
) -> Page:
    """A tab with a client whose storage is named after the test."""
    page = context.new_page()
    page.goto(f"{address}/tab")
    trust = site.shuffler(name).trust
    page.evaluate(_OPEN, [f"{address}/{name}", trust, closed, BEGAN + DAY / 2])
    if first:
        page.evaluate(FLUSH)
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
