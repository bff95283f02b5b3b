"""Take the screenshots of the dashboard for the docs: `make screenshots`, or some: `... tutorial-metric overview`.

The sites are those of the browser tests: a simulated year of a photo app through the real mechanisms, with seeded
randomness and a stopped clock, so that a picture changes only when the dashboard does. The pictures of the tutorial
show services that the tutorial's own commands have started, with the noise of that day.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

from tests.browser.browser_contexts import DESKTOP, PHONE, Contexts, Visitor
from tests.browser.chromium import FLAGS, NO_BROWSER, find
from tests.browser.serve import serving
from tests.docs.blocks import TUTORIAL, runnable
from tests.docs.terminal import terminal

FOLDER = Path(__file__).parent.parent / "docs" / "images"
MOST_BYTES = 300_000


class Picture(NamedTuple):
    name: str
    site: str
    path: str
    width: int = DESKTOP
    dark: bool = False
    height: int = 1400
    """Largest height; a shorter page gives a shorter picture."""


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
    Picture("tutorial-overview", "tutorial", "/"),
    Picture("tutorial-metric", "tutorial", "/metric/theme?from={first}&to={after}", height=1500),
]
CLOSING = 40
"""Seconds until the tutorial's last period is closed and published."""


@contextmanager
def tutorial(folder: Path) -> Iterator[str]:
    """Address of the aggregator of a reader who has followed the tutorial to its end."""
    with terminal(folder) as typing:
        for block in runnable(TUTORIAL)[0]:
            typing.follow(block)
        time.sleep(CLOSING)
        yield f"http://127.0.0.1:{typing.ports['8702']}"


def released(address: str) -> dict[str, str]:
    """The range of all releases of an aggregator."""
    with urlopen(f"{address}/v1/metrics/theme/estimate", timeout=60) as answer:  # noqa: S310  loopback
        periods = json.load(answer)["segments"][-1]["periods"]
    return {"first": periods["from"], "after": periods["to"]}


def shoot(page: Page, picture: Picture) -> bytes:
    """The top of a page as WebP."""
    tall = int(page.evaluate("() => document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": picture.width, "height": min(tall, picture.height), "scale": 1}
    session = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": 82, "captureBeyondViewport": True, "clip": clip}
    return base64.b64decode(session.send("Page.captureScreenshot", options)["data"])


def main(names: list[str]) -> None:
    executable = find()
    if executable is None:
        sys.exit(NO_BROWSER)
    chosen = [picture for picture in PICTURES if not names or picture.name in names]
    needed = sorted({picture.site for picture in chosen})
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        sites, asked = {}, {"first": "", "after": ""}
        if prepared := [name for name in needed if name != "tutorial"]:
            sites |= running.enter_context(serving(folder / "sites", *prepared))
        if "tutorial" in needed:
            (folder / "reader").mkdir()
            sites["tutorial"] = running.enter_context(tutorial(folder / "reader"))
            asked = released(sites["tutorial"])
        browser = running.enter_context(sync_playwright()).chromium.launch(executable_path=executable, args=FLAGS)
        visitor = Visitor(Contexts(browser), sites)
        for picture in chosen:
            path = picture.path.format(**asked)
            page = visitor.open(picture.site, path, width=picture.width, dark=picture.dark)
            taken = shoot(page, picture)
            if faults := visitor.faults(page):
                sys.exit(f"{picture.name}: {'; '.join(faults)}")
            if len(taken) > MOST_BYTES:
                sys.exit(f"{picture.name} has {len(taken):,} bytes, more than {MOST_BYTES:,}: lower its height")
            (FOLDER / f"{picture.name}.webp").write_bytes(taken)
            print(f"{picture.name}.webp {len(taken):,} bytes")
        visitor.leave()


if __name__ == "__main__":
    main(sys.argv[1:])
