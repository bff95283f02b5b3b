"""Access to the dashboard: the API decides for every page and every chart, also for one that was shown before."""

from __future__ import annotations

import ast
import asyncio
import base64
import threading

import pytest

from hubbub.codebook import Codebook
from hubbub_aggregator.dashboard import vega_render
from hubbub_aggregator.dashboard.api_client import Api, Kept, Question, Reply, in_process
from hubbub_aggregator.dashboard.pages.cards import Cards
from hubbub_aggregator.dashboard.pages.overview import overview
from hubbub_aggregator.dashboard.pages.page_context import Site
from hubbub_aggregator.dashboard.pages.privacy import ask_ledger, privacy_page
from hubbub_aggregator.dashboard.vega_render import MOST_WAITING, Busy, Drawer
from tests.aggregator.dashboard.conftest import CODEBOOK, TOKEN, Visited
from tests.aggregator.dashboard.markup import Page

GUARDED = ["/", "/metric/dark_mode", "/privacy", "/operations", "/chart/series/dark_mode.svg", "/chart/ledger/all.png"]
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASIC = {"Authorization": "Basic " + base64.b64encode(f"anyone:{TOKEN}".encode()).decode()}


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_token_a_browser_is_asked_for_one(empty: Visited, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer another-token-here"}):
        answer = empty.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert answer.headers["cache-control"] == "no-store"
        assert "dark_mode" not in answer.text


@pytest.mark.parametrize("headers", [BEARER, BASIC])
def test_with_it_pages_open_as_bearer_and_basic(empty: Visited, headers: dict[str, str]) -> None:
    for path in ("/", "/metric/dark_mode", "/privacy", "/operations"):
        assert empty.get(path, headers=headers).status_code == 200
    # nothing that was kept for one caller is given to another
    assert empty.get("/").status_code == 401
    assert empty.get("/privacy").status_code == 401


def test_what_is_collected_is_open_to_everybody(empty: Visited) -> None:
    answer = empty.get("/what-is-collected")
    assert answer.status_code == 200
    for words in ("DO_NOT_TRACK", "HUBBUB_DISABLED", "client.disable()", "python -m hubbub_client disable"):
        assert words in answer.text
    assert "That you take part is not hidden" in answer.text


def test_a_newcomer_gets_a_snippet_that_fits_the_codebook(empty: Visited) -> None:
    page = Page(empty.get("/", headers=BEARER).text)
    snippet = page.all("pre")[0].text
    calls = [node for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Call)]
    client = next(call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Client")
    assert ast.literal_eval(client.args[0]) == "https://reports.example.com"
    given = {one.arg: one.value for one in client.keywords}
    assert ast.literal_eval(given["trust"]) == empty.service.anchor
    book = Codebook.from_toml(CODEBOOK)
    records = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "record"]
    recorded = {ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1]) for call in records}
    assert set(recorded) == {metric.name for metric in book.metrics}
    assert all(book.metric(name).values.takes(value) for name, value in recorded.items())
    assert "17 Jan 2027, 00:00 UTC" in page.text  # the end of the period, and a day of grace


def test_an_empty_aggregator_says_what_to_expect_everywhere(empty: Visited) -> None:
    for path in ("/", "/metric/dark_mode", "/privacy", "/operations"):
        page = Page(empty.get(path, headers=BEARER).text)
        found = [one.text for tag in ("p", "div", "section") for one in page.all(tag, class_="empty")]
        assert found
        assert all(len(text.strip()) >= 5 for text in found)


async def _asked(visited: Visited, kept: Kept) -> list[tuple[str, int]]:
    sent: list[tuple[str, int]] = []
    ask = in_process(visited.app)

    async def send(question: Question) -> Reply:
        reply = await ask(question)
        sent.append((question.path, reply.status))
        return reply

    site = Site(Api(send, kept), Drawer())
    await overview(site, Cards(patience=None))
    await privacy_page(site, ask_ledger, None)
    return sent


async def test_only_public_routes_are_asked_and_again_for_nothing(populated: Visited) -> None:
    kept = Kept()
    first = await _asked(populated, kept)
    again = await _asked(populated, kept)
    public = set(populated.app.openapi()["paths"])
    names = ("dark_mode", "nasty", "startup_ms")
    assert {path for path, _ in first} <= {path.replace("{name}", name) for path in public for name in names}
    refused = {path for path, status in first if status not in (200, 304)}
    assert refused <= {"/v1/metrics/startup_ms/compare"}  # it was edited: there is nothing to compare with
    assert {path for path, status in again if status == 200} == {"/v1/status"}


def test_what_is_kept_is_bounded() -> None:
    kept = Kept(most=3)
    for number in range(10):
        kept.put(("x", str(number)), "tag", 10, number)
    assert [kept.get(("x", str(number))) is not None for number in range(10)] == [False] * 7 + [True] * 3
    kept.put(("x", "large"), "tag", 2**30, "one")
    assert kept.get(("x", "9")) is None
    assert kept.get(("x", "large")) == ("tag", "one")


def test_the_status_says_what_operators_ask(populated: Visited) -> None:
    status = populated.get("/v1/status").json()
    assert status["discarded"] == [{"metric": "nasty", "period": "2027-01-11", "reason": "too-few"}]
    assert status["storage"]["kind"] == "sqlite"
    assert status["storage"]["bytes"] > 10_000
    assert status["single_operator"] is True
    assert status["time"] == "2027-01-15T10:00:00Z"
    newest = populated.get("/v1/metrics").json()["metrics"][2]["versions"]
    assert [version["bounds"] for version in newest] == [[0.0, 5000.0], [0.0, 6000.0]]


def test_releases_are_asked_for_from_a_period_on(populated: Visited) -> None:
    def periods(query: str) -> list[str]:
        found = populated.get(f"/v1/releases?metric=dark_mode&{query}").json()
        return [release["period"]["label"] for release in found["releases"]]

    assert periods("from=2027-01-13") == ["2027-01-13", "2027-01-14"]
    assert periods("from=1970-01-01") == ["2027-01-11", "2027-01-12", "2027-01-13", "2027-01-14"]
    first = populated.get("/v1/releases?metric=dark_mode&from=2027-01-12&limit=2").json()
    assert periods(f"from=2027-01-12&after={first['next']}") == ["2027-01-14"]
    assert populated.get("/v1/releases?from=yesterday").status_code == 422


async def test_only_so_many_wait_for_charts() -> None:
    drawer, opened = Drawer(), threading.Event()
    waiting = [asyncio.create_task(drawer.run(opened.wait)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)  # all of them ask
    with pytest.raises(Busy):
        await drawer.run(opened.wait)
    opened.set()
    await asyncio.gather(*waiting)
    assert await drawer.run(int, "7") == 7


def test_one_too_many_is_told_to_come_again(populated: Visited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vega_render, "MOST_WAITING", 0)
    for path in ("/metric/dark_mode", "/chart/series/dark_mode.svg"):
        answer = populated.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "Try again in a few seconds" in answer.text
    assert populated.get("/operations").status_code == 200  # it has no chart


@pytest.mark.parametrize("path", ["/", "/metric/dark_mode", "/operations", "/what-is-collected"])
def test_a_head_is_answered_as_a_page_is(populated: Visited, path: str) -> None:
    answer = populated.head(path)
    assert answer.status_code == 200
    assert answer.headers["etag"] == populated.get(path).headers["etag"]


def test_a_head_needs_the_token_too(empty: Visited) -> None:
    assert empty.head("/").status_code == 401


@pytest.mark.parametrize("path", GUARDED)
def test_no_tag_of_somebody_else_opens_a_page(empty: Visited, path: str) -> None:
    tag = empty.get(path, headers=BEARER).headers.get("etag", "*")
    for given in (tag, "*"):
        assert empty.get(path, headers={"If-None-Match": given}).status_code == 401
