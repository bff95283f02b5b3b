"""The page whose buttons report from the visitor's own browser: pressed in a real Chromium, up to the estimate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from playwright.sync_api import Browser, Page, expect

from hubbub.codebook import Codebook
from hubbub.metric_types import registered
from hubbub_cli.browser_page import server
from hubbub_cli.browser_page.server import BrowserPage
from hubbub_client.testing import MemoryTransport
from tests.browser.page_content import axe, overflow
from tests.browser.sdk_site import Site
from tests.client.test_sdk_snippet import in_a_period_that_lasts
from tests.shuffler.process import AppServer
from tests.support import http
from tests.support.every_metric import a_metric
from tests.support.patience import PATIENCE, wait_for

_PATIENCE = 1000 * PATIENCE
HEAD = """
[collection]
name = "page"
period = "{period}"
grace = "1d"
device_epsilon = 40
release = {{ epsilon = 0.5, delta = 1e-8 }}
"""


def every_type(period: str) -> str:
    """A codebook with a metric of each registered type. A description is text, whatever is in it."""
    metrics = [a_metric(f"by_{name}", name, description="<img src=x onerror=alert(1)>") for name in registered()]
    return HEAD.format(period=period) + "".join(metrics)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(_PATIENCE)
    amiss: list[str] = []
    page.on("console", lambda message: amiss.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: amiss.append(str(error)))
    yield page
    context.close()
    assert amiss == []


def pressed(page: Page, metric: str) -> str:
    """What the card of a metric says after its first button was pressed."""
    card = page.locator(f'[data-metric="{metric}"]')
    card.get_by_role("button").first.click()
    said: str = card.locator(".said").get_attribute("data-outcome") or ""
    return said


def test_each_metric_has_something_to_press_and_nothing_happens_without_consent(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = every_type("1d")
    in_a_period_that_lasts("1d")
    codebook = Codebook.from_toml(written)
    transport = MemoryTransport.serving(written)
    site = Site(tmp_path, shufflers={"s": transport})
    monkeypatch.setattr(server, "newest_estimates", lambda *_: [])
    with AppServer(site) as address, BrowserPage(0) as shown:
        services: Any = SimpleNamespace(
            shuffler=f"{address}/s", anchor=transport.trust, aggregator="http://127.0.0.1:1", floor=100
        )
        shown.show(codebook, services)
        page.goto(shown.address)
        page.get_by_text("Nothing is kept").first.wait_for()
        for metric in codebook.metrics:
            assert pressed(page, metric.name) == "disabled"
        assert transport.requests == []
        assert page.evaluate("() => Object.keys(localStorage)") == []
        page.get_by_role("checkbox").check()
        page.get_by_text("This browser takes part").wait_for()
        for metric in codebook.metrics:
            assert pressed(page, metric.name) == "recorded"
        expect(page.locator("#reports tr")).to_have_count(len(codebook.metrics))
        for width in (1100, 360):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme="dark" if width < 500 else "light")
            assert axe(page) == []
            assert overflow(page) == []
        assert page.get_by_role("button", name="Bring a crowd").is_visible() is False
        page.get_by_role("button", name="Switch off").click()
        page.get_by_text("Nothing is kept").first.wait_for()
        assert pressed(page, "by_boolean") == "disabled"
        page.close()  # it asks the servers again and again, and is gone before they are


def test_it_answers_this_machine_only_and_says_why_not_to_others() -> None:
    with BrowserPage(0) as shown, http.client(base_url=shown.address) as asking:
        codebook = Codebook.from_toml(HEAD.format(period="10s") + '[metrics.a]\ntype = "boolean"\nepsilon = 1')
        services: Any = SimpleNamespace(
            shuffler="http://127.0.0.1:1", anchor="", aggregator="http://127.0.0.1:2", floor=100
        )
        asked: list[list[int]] = []

        def crowd(starts: list[int]) -> dict[str, Any]:
            asked.append(starts)
            return {"reports": 0, "periods": []}

        shown.show(codebook, services, crowd)
        assert asking.get("/", headers={"Host": "evil.example"}).status_code == 421
        assert asking.get("/nowhere").status_code == 404
        unanswered = asking.get("/estimates.json")
        assert unanswered.status_code == 502
        assert unanswered.headers["content-type"] == "application/problem+json"
        assert "no aggregator answers" in unanswered.json()["detail"]
        good, own = {"periods": [10]}, {"Origin": shown.address}
        assert asking.post("/crowd", json=good).status_code == 403
        assert asking.post("/crowd", json=good, headers={"Origin": "https://evil.example"}).status_code == 403
        bodies: list[Any] = [
            [],
            {"periods": []},
            {"periods": ["10"]},
            {"periods": [1, 2, 3, 4, 5]},
            {"periods": [True]},
        ]
        for bad in bodies:
            assert asking.post("/crowd", json=bad, headers=own).status_code == 400
        assert asking.post("/crowd", content=b"x" * 5000, headers=own).status_code == 413
        assert asked == []
        assert asking.post("/crowd", json=good, headers=own).status_code == 200
        assert asked == [[10]]
        home = asking.get("/")
        assert "default-src 'none'" in home.headers["content-security-policy"]
        (script,) = re.findall(r'src="(/hubbub-[^"]+)"', home.text)
        assert asking.get(script).headers["access-control-allow-origin"] == "*"


def test_it_listens_on_loopback_and_says_so_if_its_port_is_taken() -> None:
    with BrowserPage(0) as one, BrowserPage() as two, BrowserPage() as three:
        assert all(page._server.server_address[0] == "127.0.0.1" for page in (one, two, three))
        assert len({one.address, two.address, three.address}) == 3
        with pytest.raises(click.ClickException, match=r"is in use: .* --page-port"):
            BrowserPage(int(one.address.rpartition(":")[2]))


def test_the_shuffler_is_told_of_the_page_beside_the_origins_that_were_given() -> None:
    with BrowserPage(0) as shown:
        own = ", ".join(shown.origins)
        assert shown.listed({}) == {"CORS_ORIGINS": own}
        assert shown.listed({"CORS_ORIGINS": "https://a.example"}) == {"CORS_ORIGINS": f"https://a.example, {own}"}
        assert shown.listed({"CORS_ORIGINS": "*"}) == {"CORS_ORIGINS": "*"}


@pytest.mark.full  # three periods of real services, a minute and a half
@pytest.mark.timeout(600)
def test_a_visitor_of_the_demo_sees_the_report_in_an_estimate(page: Page) -> None:
    running = subprocess.Popen(
        [sys.executable, "-u", "-m", "hubbub_cli", "demo", "--stay", "--devices", "2600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert running.stdout is not None
        printed = ""
        while not (found := re.search(r"from your browser\s+(\S+)", printed)):
            line = running.stdout.readline()
            assert line, printed
            printed += line
        page.goto(found[1])
        page.get_by_role("checkbox").check()
        page.get_by_text("This browser takes part").wait_for()
        wait_for(lambda: pressed(page, "late") == "recorded", step=1)  # new storage waits for the next period
        start = page.evaluate("() => [...seen.values()][0].start")
        page.get_by_role("button", name="Bring a crowd").click()
        page.get_by_text("reports came").wait_for()
        wait_for(lambda: "counted in the estimate" in page.locator("#reports").inner_text(), 180, step=1)
        card = page.locator('[data-metric="late"] .estimate')
        if card.get_attribute("data-start") == str(start):  # the newest with a crowd
            (count,) = re.findall(r"(\d+) reports of", card.inner_text())
            crowd = json.loads(page.evaluate("() => fetch('/page.json').then((answer) => answer.text())"))
            needed = max(metric["needed"] for metric in crowd["metrics"])
            assert int(count) == -(-11 * needed // 10) + 1
        page.goto("about:blank")  # so that it asks no server that is gone
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE)
