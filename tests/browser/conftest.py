"""One browser for the tests of this folder, and the sites it opens.

Both end with the last test of the folder: Playwright keeps an event loop running meanwhile, which other tests must not
find.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.browser_contexts import Contexts, Visitor
from tests.browser.chromium import FLAGS, NO_BROWSER, find
from tests.browser.serve import serving
from tests.browser.sites import SITES


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = find()
    if executable is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def state(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  none is made without one
    """Where the sites of this run are, for all its workers."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "browser-sites"


@pytest.fixture(scope="package")
def sites(state: Path) -> Iterator[dict[str, str]]:
    """Where each of the sites is served."""
    with serving(state, *SITES) as addresses:
        yield addresses


@pytest.fixture(scope="package")
def contexts(browser: Browser) -> Iterator[Contexts]:
    contexts = Contexts(browser)
    yield contexts
    contexts.close()


@pytest.fixture(scope="package")
def kept(contexts: Contexts, sites: dict[str, str]) -> Iterator[Visitor]:
    """Pages that several tests look at, each loaded once."""
    visitor = Visitor(contexts, sites)
    yield visitor
    visitor.leave()


@pytest.fixture
def visitor(contexts: Contexts, sites: dict[str, str]) -> Iterator[Visitor]:
    """Fresh pages; whatever the browser complained about meanwhile fails the test."""
    visitor = Visitor(contexts, sites)
    yield visitor
    faults = visitor.faults()
    visitor.leave()
    assert faults == []


@pytest.fixture
def planted(contexts: Contexts, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of a test's own making, served from nowhere, with its watch."""
    own = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    visitor = Visitor(contexts, {"planted": f"http://{own}.example"})

    def plant(body: str, **headers: str) -> tuple[Page, Visitor]:
        html = f"<!doctype html><html lang=en><head><title>Planted</title></head><body>{body}</body></html>"
        page = visitor.open("planted", body=html, headers=headers)
        return page, visitor

    yield plant
    visitor.leave()
