"""The SDK snippet in JavaScript runs as printed: bundled as a newcomer does, in a real Chromium, and in Node."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from hubbub.codebook import Codebook
from hubbub.sdk_snippet import sdk_snippet
from hubbub_client.testing import MemoryTransport
from tests.aggregator.dashboard.markup import Page as Markup
from tests.browser.sdk_site import Site
from tests.cli.test_up_snippet import snippet_of, up
from tests.client.test_sdk_snippet import CASES, in_a_period_that_lasts
from tests.client.world import served
from tests.shuffler.process import AppServer
from tests.support import http
from tests.support.node import NO_PACKAGES, bundled, node, packages
from tests.support.node import project as installed
from tests.support.patience import wait_for

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the package."""
    return installed(tmp_path_factory.mktemp("project"))


def bundle(project: Path, snippet: str) -> str:
    """The snippet and what it imports, as one module."""
    (project / "app.js").write_text(snippet)
    return bundled(project, "app.js")


def visited(browser: Browser, address: str) -> str:
    """What the page's console says, once it has the preview."""
    context = browser.new_context()
    said: list[tuple[str, str]] = []
    page = context.new_page()
    page.on("console", lambda message: said.append((message.type, message.text)))
    page.goto(address)
    wait_for(lambda: page.evaluate("1") and any("Values on this device" in text for _, text in said))
    context.close()
    ((kind, text),) = said
    assert kind == "log"
    return text


@pytest.fixture
def pages(project: Path) -> Iterator[tuple[Site, str]]:
    page = "<!doctype html><title>A page</title><script type=module src=app.js></script>"
    site = Site(project, {"/": page, "/favicon.ico": ""})
    with AppServer(site) as address:
        yield site, address


def metrics(written: str) -> list[str]:
    return re.findall(r"^\[metrics\.(\w+)\]", written, re.MULTILINE)


@pytest.mark.everyday("minutes")
@pytest.mark.parametrize("name", CASES)
def test_every_value_of_the_snippet_counts(
    name: str, pages: tuple[Site, str], project: Path, browser: Browser, tmp_path: Path
) -> None:
    site, address = pages
    codebook = Codebook.from_toml(CASES[name])
    in_a_period_that_lasts(str(codebook.collection.calendar))
    site.shufflers["s"] = transport = MemoryTransport.serving(CASES[name], time.time)
    snippet = sdk_snippet(codebook, f"{address}/s", transport.trust, "JavaScript")
    assert max(map(len, snippet.splitlines())) <= 76
    site.pages["/app.js"] = bundle(project, snippet)
    shown = [visited(browser, address)]
    with served(MemoryTransport.serving(CASES[name], time.time)) as other:
        snippet = sdk_snippet(codebook, other, transport.trust, "JavaScript")
        snippet = snippet.replace('from "hubbub-client"', 'from "hubbub-client/node"')
        snippet = snippet.replace('freshStorage: "report"', f'stateDir: "{tmp_path}"').replace(
            f'trust: "{transport.trust}"', "trust: null"
        )
        (project / "node.mjs").write_text(snippet)
        done = subprocess.run([str(node()), "node.mjs"], cwd=project, capture_output=True, text=True, check=True)
        shown.append(done.stdout)
    for text in shown:
        for metric in codebook.metrics:
            assert re.search(rf"^  {metric.name}, from ", text, re.MULTILINE), text
    assert ("minPeriod: null" in snippet) == (codebook.collection.calendar.seconds < 3_600)


@pytest.mark.full  # every day, the same is printed for a shuffler in memory
def test_what_up_prints_runs_in_a_page_that_its_shuffler_lists(
    pages: tuple[Site, str], project: Path, browser: Browser, tmp_path: Path
) -> None:
    site, address = pages
    written, origins = CASES["minutes"], f"{address}, https://app.example.com"
    with up(tmp_path, written, HUBBUB_SHUFFLER_CORS_ORIGINS=origins) as (printed, dashboard), http.client() as asking:
        on_the_dashboard = Markup(asking.get(f"{dashboard}/").text).all("pre")[1].text
        in_a_period_that_lasts("10m")
        assert snippet_of(printed, "JavaScript") == on_the_dashboard
        site.pages["/app.js"] = bundle(project, on_the_dashboard)
        shown = visited(browser, address)
        for metric in metrics(written):
            assert re.search(rf"^  {metric}, from ", shown, re.MULTILINE), shown
