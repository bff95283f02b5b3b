"""Opening pages as different people do: on a phone, in the dark, without scripts; and watching what they do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from playwright.sync_api import Browser, Page, Route

from tests.browser.watching import Watch

__all__ = ["DESKTOP", "PHONE", "Visitor"]

DESKTOP, PHONE = 1280, 360
_HEIGHT = 800
_PATIENCE = 60_000
"""Milliseconds; a first privacy page composes a year of guarantees, perhaps on a busy machine."""


@dataclass
class Visitor:
    """Contexts of one browser, each with its watch."""

    browser: Browser
    sites: dict[str, str]
    _open: list[tuple[Page, Watch]] = field(default_factory=list)
    _kept: dict[tuple[str, str], Page] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)

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
        clock: bool = False,
        **context: Any,
    ) -> Page:
        """A page in a context of its own. `body` plants one instead of asking a server."""
        origin = self.sites[site]
        inside = self.browser.new_context(
            viewport={"width": width, "height": _HEIGHT},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
            **context,
        )
        inside.set_default_timeout(_PATIENCE)
        watch = Watch(origin, expected)
        watch.attach(inside)
        page = inside.new_page()
        if clock:
            page.clock.install()
        if body is not None:

            def plant(route: Route) -> None:
                route.fulfill(body=body, content_type="text/html; charset=utf-8", headers=headers or {})

            page.route(f"{origin}/", plant)
        self._open.append((page, watch))
        self.go(page, f"{origin}{path}")
        return page

    def go(self, page: Page, address: str) -> None:
        response = page.goto(address, wait_until="load")
        until = time.monotonic() + _PATIENCE / 1000
        while page.locator("[role=status].empty").count():  # a ledger that is being worked out
            assert time.monotonic() < until, "the ledger took too long"
            page.wait_for_timeout(250)
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
        return next(watch for one, watch in self._open if one is page)

    def faults(self, page: Page | None = None) -> list[str]:
        """All that is wrong with this page, or with any."""
        return [fault for one, watch in self._open if page is None or one is page for fault in watch.found(one)]

    def leave(self) -> None:
        for page, _ in self._open:
            page.context.close()
        self._open.clear()
        self._kept.clear()
