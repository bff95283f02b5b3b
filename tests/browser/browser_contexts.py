"""Browser contexts of different people: on a phone, in the dark, without scripts; and a watch on what pages do."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.browser.browser_events import Watch, told

__all__ = ["DESKTOP", "PHONE", "Contexts", "Visitor"]

DESKTOP, PHONE = 1280, 360
_HEIGHT = 800
_PATIENCE = 60_000
"""Milliseconds for anything that a browser does."""
_LONG = 200
"""Seconds for what the server works out behind a page: a year of guarantees, perhaps on a busy machine."""
_UNFINISHED = "[data-soon], .card:has(.headline):not(:has(figure.chart))"


@dataclass
class Contexts:
    """Browser contexts by their options: one takes half a second to make, and pages that keep nothing can share it."""

    browser: Browser
    _shared: dict[str, BrowserContext] = field(default_factory=dict)

    def get(self, options: dict[str, Any], *, alone: bool) -> BrowserContext:
        key = json.dumps(options, sort_keys=True)
        if not alone and key in self._shared:
            return self._shared[key]
        made = self.browser.new_context(reduced_motion="reduce", locale="en-GB", timezone_id="UTC", **options)
        made.set_default_timeout(_PATIENCE)
        made.add_init_script(told)
        if not alone:
            self._shared[key] = made
        return made

    def close(self) -> None:
        for context in self._shared.values():
            context.close()


@dataclass
class Visitor:
    """Pages of some sites, each with its watch."""

    contexts: Contexts
    sites: dict[str, str]
    statuses: dict[str, int] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    _open: list[tuple[Page, Watch, BrowserContext | None]] = field(default_factory=list)
    _kept: dict[tuple[str, str], Page] = field(default_factory=dict)

    def open(
        self,
        site: str,
        path: str = "/",
        *,
        width: int = DESKTOP,
        dark: bool = False,
        expected: tuple[int, ...] = (),
        body: str | None = None,
        headers: dict[str, str] | None = None,
        alone: bool = False,
        **context: Any,
    ) -> Page:
        """A page. `body` plants one instead of asking a server; `alone` is for one that is disturbed on purpose."""
        origin = self.sites[site]
        inside = self.contexts.get(context, alone=alone)
        page = inside.new_page()
        page.set_viewport_size({"width": width, "height": _HEIGHT})
        page.emulate_media(color_scheme="dark" if dark else "light")
        watch = Watch(origin, expected)
        watch.attach(page)
        self._open.append((page, watch, inside if alone else None))
        if alone:
            page.clock.install()
        if body is not None:

            def plant(route: Route) -> None:
                route.fulfill(body=body, content_type="text/html; charset=utf-8", headers=headers or {})

            page.route(f"{origin}/", plant)
        self.go(page, f"{origin}{path}")
        return page

    def go(self, page: Page, address: str) -> None:
        response = page.goto(address, wait_until="load")
        until = time.monotonic() + _LONG
        while page.locator(_UNFINISHED).count():  # cards or a ledger that are being worked out
            assert time.monotonic() < until, "it took too long"
            time.sleep(0.25)
            response = page.reload(wait_until="load")
        assert response is not None, address
        self.statuses[page.url], self.headers[page.url] = response.status, response.headers

    def keep(self, site: str, path: str, *, width: int = DESKTOP, scheme: Literal["light", "dark"] = "light") -> Page:
        """The page that was loaded before, or now; as wide and as light as asked for."""
        if (site, path) not in self._kept:
            self._kept[site, path] = self.open(site, path)
        page = self._kept[site, path]
        page.set_viewport_size({"width": width, "height": _HEIGHT})
        page.emulate_media(color_scheme=scheme)
        return page

    def watch(self, page: Page) -> Watch:
        return next(watch for one, watch, _ in self._open if one is page)

    def faults(self, page: Page | None = None) -> list[str]:
        """All that is wrong with this page, or with any."""
        chosen = [(one, watch) for one, watch, _ in self._open if page is None or one is page]
        return [fault for one, watch in chosen for fault in watch.found(one)]

    def leave(self) -> None:
        for page, _, own in self._open:
            page.close()
            if own is not None:
                own.close()
        self._open.clear()
        self._kept.clear()
