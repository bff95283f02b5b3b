"""Take the pictures of the dashboard that the docs show: `make screenshots`.

The sites are those of the browser tests: a simulated year of a photo app through the real mechanisms, with seeded
randomness and a stopped clock, so that a picture changes only when the dashboard does.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from tests.browser.chromium import FLAGS, NO_BROWSER, find
from tests.browser.serve import serving
from tests.browser.visiting import DESKTOP, PHONE, Contexts, Visitor

FOLDER = Path(__file__).parent.parent / "docs" / "images"
MOST_BYTES = 300_000


class Picture(NamedTuple):
    name: str
    site: str
    path: str
    width: int = DESKTOP
    dark: bool = False
    height: int = 1400
    """At most; a shorter page gives a shorter picture."""


PICTURES = [
    Picture("overview", "populated", "/"),
    Picture("overview-dark", "populated", "/", dark=True),
    Picture("overview-phone", "populated", "/", width=PHONE),
    Picture("overview-empty", "empty", "/"),
    Picture("metric", "populated", "/metric/theme?from=2026-12-16&to=2027-01-15", height=2000),
    Picture("metric-year-dark", "populated", "/metric/dark_mode", dark=True, height=1600),
    Picture("metric-long-list", "populated", "/metric/camera?from=2026-12-16&to=2027-01-15"),
    Picture("metric-phone-dark", "populated", "/metric/startup_ms", width=PHONE, dark=True),
    Picture("privacy", "populated", "/privacy", height=2200),
    Picture("operations", "populated", "/operations"),
    Picture("what-is-collected-phone", "populated", "/what-is-collected", width=PHONE),
]


def shoot(page: Page, picture: Picture) -> bytes:
    """The top of a page as WebP."""
    tall = int(page.evaluate("() => document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": picture.width, "height": min(tall, picture.height), "scale": 1}
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": 82, "captureBeyondViewport": True, "clip": clip}
    return base64.b64decode(session.send("Page.captureScreenshot", options)["data"])


def main() -> None:
    executable = find()
    if executable is None:
        sys.exit(NO_BROWSER)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "populated", "empty") as sites,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        visitor = Visitor(Contexts(browser), sites)
        for picture in PICTURES:
            page = visitor.open(picture.site, picture.path, width=picture.width, dark=picture.dark)
            taken = shoot(page, picture)
            if faults := visitor.faults(page):
                sys.exit(f"{picture.name}: {'; '.join(faults)}")
            if len(taken) > MOST_BYTES:
                sys.exit(f"{picture.name} has {len(taken):,} bytes, more than {MOST_BYTES:,}: lower its height")
            (FOLDER / f"{picture.name}.webp").write_bytes(taken)
            print(f"{picture.name}.webp {len(taken):,} bytes")
        visitor.leave()


if __name__ == "__main__":
    main()
