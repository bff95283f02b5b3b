"""A page of another origin in a real browser: it fetches the bundle and uploads where the shuffler lists it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from hubbub.wire import REPORTS_TYPE
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import AggregatorServer, AppServer, ShufflerProcess
from tests.shuffler.raw_connections import answer_to, body, daily_aggregator, get
from tests.shuffler.world import StubAggregator
from tests.support.patience import wait_for

BURST = 7
"""Tokens: three for the bundle, three for an upload of three reports, one for a malformed upload."""
_FETCH = """async ([url, method, type, body]) => {
  const upload = {method, headers: {"Content-Type": type}, body: new Uint8Array(body)};
  const init = method === "GET" ? {cache: "no-cache"} : upload;
  try {
    const answer = await fetch(url, init);
    const [etag, wait] = ["ETag", "Retry-After"].map((name) => answer.headers.get(name));
    return {status: answer.status, etag, wait, text: await answer.text()};
  } catch (error) {
    return {status: null, text: String(error)};
  }
}"""


async def site(_scope: Any, _receive: Any, send: Any) -> None:
    """A page with nothing on it."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<!doctype html><title>A web app</title>"})


def proxy(to: str, answered: list[tuple[str, int]]) -> Any:
    """In front of a shuffler: the browser then has an address that is not loopback, which has no limit."""

    async def forward(scope: Any, receive: Any, send: Any) -> None:
        sent, more = b"", True
        while more:
            message = await receive()
            sent, more = sent + message.get("body", b""), message.get("more_body", False)
        head = b"%s %s HTTP/1.1\r\n" % (scope["method"].encode(), scope["raw_path"])
        head += b"".join(b"%s: %s\r\n" % header for header in scope["headers"])
        status, headers, content = answer_to(to, head + b"X-Forwarded-For: 198.51.100.7\r\n\r\n" + sent)
        answered.append((scope["method"], status))
        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": listed})
        await send({"type": "http.response.body", "body": content})

    return forward


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of an origin of its own."""
    with AppServer(site) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        yield page
        context.close()


def ask(page: Page, address: str, method: str = "GET", content: bytes = b"") -> dict[str, Any]:
    """What the page can see of the answer: to an upload, or of the bundle."""
    path = "/v1/bundle" if method == "GET" else "/v1/reports"
    seen: dict[str, Any] = page.evaluate(_FETCH, [f"{address}{path}", method, REPORTS_TYPE, list(content)])
    return seen


def problem(seen: dict[str, Any]) -> tuple[int, str]:
    return seen["status"], json.loads(seen["text"])["type"].removeprefix("urn:hubbub:problem:")


@pytest.mark.parametrize("listed", [True, False])
def test_a_page_reports_where_it_is_listed_and_can_read_why_not_and_nowhere_else(
    page: Page, tmp_path: Path, listed: bool
) -> None:
    origin = page.evaluate("() => location.origin")
    settings = {"proxy_hops": "1", "rate": "0.001", "burst": str(BURST), "bundle_refresh": "0.1"}
    if listed:
        settings["cors_origins"] = f"https://app.example.com, {origin}"
    stub = daily_aggregator()
    stub.up = not listed
    answered: list[tuple[str, int]] = []
    with ExitStack() as running:
        aggregator = running.enter_context(AggregatorServer(stub))
        shuffler = running.enter_context(ForkedProcess(tmp_path / "state", aggregator, tmp_path / "log", **settings))
        address = running.enter_context(AppServer(proxy(shuffler.address, answered)))
        if listed:
            reports(page, address, shuffler, stub)
            assert answered == [
                ("GET", 503),
                ("GET", 200),
                ("GET", 304),
                ("OPTIONS", 204),  # and remembered: one for all uploads
                ("POST", 202),
                ("POST", 400),
                ("POST", 429),
                ("GET", 429),
            ]
        else:
            wait_for(lambda: get(f"{shuffler.address}/readyz")[0] == 200)
            for method in ("GET", "POST"):
                assert ask(page, address, method, body()) == {"status": None, "text": "TypeError: Failed to fetch"}
            assert answered == [("GET", 200), ("OPTIONS", 405)]  # the upload itself is never sent


def reports(page: Page, address: str, shuffler: ShufflerProcess, stub: StubAggregator) -> None:
    """From a start without a bundle to the rate limit."""
    seen = ask(page, address)
    assert (problem(seen), seen["wait"]) == ((503, "no-bundle"), "2")
    stub.up = True
    wait_for(lambda: get(f"{shuffler.address}/readyz")[0] == 200)
    bundle = ask(page, address)
    assert bundle["status"] == 200
    assert bundle["etag"]
    assert ask(page, address) == bundle  # from the browser's cache, which has asked whether it is the newest
    assert ask(page, address, "POST", body(3))["status"] == 202
    assert problem(ask(page, address, "POST", b"xyz")) == (400, "malformed-upload")
    for method in ("POST", "GET"):
        seen = ask(page, address, method, body())
        assert problem(seen) == (429, "rate-limited")
        assert int(seen["wait"]) > 0
